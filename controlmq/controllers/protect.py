"""Takes less when handlers slow down because what is behind them is congested."""

from __future__ import annotations

import math

from controlmq.controllers.limits import Limits
from controlmq.sample import Sample

TOLERATED_FACTOR = 1.5
"""Factor on its floor up to which the handler time is not congestion; as in Gradient2."""

PROTECT_STEP_EXPONENT = 0.5
"""Share of the distance to the wanted prefetch, on a logarithmic scale, that is covered in one
sample, or one reading."""

LARGEST_GROWTH, LARGEST_CUT = 1.1, 0.65
"""Factors by which the prefetch changes at most with a sample, or a reading. The largest cut is
enough to be judged, also where some of the messages that it takes away only waited."""

UNTOUCHED_FACTOR, UNTOUCHED_GROWTH = 1.1, 1.5
"""Factor on its floor up to which the handler time shows no congestion at all, and the factor by
which the prefetch grows then: in steps of a tenth, a start from 1 would take half a minute."""

LEAST_SAMPLE_HANDLER_TIMES = 10.0
"""The prefetch grows that fast only if a sample is at least this many handler times long; a shorter
one does not yet show what its prefetch does."""

SMOOTHING_MESSAGES = 200.0
"""Arrivals over which the handler time is smoothed: a sample with as many counts one half."""

READING_MESSAGES = 100.0
"""Messages in a reading, at least: the mean of so many scatters by a tenth where work is
exponential, and a cut that is judged takes a quarter."""

READING_HANDLER_TIMES = 2.0
"""Length of a reading in handler times, at least. Shorter ones do not show what a prefetch does."""

JUDGED_CUT_FACTOR = 0.75
"""Factor on the messages at work after which it is judged whether taking less has helped."""

JUDGED_SAMPLES = 3
"""Samples in the reading by which that is judged, at least: what others take varies."""

LEAST_RELIEF = 0.3
"""Share of that cut, on a logarithmic scale, by which the handler time must have fallen. Where
messages wait for each other it falls by as much; where work is slower by itself, not at all."""

WORSE_FACTOR = 1.3
"""Factor by which the handler time must have grown since before a cut for the cut to begin again:
work is still getting slower, or others take more now."""

BACK_FACTOR = 0.95
"""Factor on the messages at work before a cut, from which on it is over."""


