"""A member of those that share a rate: when it may hand over, and what it writes to the log.

The log is a broker's stream: every member reads the same records in the same order, those that it
wrote itself included. A member reads it from some position on, applies each record to its table of
shares (:class:`~controlmq.sharing.shares.Shares`) and writes one record at a time.

Its share is a lease. When it reads its own renewal, it may hand over what that table gives it at
that position for ``LEASE_SECONDS`` from the moment *before* it sent that renewal. Others count from
the moment *after* they have read it, and wait a little longer, before they write that the lease has
ended. So whatever the delays, the lease has ended by then; only the speed of the clocks matters.

An adapter reports what happened, each with the time in seconds, and then does this, in this order:
lets the consumer have ``share`` until ``until``, appends ``outbox`` to the log, and calls
:meth:`Member.wake` at ``wake_at``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from controlmq.sharing.records import Found, Hello, Leave, Record, Renewal, decoded, encoded
from controlmq.sharing.shares import Holding, Shares

LEASE_SECONDS = 4.0
"""Seconds from the sending of a renewal to the end of the lease. All members must have the same."""

ENDED_AFTER_SECONDS = 4.1
"""Seconds after a renewal was read, by the reader's clock, when the lease of its writer must have
ended. Clocks whose speeds differ by less than 2 % are allowed."""

RENEW_EVERY_SECONDS = 1.0
"""Seconds between two renewals if nothing changes: three may be late before a lease ends."""

LEAST_PAUSE_SECONDS = 0.05
"""Seconds between two records of a member if something changes."""

SKIPPED_POSITIONS = 1
"""Positions without a record that a stream has where a new segment of it begins: the broker keeps
notes of its own there. Records that were lost are those of a whole segment or more."""

LEAST_CHANGE_SHARE_OF_TOTAL = 0.02
"""Part of the total by which a member's share must change for a record to be written at once."""


