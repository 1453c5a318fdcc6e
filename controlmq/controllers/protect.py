"""Takes less when handlers slow down because what is behind them is congested."""

from __future__ import annotations

import math

from controlmq.controllers.limits import Limits
from controlmq.sample import Sample

TOLERATED_FACTOR = 1.5
"""Factor on its floor up to which the handler time is not congestion; as in Gradient2."""

PROTECT_STEP_EXPONENT = 0.5
"""Share of the distance to the wanted prefetch, on a logarithmic scale, that is covered in one
sample."""

LARGEST_GROWTH, LARGEST_CUT = 1.1, 0.7
"""Factors by which the prefetch changes at most in a sample."""

UNTOUCHED_FACTOR, UNTOUCHED_GROWTH = 1.1, 1.5
"""Factor on its floor up to which the handler time shows no congestion at all, and the factor by
which the prefetch grows then: in steps of a tenth, a start from 1 would take half a minute."""

LEAST_SAMPLE_HANDLER_TIMES = 10.0
"""The prefetch grows that fast only if a sample is at least this many handler times long; a shorter
one does not yet show what its prefetch does."""

SMOOTHING_MESSAGES = 200.0
"""Arrivals over which the handler time is smoothed: a sample with as many counts one half."""

JUDGED_CUT_FACTOR = 0.7
"""Factor on the messages at work after which it is judged whether taking less has helped."""

JUDGED_AFTER_SAMPLES = 2
"""Samples with fewer messages at work before that is judged. The first of them still have the times
of messages from before the cut. Judged by these, the floor was raised in one of ten simulated runs
in which others took half of what is behind the handlers."""

WORSE_FACTOR = 1.02
"""Factor by which the handler time must have grown for that judgement to begin again."""

LEAST_RELIEF = 0.3
"""Share of that cut, on a logarithmic scale, by which the handler time must have fallen. Where
messages wait for each other it falls by as much; where work is slower by itself, not at all."""


class Protect:
    """``u <- u (1.5 h0 / h)^0.5``: the handler time ``h`` against its floor ``h0``.

    As long as the handler time is at most half above its floor, the prefetch may grow; where it
    is more, messages wait for something behind the handlers, and fewer of them at once lose
    little. The floor is the lowest handler time, smoothed. At the floor nothing waits at all, and
    the prefetch grows by half with every sample.

    Work that has become slower by itself looks the same at first. But then taking less does not
    help: once there have been 30 % fewer messages at work for a few samples and their time has
    hardly fallen, what it is now becomes the floor.
    """

    kind = "protect"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.floor = math.inf
        """The handler time without congestion, seconds."""
        self._smoothed = 0.0
        self._onset: tuple[float, float] | None = None
        """Messages at work and handler time when congestion was first seen."""
        self._samples_of_cut = 0
        """With fewer messages at work, since then."""

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval; ``goal``, a rate, does not matter here."""
        if not sample.arrivals or sample.handler_time <= 0 or sample.busy <= 0:
            return self.limits.clamp(sample.prefetch)
        weight = sample.arrivals / (sample.arrivals + SMOOTHING_MESSAGES) if self._smoothed else 1.0
        self._smoothed += weight * (sample.handler_time - self._smoothed)
        self.floor = min(self.floor, self._smoothed)
        self._judge(sample.handlers * sample.busy)
        factor = (TOLERATED_FACTOR * self.floor / self._smoothed) ** PROTECT_STEP_EXPONENT
        factor = min(max(factor, LARGEST_CUT), LARGEST_GROWTH)
        untouched = self._smoothed <= UNTOUCHED_FACTOR * self.floor
        if untouched and sample.interval >= LEAST_SAMPLE_HANDLER_TIMES * self._smoothed:
            factor = UNTOUCHED_GROWTH
        return self.limits.clamp(sample.prefetch * factor)

    def _judge(self, at_work: float) -> None:
        """Raise the floor where taking less has not made handlers quicker."""
        if self._smoothed <= TOLERATED_FACTOR * self.floor:
            self._onset = None
        elif self._onset is None or self._smoothed > WORSE_FACTOR * self._onset[1]:
            self._onset = at_work, self._smoothed
            self._samples_of_cut = 0
        elif at_work <= JUDGED_CUT_FACTOR * self._onset[0]:
            self._samples_of_cut += 1
            if self._samples_of_cut > JUDGED_AFTER_SAMPLES:
                before, time = self._onset
                relief = math.log(self._smoothed / time) / math.log(at_work / before)
                if relief < LEAST_RELIEF:
                    self.floor = self._smoothed
                self._onset = None