class Protect:
    """``u <- u (1.5 h0 / h)^0.5``: the handler time ``h`` against its floor ``h0``.

    As long as the handler time is at most half above its floor, the prefetch may grow; where it
    is more, messages wait for something behind the handlers, and fewer of them at once lose
    little. The floor is the lowest handler time, smoothed. At the floor nothing waits at all, and
    the prefetch grows by half with every sample.

    Work that has become slower by itself looks the same at first, but then taking less does not
    help. So the handler time ``h1`` and the messages at work ``n1`` are measured before a cut. Once
    ``n <= 0.75 n1``, no more is cut before both are measured again. The cut has helped if::

        ln(h / h1) / ln(n / n1) >= 0.3

    It is 1 where messages only wait for each other, and 0 where work is slower by itself. A cut
    that has not helped is taken back at once, and ``h`` becomes the floor.

    One message at a time does not wait for another of this consumer. So with one handler, or a
    prefetch of at most 1, the handler time is the floor, whatever it is.
    """

    kind = "protect"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.floor = math.inf
        """The handler time without congestion, seconds."""
        self._smoothed = 0.0
        self._reading: _Reading | None = None
        """What is being measured, from when handlers seem to be congested until they are not."""
        self._before: _Reading | None = None
        """What was measured before the present cut."""

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval; ``goal``, a rate, does not matter here."""
        return self.limits.clamp(self._asked(sample) if sample.busy > 0 else sample.prefetch)

    def _asked(self, sample: Sample) -> float:
        if self._reading is not None:
            self._reading.add(sample)
        if sample.handler_time <= 0:
            return sample.prefetch
        messages = max(sample.arrivals, 1)
        weight = messages / (messages + SMOOTHING_MESSAGES) if self._smoothed else 1.0
        self._smoothed += weight * (sample.handler_time - self._smoothed)
        self.floor = min(self.floor, self._smoothed)
        if min(sample.prefetch, sample.handlers) <= 1:
            self._begin_again(self._smoothed)
            self.floor = self._smoothed
        if self._reading is not None:
            return self._judged(self._reading) if self._reading.full else sample.prefetch
        if self._smoothed > TOLERATED_FACTOR * self.floor:
            # Something may have changed in the middle of this sample: measure from now on.
            self._reading = _Reading()
            return sample.prefetch
        untouched = self._smoothed <= UNTOUCHED_FACTOR * self.floor
        if untouched and sample.interval >= LEAST_SAMPLE_HANDLER_TIMES * self._smoothed:
            return sample.prefetch * UNTOUCHED_GROWTH
        return sample.prefetch * self._factor(self._smoothed)

    def _judged(self, reading: _Reading) -> float:
        """The prefetch after a reading, before a cut or since."""
        before, time = self._before, reading.handler_time
        congested = time > TOLERATED_FACTOR * self.floor
        cut = before is not None and reading.at_work <= JUDGED_CUT_FACTOR * before.at_work
        if before is None or time > before.handler_time * (WORSE_FACTOR if cut else 1.0):
            self._before = reading
        elif cut:
            if reading.samples < JUDGED_SAMPLES:
                return reading.prefetch
            if _relief(before, reading) >= LEAST_RELIEF:
                self._before = reading
            elif congested:
                self._begin_again(time)
                self.floor = time
                return max(before.prefetch, reading.prefetch)
        back = before is not None and reading.at_work >= BACK_FACTOR * before.at_work
        if not congested and (back or self._before is reading):
            self._begin_again(time)
            return reading.prefetch
        self._reading = _Reading(skipped=time)
        return reading.prefetch * self._factor(time)

    def _begin_again(self, time: float) -> None:
        """Nothing is congested, at this handler time."""
        self._smoothed = time
        self._reading = self._before = None

    def _factor(self, time: float) -> float:
        factor: float = (TOLERATED_FACTOR * self.floor / time) ** PROTECT_STEP_EXPONENT
        return min(max(factor, LARGEST_CUT), LARGEST_GROWTH)


class _Reading:
    """Samples put together: handler time and messages at work, from ``skipped`` seconds on.

    The messages that end before have begun with another prefetch.
    """

    def __init__(self, skipped: float = 0.0) -> None:
        self.samples = 0
        self.prefetch = math.nan
        """In force at the end."""
        self._skipped = skipped
        self._messages = self._handler_seconds = 0.0
        self._seconds = self._work_seconds = 0.0

    def add(self, sample: Sample) -> None:
        """A sample has been taken."""
        self._skipped -= sample.interval
        if self._skipped > 0:
            return
        self.samples += 1
        self.prefetch = sample.prefetch
        self._seconds += sample.interval
        self._work_seconds += sample.interval * sample.handlers * sample.busy
        if sample.handler_time > 0:
            messages = max(sample.arrivals, 1)
            self._messages += messages
            self._handler_seconds += messages * sample.handler_time

    @property
    def handler_time(self) -> float:
        """Seconds, mean of the messages."""
        return self._handler_seconds / self._messages

    @property
    def at_work(self) -> float:
        """Messages that handlers had, mean over time."""
        return self._work_seconds / self._seconds

    @property
    def full(self) -> bool:
        """Whether it has seen enough."""
        return (
            self._messages >= READING_MESSAGES
            and self._seconds >= READING_HANDLER_TIMES * self.handler_time
        )


def _relief(before: _Reading, after: _Reading) -> float:
    """How much of a cut of the messages at work the handler time has followed; 1 if all of it."""
    cut = math.log(after.at_work / before.at_work)
    return math.log(after.handler_time / before.handler_time) / cut
