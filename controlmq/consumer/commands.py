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
class CancelLane:
    """Cancel this lane, and answer with ``lane_cancelled`` as soon as that is on the wire."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Notice:
    """Tell the operator, as a line in the log."""

    text: str


Command = OpenLane | CancelLane | Notice
