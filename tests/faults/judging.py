"""The verdict on a trial, from what was confirmed to the publisher and what the consumer wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.faults.record import HANDLED, Line

UNDER_WAY_SECONDS = 0.25
"""Seconds that an ack or a cancel takes to the broker at most, unless the trial measured more. The
broker may still count slots that the consumer gave up within this time before the fault."""


@dataclass(frozen=True)
class Verdict:
    """What a fault did.

    ``lost``: messages confirmed to the publisher and never handled. ``requeued``: messages that
    came again although no connection had ended that could have had them. ``duplicates``:
    messages handled more than once, or acknowledged and still in the queue at the end;
    ``bound`` is how many there may be, the slots at each connection's loss. ``pause_seconds``:
    the longest time between two messages after the fault. ``losses``: connections that did
    not end in order.
    """

    handled: int
    lost: int
    requeued: int
    duplicates: int
    bound: int
    losses: int
    pause_seconds: float


@dataclass(frozen=True)
class Session:
    """One connection's life: its lines, from ``opened`` to the next ``opened``."""

    lines: Sequence[Line]

    @property
    def orderly(self) -> bool:
        """Whether it was closed, with every handled message acknowledged."""
        return self.lines[-1].event == "closed"

    def slots_at_end(self, fault_at: float, under_way: float) -> int:
        """Messages that the broker may have had in flight when the connection ended."""
        since = min(fault_at, self.lines[-1].time) - under_way
        return max((line.slots for line in self.lines if line.time >= since), default=0)

    def redelivered(self) -> int:
        """Deliveries that came again."""
        return sum(line.redelivered for line in self.lines)

    def twice(self) -> int:
        """Deliveries of messages that this very connection had handled already."""
        numbers = Counter(line.number for line in self.lines if line.event == "handled")
        return sum(numbers.values()) - len(numbers)


def judge(
    lines: Sequence[Line],
    confirmed: Collection[int],
    fault_at: float,
    *,
    under_way: float = UNDER_WAY_SECONDS,
    left: int = 0,
    unsettled_since: float | None = None,
) -> Verdict:
    """The verdict on one trial whose fault came at ``fault_at``.

    ``under_way`` is how long an ack may have taken to the broker (seconds).
    ``left`` are messages in the queue at the end, after the last connection closed in order. A
    killed broker forgets acks that it has not stored, from whatever consumer: what was handled
    since ``unsettled_since`` may come again.
    """
    lives = sessions(lines)
    handled = Counter(line.number for line in lines if line.event in HANDLED)
    since = fault_at if unsettled_since is None else unsettled_since
    forgotten = sum(line.event == "handled" and since <= line.time <= fault_at for line in lines)
    slots = [each.slots_at_end(fault_at, under_way) for each in lives]
    return Verdict(
        handled=len(handled),
        lost=len(set(confirmed) - handled.keys()),
        requeued=_requeued(lives, slots, forgotten),
        duplicates=sum(handled.values()) - len(handled) + left,
        bound=forgotten + sum(n for n, each in zip(slots, lives, strict=True) if not each.orderly),
        losses=sum(not each.orderly for each in lives),
        pause_seconds=_longest_pause(lines, fault_at),
    )


def sessions(lines: Sequence[Line]) -> list[Session]:
    """The connections of these lines, in order."""
    starts = [number for number, line in enumerate(lines) if line.event == "opened"]
    return [
        Session(lines[start:end]) for start, end in pairwise([*starts, len(lines)]) if end > start
    ]


def _requeued(lives: Sequence[Session], slots: Sequence[int], forgotten: int) -> int:
    """Redeliveries that no ended connection explains.

    Before the first connection has ended there is no reason for one. Afterwards there are at most
    as many, all in all, as the ended connections had slots and as the broker forgot acks.
    """
    explained, seen, unexplained = 0, 0, 0
    for session, slots_at_end in zip(lives, slots, strict=True):
        seen += session.redelivered()
        unexplained = max(unexplained, seen - explained)
        explained += slots_at_end + forgotten
    return max(unexplained, sum(each.twice() for each in lives))


def _longest_pause(lines: Sequence[Line], fault_at: float) -> float:
    times = [line.time for line in lines if line.event == "handled"]
    return max((b - a for a, b in pairwise(times) if b >= fault_at), default=0.0)
