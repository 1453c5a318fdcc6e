"""A consumer that shares a rate with others: its member, the log it reads, and its need.

The log is a stream at the broker, called ``controlmq.shared.`` and the name that the user gave.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from controlmq.clients.backoff import Backoff
from controlmq.clients.channel_runner import Runner, clock
from controlmq.consumer.consumer import Consumer
from controlmq.errors import ControlmqError, InputError
from controlmq.sharing.bound import bound_of
from controlmq.sharing.member import Member

log = logging.getLogger("controlmq")

STREAM_PREFIX = "controlmq.shared."

STREAM_ARGUMENTS = {
    "x-queue-type": "stream",
    "x-max-length-bytes": 2_000_000,
    "x-stream-max-segment-size-bytes": 500_000,
}
"""A member needs the records of some seconds; these are those of some minutes."""

NEW_STREAM_SECONDS = 1.0, 3.0
"""Seconds, drawn between these, that a member waits before it reads an empty stream. Another one
may be declaring it: RabbitMQ 3.10 then answers that it exists, refuses to let it be read (406), or
closes the connection (541). A stream that has a record is complete."""

LOOK_AT_STREAM_SECONDS = 0.25
"""Seconds between two looks whether it has one."""

PREFETCH_RECORDS = 200
"""Records that may be on the way to a member: a stream is read with acks."""

MEASURE_EVERY_SECONDS = 0.5

FORGET_SECONDS = 3.0
FORGET_MESSAGES = 20.0
"""What is measured is forgotten in this time, or in that of so many messages of the goal."""

LACKING_SHARE_OF_TOKENS = 0.7
"""Share of the tokens of a member. Where messages waited for that many, it needs more."""

NEED_FACTOR = 1.1
"""A member whose messages do not wait for tokens needs this times the rate that it hands over."""

LEAST_NEED_SHARE_OF_GOAL = 0.02
"""Share of the goal that a ``consume()`` loop always needs: what waits in it is not seen."""

RETRY_PAUSES_SECONDS = 1.0, 10.0
"""The first and the longest pause before a log that was lost is opened again."""


REFUSALS = (403, 405, 406)
"""Codes with which a broker says that something is not allowed: it will not be, later."""

NO_REPLICA = "does not have a replica"
"""What RabbitMQ says, with code 406, of a stream that is being declared by somebody else."""

FAILURES_BEFORE_WARNING = 3


class SharingRefusedError(ControlmqError):
    """The broker does not allow what members need to find each other."""


class Log(Protocol):
    """A stream at the broker that is read from its end on, as a client library has it."""

    def append(self, record: bytes) -> None:
        """Put a record on the wire, after those before; nothing happens if the log is lost."""

    def close(self) -> None:
        """Read no more, once all that was appended is on the wire."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set a timer that fires whenever the connection is read from, in callbacks too."""

    def cancel_timer(self, timer: Any) -> None:
        """Remove a timer that has not fired."""


