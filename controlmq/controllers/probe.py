"""Trying whether a consumer that seems starved is."""

from __future__ import annotations

from controlmq.loop import Sample

TRIED_AFTER_SAMPLES = 3
"""Samples with a starved consumer before more is tried: queues run dry for moments all the time."""

TRIED_FACTOR = 1.5
"""Factor on the prefetch that is tried."""

REST_SAMPLES, LONGEST_REST_SAMPLES = 10, 160
"""Samples after which it is tried again: at first, and at most."""


class Probe:
    """Asks for half as much again, once in a while, where messages come late.

    A live consumer cannot see its queue. Messages that come later than they did mean that the
    queue is short, or that broker or network take longer. Laws stand still in the first case,
    because more slots would bring nothing, and must not in the second. With more slots the rate of
    the second grows: the sensors notice that, and measure the turnaround again. Otherwise the
    prefetch goes back, and the next try comes later each time.
    """

    def __init__(self) -> None:
        self._starved = 0
        """Samples with a starved consumer, lately."""
        self._before = 0.0
        """The prefetch before the try; 0 while nothing is tried."""
        self._rest, self._next_rest = 0, REST_SAMPLES

    def __call__(self, sample: Sample) -> float | None:
        """The prefetch to put in force in place of what laws ask for; None if they know better."""
        if sample.window_limited:
            self._starved = max(self._starved - 1, 0)
            if self._before:
                self._before, self._next_rest = 0.0, REST_SAMPLES
            return None
        if not sample.arrivals:
            return None
        if self._rest:
            self._rest -= 1
            return None
        self._starved += 1
        if self._starved == TRIED_AFTER_SAMPLES:
            self._before = sample.prefetch
            return TRIED_FACTOR * sample.prefetch
        if self._starved == TRIED_AFTER_SAMPLES + 1:
            return sample.prefetch  # this one has the prefetch that is tried, and is judged now
        if self._starved > TRIED_AFTER_SAMPLES + 1:
            before, self._before, self._starved = self._before, 0.0, 0
            self._rest = self._next_rest
            self._next_rest = min(2 * self._next_rest, LONGEST_REST_SAMPLES)
            return before or None
        return None
