"""Integral control without a model: the gain comes from the consumer's own rate."""

from __future__ import annotations

from controlmq.controllers.freeze import frozen
from controlmq.controllers.limits import Limits
from controlmq.loop import Sample

ERROR_SHARE_PER_SAMPLE = 0.5
"""Share of the error that one sample removes. Twice as much would be unstable for a consumer whose
rate follows one sample late."""

LARGEST_STEP_FACTOR = 2.0
"""Factor by which the prefetch grows or shrinks at most: the first samples are unreliable."""


class Unmodelled:
    """``u(k) = u(k-1) + 0.5 [u(k-1) / y(k)] e(k)`` with ``e = goal - y``: needs no model.

    ``y / u`` is the slope of the line from the origin to where the consumer is. Below its knee
    that is about what one more message of prefetch adds, so every sample halves the error,
    whatever the consumer. Beyond the knee the rate does not answer, and the prefetch moves on
    to its limit. A law designed from a model settles sooner and is quieter.
    """

    kind = "unmodelled"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval."""
        if frozen(sample, goal) or not sample.arrivals:
            return self.limits.clamp(sample.prefetch)
        factor = 1 + ERROR_SHARE_PER_SAMPLE * (goal / sample.rate - 1)
        factor = min(max(factor, 1 / LARGEST_STEP_FACTOR), LARGEST_STEP_FACTOR)
        return self.limits.clamp(sample.prefetch * factor)
