"""Lanes: the consumers at the broker of which one adaptive consumer is made.

Which lanes to open, merge and retire is decided in :mod:`controlmq.consumer.retiring`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from controlmq.consumer.consumer import Consumer


class Held(NamedTuple):
    """A held ack: its tag, its lane, and since when (seconds)."""

    tag: int
    lane: Lane
    since: float


@dataclass(slots=True, eq=False)
class Lane:
    """One consumer at the broker: a tag, never used twice, and a prefetch, never changed.

    ``received`` counts messages that have come to the client and ``answered`` those whose ack,
    nack or reject is on the wire, both since the lane was opened; ``waiting`` are those that
    have come and are not handed over yet, as far as the client tells. A lane that is
    ``retiring`` keeps the acks of its messages in ``kept`` until all its slots are occupied:
    then nothing can be on its way to the lane, and cancelling it requeues nothing. A
    ``cancelled`` lane gets no more messages and counts for what it still has unacknowledged.
    ``parked`` are messages that the user has put aside for later: they occupy slots at the broker,
    and count for nothing else.
    """

    tag: str
    size: int
    consumer: Consumer
    received: int = 0
    answered: int = 0
    waiting: int = 0
    parked: int = 0
    retiring: bool = False
    cancelled: bool = False
    kept: list[Held] = field(default_factory=list)

    @property
    def unacked(self) -> int:
        """Messages that have come to the client and whose acknowledgement is not on the wire."""
        return self.received - self.answered

    @property
    def slots(self) -> int:
        """Messages that it may have besides those that are parked."""
        return self.size - self.parked

    @property
    def done(self) -> bool:
        """Whether it got messages, and the answers of all are on the wire."""
        return self.received == self.answered > 0

    @property
    def saturated(self) -> bool:
        """Whether we have a message in every slot, so that none can be on its way."""
        return self.received - self.answered == self.size


def lanes_within(lanes: Sequence[Lane], slots: int) -> list[Lane]:
    """A few lanes that together have at most ``slots``.

    The largest that fit are chosen first, and of equal ones the youngest, so that the first
    lane, which has the user's tag, tends to stay.
    """
    youngest_first = lanes[::-1]
    largest_first = sorted(youngest_first, key=lambda lane: lane.slots, reverse=True)
    return first_within(largest_first, slots)


def first_within(lanes: Sequence[Lane], slots: int) -> list[Lane]:
    """Of ``lanes``, in this order, each that still fits into ``slots``."""
    chosen = []
    for lane in lanes:
        if lane.slots <= slots:
            chosen.append(lane)
            slots -= lane.slots
    return chosen
