"""Proportional control around an operating point."""

from __future__ import annotations

from controlmq.controllers.beyond_range import BeyondRange
from controlmq.controllers.limits import Limits
from controlmq.controllers.rate_law import RateLaw
from controlmq.gains import Gains
from controlmq.model import ArxModel
from controlmq.sample import Sample

TRANSFER_SHARE_LEFT_PER_SAMPLE = 0.5
"""Share of a start or gain-change offset that is left one sample later: small after five."""


class P(RateLaw):
    """``u(k) = u0 + Kp e(k)``, with ``u0`` the prefetch at which the model meets the goal.

    Without ``u0`` a stable P controller could not even reach two thirds of its goal on a
    typical consumer; with it the error that remains is the model's. It has no memory of past
    errors, so it never winds up and never removes a model error either.

    Starts and gain changes are bumpless: the difference to the prefetch in force is carried
    along and fades, halving each sample.
    """

    kind = "p"

    def __init__(
        self,
        gains: Gains,
        limits: Limits,
        model: ArxModel,
        *,
        beyond: BeyondRange | None = None,
    ) -> None:
        super().__init__(limits, beyond, model)
        self._gains = gains
        self._model = model
        self._transfer: float | None = None

    @property
    def gains(self) -> Gains:
        """Only ``kp`` counts; ``ki`` and ``kd`` are 0."""
        return self._gains

    @gains.setter
    def gains(self, gains: Gains) -> None:
        self._gains = gains
        self._transfer = None

    def _formula(self, sample: Sample, goal: float) -> float:
        law = self._model.prefetch_for(goal) + self._gains.kp * (goal - sample.rate)
        if self._transfer is None:
            self._transfer = sample.prefetch - law
        else:
            self._transfer *= TRANSFER_SHARE_LEFT_PER_SAMPLE
        return law + self._transfer
