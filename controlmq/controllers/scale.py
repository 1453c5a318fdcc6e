"""Holds a rate without a model: the prefetch is scaled by goal over rate."""

from __future__ import annotations

from controlmq.controllers.freeze import frozen
from controlmq.controllers.limits import Limits
from controlmq.sample import Sample

LEAST_REMOVED_ERROR_SHARE = 0.25
"""Share of the error that is removed however noisy the rate is."""

NOISE_MULTIPLE = 9.0
"""An error of three standard deviations of the noise is half removed."""

NOISE_FORGETTING = 0.1
"""Share that the newest difference has in the noise."""

SMALLEST_FACTOR, LARGEST_FACTOR = 0.05, 4.0
"""Factors by which the prefetch changes at most in a step."""

MESSAGES_TO_DECIDE = 10.0
"""Messages that the goal must have asked for before a step: a count is never better than 1."""

MESSAGES_OFF = 2.0
"""Messages that the count may be off before a step is taken earlier."""


class Scale:
    """``u <- u [1 + s (goal/y - 1)]``: answers big errors at once and does not chase noise.

    The share ``s = max(0.25, e^2 / (e^2 + 9 n))``, with ``e`` the relative error and ``n`` the
    variance of the rate about what each step should have made of it: an error that stands out of
    the noise is removed in one step, another one in several. Below the knee of a consumer the
    rate follows the prefetch in proportion, which is all that the law assumes.

    At low rates it counts over several samples, those without a message included, until the goal
    has asked for 10 messages or the count is off by 2.
    """

    kind = "scale"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._asked = self._arrived = 0.0
        self._noise = 0.0
        self._expected: float | None = None
        """What the last step should have made of the rate, as a multiple of the goal."""
        self._prefetch: float | None = None

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval."""
        if frozen(sample, goal) or sample.prefetch != self._prefetch:
            # What was counted belongs to another prefetch, or to a queue that ran dry.
            self._asked = self._arrived = 0.0
        self._prefetch = sample.prefetch
        if frozen(sample, goal):
            return self.limits.clamp(sample.prefetch)
        self._asked += goal * sample.interval
        self._arrived += sample.arrivals
        off = abs(self._arrived - self._asked)
        if self._asked < MESSAGES_TO_DECIDE and off < MESSAGES_OFF:
            return self.limits.clamp(sample.prefetch)
        relative = self._arrived / self._asked
        self._asked = self._arrived = 0.0
        self._prefetch = self.limits.clamp(sample.prefetch * self._factor(relative))
        return self._prefetch

    def _factor(self, relative: float) -> float:
        """The factor on the prefetch for a rate that is ``relative`` times the goal."""
        if self._expected is not None:
            noise = (relative - self._expected) ** 2 / 2
            self._noise += NOISE_FORGETTING * (noise - self._noise)
        squared = (relative - 1) ** 2
        share = squared / (squared + NOISE_MULTIPLE * self._noise) if squared else 0.0
        wanted = 1 / relative if relative > 0 else LARGEST_FACTOR
        factor = 1 + max(share, LEAST_REMOVED_ERROR_SHARE) * (wanted - 1)
        factor = min(max(factor, SMALLEST_FACTOR), LARGEST_FACTOR)
        self._expected = factor * relative
        return factor
