"""Commands: what the core asks a client adapter to do, in this order."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.consumer.lanes import Lane


@dataclass(frozen=True, slots=True)
class OpenLane:
    """Subscribe this lane: its prefetch, then its consumer.

    Answer with ``lane_opened`` once the broker has confirmed it, or with ``lane_refused``.
    """

    lane: Lane


@dataclass(frozen=True, slots=True)
class CancelLanes:
    """Cancel these lanes at once: nothing goes back to their queue before the last cancel.

    Answer with ``lane_cancelled`` for each as soon as all cancels are on the wire.
    """

    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """Tell the operator, as a line in the log."""

    text: str


Command = OpenLane | CancelLanes | Notice