class SharedGoal:
    """Lets a consumer hand over what its share of a rate allows, and no message without one.

    A log calls ``opened``, ``read`` and ``lost``. ``settled`` says that the first attempt to open
    it has ended, and ``refusal`` what the broker said if it refused; that is logged unless somebody
    waits for it (``awaited``).
    """

    def __init__(
        self, name: str, goal: float, burst: float | None, runner: Runner, consumer: Consumer
    ) -> None:
        open_log: Callable[[str, SharedGoal], Log] | None
        open_log = getattr(runner.adapter, "open_log", None)
        if open_log is None:
            raise InputError(
                f"shared={name!r} is not for this client library yet; use it with pika or aio-pika."
            )
        self._open_log = open_log
        self.name = name
        self.burst = burst
        self.settled = self.awaited = False
        self.refusal: SharingRefusedError | None = None
        self.member = Member(goal, lambda: uuid.uuid4().hex[:12])
        self._runner = runner
        self._consumer = consumer
        self._log: Log | None = None
        self._left = False
        self._failures = 0
        """Attempts in a row that brought no record."""
        self._timer: object | None = None
        self._pause = Backoff(*RETRY_PAUSES_SECONDS)
        self._measured_at = clock()
        self._handed_over = 0
        self._seen_awaited = 0
        self._taken = self._awaited = self._offered = 0.0
        """Messages handed over, tokens that one waited for, all tokens; older ones count less."""
        self._seconds = 0.0
        self._share_nothing()

    @property
    def stream(self) -> str:
        """The name of the log at the broker."""
        return STREAM_PREFIX + self.name

    @property
    def share(self) -> float:
        """Messages/second that this consumer may hand over now."""
        return self.member.share if clock() < self.member.until else 0.0

    def join(self) -> None:
        """Open the log; the consumer gets a share some time later."""
        if self._log is None and not self._ended:
            self._left = False
            self._log = self._open_log(self.stream, self)

    def _join_again(self) -> None:
        if not self._left:
            self.join()

    def leave(self) -> None:
        """Give the share to the others, and close the log; again at :meth:`join`."""
        if self._left:
            return
        self._left = True
        self.member.leave()
        self._share_nothing()
        self._append()
        self._close()

    def _share_nothing(self) -> None:
        none = bound_of(0.0, -math.inf, self.member.goal, self.burst)
        self._runner.core.share(self._consumer, *none, clock())

    def follow(self, goal: float, burst: float | None) -> None:
        """Share another rate from now on."""
        self.member.goal, self.burst = goal, burst
        self.member.wake(clock())
        self._follow()

    # The log

    def opened(self) -> None:
        """The log is being read."""
        self.settled = True
        self.member.opened(clock())
        self._follow()

    def read(self, position: int, record: bytes) -> None:
        """A record was read."""
        self.refusal = None
        self._failures = 0
        self._pause.reset()
        self.member.read(position, record, clock())
        self._follow()

    def lost(self, why: str, *, code: int | None, connected: bool) -> None:
        """The log was closed: by the broker with a code, by us, or with its connection."""
        if connected:
            self._drop_timer()
        self._timer = self._log = None
        self.settled = True
        self.member.closed(clock())
        self._failures += 1
        if code in REFUSALS and NO_REPLICA not in why:
            first = self.refusal is None
            self.refusal = SharingRefusedError(
                f"shared={self.name!r} needs the stream {self.stream!r}, and the broker refused it "
                f"({why}); allow this user to configure, write and read it and to write to the "
                "default exchange (amq.default), or leave out shared."
            )
            if first and not self.awaited:
                log.error("queue %s: %s", self._consumer.queue, self.refusal)
        elif connected and self._failures == FAILURES_BEFORE_WARNING:
            log.warning(
                "queue %s: the stream %s cannot be read (%s), so nothing is handed over; "
                "trying again",
                self._consumer.queue,
                self.stream,
                why,
            )
        if connected and not self._ended and not self._left:
            self._follow()
            self._runner.adapter.call_later(self._pause.pause(), self._join_again)

    # Time

    @property
    def _ended(self) -> bool:
        return self._runner.stopped or self._consumer.cancelled

    def _wake(self) -> None:
        self._timer = None
        self.member.wake(clock())
        self._follow()

    def _follow(self) -> None:
        """Let the consumer have its share, write what is to be written, set the timer."""
        if self._ended:
            if self._log is not None:
                self.leave()
            return
        now = clock()
        self._measure(now)
        member = self.member
        bound = bound_of(member.share, member.until, member.goal, self.burst)
        self._runner.share(self._consumer, *bound)
        self._append()
        self._set_timer(now)

    def _append(self) -> None:
        records, self.member.outbox = self.member.outbox, []
        for record in records:
            if self._log is not None:
                self._log.append(record)

    def _set_timer(self, now: float) -> None:
        self._drop_timer()
        if self._log is not None:
            at = min(self.member.wake_at, self._measured_at + MEASURE_EVERY_SECONDS)
            self._timer = self._log.call_later(max(0.001, at - now), self._wake)

    def _drop_timer(self) -> None:
        if self._timer is not None and self._log is not None:
            self._log.cancel_timer(self._timer)
        self._timer = None

    def _close(self) -> None:
        self._drop_timer()
        gone, self._log = self._log, None
        if gone is not None:
            gone.close()

    # What it needs

    def _measure(self, now: float) -> None:
        """Find what the consumer could hand over, messages/second."""
        member, gate, seconds = self.member, self._consumer.gate, now - self._measured_at
        lacks = bool(gate.waiting) and not member.share
        if seconds < MEASURE_EVERY_SECONDS and not lacks:
            return
        self._measured_at = now
        kept = math.exp(-seconds / max(FORGET_SECONDS, FORGET_MESSAGES / member.goal))
        awaited = self._consumer.tokens_awaited
        self._awaited = kept * self._awaited + awaited - self._seen_awaited
        self._seen_awaited = awaited
        self._taken = kept * self._taken + gate.handed_over - self._handed_over
        self._handed_over = gate.handed_over
        self._offered = kept * self._offered + member.share * seconds
        self._seconds = kept * self._seconds + seconds
        if lacks or self._awaited >= LACKING_SHARE_OF_TOKENS * self._offered > 0:
            member.need = member.goal
        else:
            least = LEAST_NEED_SHARE_OF_GOAL * member.goal if gate.pulled else 0.0
            member.need = max(least, NEED_FACTOR * self._taken / self._seconds)
