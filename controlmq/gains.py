"""The gains of a controller."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import finite


@dataclass(frozen=True, slots=True)
class Gains:
    """Messages of prefetch per message/second of error: now, summed, and changed.

    ``kp`` answers the error, ``ki`` its sum over the samples so far, ``kd`` its change since
    the last sample.
    """

    kp: float
    ki: float = 0.0
    kd: float = 0.0

    def __post_init__(self) -> None:
        for name in ("kp", "ki", "kd"):
            finite(name, getattr(self, name))
