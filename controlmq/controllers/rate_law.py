"""What P and PID have in common: when they stand still, and how far they may go."""

from __future__ import annotations

from collections.abc import Mapping

from controlmq.controllers.beyond_range import BeyondRange
from controlmq.controllers.freeze import frozen
from controlmq.controllers.limits import Limits
from controlmq.model import ArxModel
from controlmq.sample import Sample


class RateLaw:
    """A formula inside ``limits``, which stands still where a sample says nothing.

    ``beyond`` keeps the prefetch from growing in vain beyond the range of a model; without it, only
    ``limits`` do. ``models`` has the model that its gains were computed for, if that is known: they
    hold for samples of that model's interval.
    """

    def __init__(self, limits: Limits, beyond: BeyondRange | None, model: ArxModel | None) -> None:
        self.limits = limits
        self.beyond = beyond
        self.models = () if model is None else (model,)

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
