"""Finds out whether a consumer that seems starved really is, by trying a larger prefetch."""

from __future__ import annotations

from controlmq.controllers.rest import REST_SAMPLES, Rest
from controlmq.sample import Sample

TRIED_AFTER_SAMPLES = 2
"""Samples in a row with a starved consumer before more is tried: a queue runs dry for a moment, or
a network stalls, all the time."""

TRIED_AT_ONCE_SHARE = 0.5
"""Share of the rate of a bucket, below which more is tried after one such sample: what a moment
costs is less than that, and the bucket keeps what comes too soon from being handed over."""

FALLEN_SHARE = 0.8
"""Share of the rate before: below it a consumer that seemed starved still does, whatever sensors
say, which cannot tell for a while."""

LEAST_PROBED_FACTOR, MOST_PROBED_FACTOR = 2.0, 4.0
"""Factors on the prefetch that is tried: at least, and at most where the rate of a bucket asks for
more."""


class Probe:
    """Tries twice the prefetch or more, now and then, while messages come late.

    A live consumer cannot see its queue. Messages that come later than they did mean that the
    queue is short, or that broker or network take longer. Laws stand still in the first case,
    because more slots would bring nothing, and must not in the second. With more slots the rate of
    the second grows: the sensors notice that, and measure the turnaround again. Otherwise the
    prefetch goes back, and the next try comes later each time. It goes back, too, where no message
    came at all: a queue with next to nothing in it has no use for more slots.
    """

    def __init__(self) -> None:
        self._starved = self._filled = 0
        """Samples in a row with a starved consumer, and with another one."""
        self._rate = 0.0
        """That of the last other one, messages/second."""
        self._before = 0.0
        """The prefetch before the try; 0 while nothing is tried."""
        self._rest = Rest()

    def __call__(self, sample: Sample, rate: float | None) -> float | None:
        """The prefetch to put in force in place of what laws ask for; None if they know better.

        ``rate`` is what a bucket keeps the consumer to, in messages/second.
        """
        self._rest.samples = max(self._rest.samples - 1, 0)
        if not sample.arrivals:
            self._starved = self._filled = 0
            return self._taken_back() if self._before else None
        fallen = self._starved > 0 and not self._before and sample.rate < FALLEN_SHARE * self._rate
        if sample.window_limited and not fallen:
            self._rate = sample.rate
            self._filled += 1
            if self._before or self._filled >= REST_SAMPLES:
                self._rest.forget()
            # The first sample of a try has the old turnaround, which a law must not go by.
            first = self._before and self._starved == TRIED_AFTER_SAMPLES
            self._starved, self._before = 0, 0.0
            return sample.prefetch if first else None
        self._starved, self._filled = self._starved + 1, 0
        # A queue that has been found short is not asked for as much again.
        lacking = rate / sample.rate if rate is not None and self._rest.fresh else 1.0
        at_once = TRIED_AT_ONCE_SHARE * lacking > 1
        if self._rest.samples or (self._starved < TRIED_AFTER_SAMPLES and not at_once):
            return None
        if not self._before:
            self._before, self._starved = sample.prefetch, TRIED_AFTER_SAMPLES
            return min(max(lacking, LEAST_PROBED_FACTOR), MOST_PROBED_FACTOR) * sample.prefetch
        if self._starved == TRIED_AFTER_SAMPLES + 1:
            return sample.prefetch  # the sensors judge by this sample
        return self._taken_back()

    def _taken_back(self) -> float:
        """The prefetch before the try, which was in vain."""
        before, self._before = self._before, 0.0
        self._rest.begin()
        return before
