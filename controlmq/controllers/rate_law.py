"""What P and PID have in common: when they stand still, and how far they may go."""

from __future__ import annotations

from collections.abc import Mapping

from controlmq.controllers.beyond_range import BeyondRange
from controlmq.controllers.freeze import frozen
from controlmq.controllers.limits import Limits
from controlmq.loop import Sample


class RateLaw:
    """A formula inside ``limits``, which stands still where a sample says nothing.

    ``beyond`` keeps the prefetch from growing in vain beyond the range of a model; without it, only
    ``limits`` do.
    """

    def __init__(self, limits: Limits, beyond: BeyondRange | None) -> None:
        self.limits = limits
        self.beyond = beyond

    @property
    def told(self) -> Mapping[str, str]:
        """What the user should know at present, by a key."""
        return {} if self.beyond is None else self.beyond.told

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval."""
        if frozen(sample, goal):
            return self.limits.clamp(sample.prefetch)
        prefetch = self.limits.clamp(self._formula(sample, goal))
        return prefetch if self.beyond is None else self.beyond.allowed(sample, goal, prefetch)

    def _formula(self, sample: Sample, goal: float) -> float:
        """The prefetch that the law asks for."""
        raise NotImplementedError