class Member:
    """One of those that share ``goal`` messages/second.

    ``need`` is what it could hand over, messages/second; set it at any time, then ``wake``.
    ``new_name`` makes a name that no member has or had.
    """

    def __init__(self, goal: float, new_name: Callable[[], str]) -> None:
        self.goal = goal
        self.need = 0.0
        self.share = 0.0
        self.until = -math.inf
        self.wake_at = math.inf
        self.outbox: list[bytes] = []
        self.shares: Shares | None = None
        """What all members have; None until it is known."""
        self.name = new_name()
        self._new_name = new_name
        self._open = False
        self._first = 0
        """The first position that was read; all since then were."""
        self._read: int | None = None
        """The last position that was read."""
        self._newest_renewal = -1
        """The position of the last record of a member that knows the shares."""
        self._unknown = -1
        """The position of the last record ``Found`` that cannot be judged here."""
        self._hello: int | None = None
        """The position of our own hello, once it was read."""
        self._hello_read_at = 0.0
        self._asked = False
        """Whether a newcomer waits for the shares."""
        self._backlog: list[tuple[int, Record]] = []
        """Records since our hello, while the shares are not known."""
        self._heard: dict[str, float] = {}
        """When the last record of each member in the table was read."""
        self._sent_at = -math.inf
        self._awaited = False
        """Whether a record was sent and not yet read. There is one at a time."""

    # Events

    def opened(self, now: float) -> None:
        """The log is open: what is written from now on will be read."""
        self._open = True
        self._read = None
        self._first, self._newest_renewal, self._unknown = 0, -1, -1
        self._asked = False
        self._begin()
        self.wake(now)

    def closed(self, now: float) -> None:
        """The log cannot be read or written any more; the lease goes on to its end."""
        self._open = False
        self.outbox.clear()
        self.wake(now)

    def read(self, position: int, body: bytes, now: float) -> None:
        """A record of the log."""
        if not self._open:
            return
        if self._read is None or not 0 < position - self._read <= 1 + SKIPPED_POSITIONS:
            if self._read is not None:
                self._begin()  # some were lost, and with them what the shares are
            self._first, self._newest_renewal, self._unknown = position, -1, -1
        self._read = position
        record = decoded(body)
        if record is not None:
            self._take(position, record, now)
        self.wake(now)

    def leave(self) -> None:
        """Hand over nothing any more, and say so."""
        self.share, self.until = 0.0, -math.inf
        if self._open and self.shares is not None:
            self.outbox.append(encoded(Leave(self.name)))
        self._open = False
        self.wake_at = math.inf

    def wake(self, now: float) -> None:
        """Do what is due."""
        if now >= self.until:
            self.share = 0.0
        if self._open and self._awaited and now >= self._sent_at + LEASE_SECONDS:
            self._begin()  # it was lost, or this process stood still
        if self._open and not self._awaited and now >= self._due_at():
            record = self._next_record(now)
            self._sent_at, self._awaited = now, True
            self.outbox.append(encoded(record))
        due = math.inf
        if self._open:
            due = self._sent_at + LEASE_SECONDS if self._awaited else self._due_at()
        self.wake_at = min(due, self.until) if self.share else due

    def _begin(self) -> None:
        """Join as a newcomer; what it had ends with its lease."""
        self.name = self._new_name()
        self.shares = self._hello = None
        self._backlog.clear()
        self._heard.clear()
        self._awaited = False

    # Reading

    def _take(self, position: int, record: Record, now: float) -> None:
        own = record.by == self.name
        if own:
            self._awaited = False
        if isinstance(record, Hello):
            if own:
                self._hello, self._hello_read_at = position, now
                self._backlog.clear()
            else:
                self._asked = True
        elif isinstance(record, Found):
            self._judge(position, record)
        else:
            if self.shares is None:
                self._learn(record, now)
            self._newest_renewal = position
            if self.shares is None:
                self._backlog.append((position, record))
                return
            self._apply(position, record, now)
            if own and isinstance(record, Renewal):
                self.share = self.shares.members[self.name].share
                self.until = self._sent_at + LEASE_SECONDS

    def _judge(self, position: int, record: Found) -> None:
        """Empty the table if no member that knows them has written anything since that hello."""
        if record.hello < self._first:
            self._unknown = position
        elif self._newest_renewal < record.hello:
            self.shares = Shares()
            self._heard.clear()

    def _learn(self, record: Record, now: float) -> None:
        """Take over the table that a member has sent, if all records since then were read."""
        if not isinstance(record, Renewal) or record.shares is None or self._hello is None:
            return
        if record.read >= max(self._hello, self._unknown):
            self.shares = Shares.from_json(record.shares)
            self._heard = dict.fromkeys(self.shares.members, now)
            for position, earlier in self._backlog:
                if position > record.read:
                    self._apply(position, earlier, now)
            self._backlog.clear()

    def _apply(self, position: int, record: Record, now: float) -> None:
        assert self.shares is not None
        if isinstance(record, Renewal):
            for member, last in record.expired.items():
                self.shares.expired(member, last)
            self.shares.renewed(position, record.by, record.goal, record.keep, record.need)
            self._heard[record.by] = now
        else:
            self.shares.left(record.by)
        if len(self._heard) > len(self.shares.members):
            members = self.shares.members
            self._heard = {each: when for each, when in self._heard.items() if each in members}

    # Writing

    def _due_at(self) -> float:
        """When the next record is to be written, unless something happens before."""
        if self.shares is None:
            if self._hello is None:
                return -math.inf
            return self._hello_read_at + ENDED_AFTER_SECONDS
        soon = self._sent_at + LEAST_PAUSE_SECONDS
        if self._worth_a_record(self.shares):
            return soon
        others = [when for each, when in self._heard.items() if each != self.name]
        ended = min(others, default=math.inf) + ENDED_AFTER_SECONDS
        return min(self._sent_at + RENEW_EVERY_SECONDS, max(ended, soon))

    def _worth_a_record(self, shares: Shares) -> bool:
        mine = shares.members.get(self.name)
        if mine is None:
            return True
        least = LEAST_CHANGE_SHARE_OF_TOTAL * shares.total
        more = self._target(shares) - mine.share
        asks = more > least and self.need - mine.need > least
        return -more > least or min(more, shares.free) > least or asks

    def _target(self, shares: Shares) -> float:
        """The share that we should have with what we need now."""
        mine = Holding(0.0, min(self.need, self.goal), self.goal, -1)
        return Shares(shares.members | {self.name: mine}).target(self.name)

    def _next_record(self, now: float) -> Record:
        shares = self.shares
        if shares is None:
            if self._hello is None or self._newest_renewal > self._hello:
                self._hello = None
                return Hello(self.name)
            return Found(self.name, self._hello)
        mine = shares.members.get(self.name)
        keep = min(mine.share, self._target(shares)) if mine is not None else 0.0
        self.share = min(self.share, keep)  # from now on, so before it is sent
        expired = {
            each: shares.members[each].last
            for each, when in self._heard.items()
            if each != self.name and now >= when + ENDED_AFTER_SECONDS
        }
        assert self._read is not None
        asked, self._asked = self._asked, False
        return Renewal(
            self.name,
            self.goal,
            keep,
            min(self.need, self.goal),
            expired,
            self._read,
            shares.as_json() if asked else None,
        )
