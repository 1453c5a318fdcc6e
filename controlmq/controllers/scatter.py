"""How much the messages of a sample scatter by chance."""

from __future__ import annotations

import math

from controlmq.sample import Sample

SAME_PREFETCH_FACTOR = 1.05
"""Factor up to which two prefetches count as the same."""

LATEST_WEIGHT = 0.1
"""Weight of the latest difference between two samples, once there have been several: of fewer, the
mean would be far too small by chance now and then."""


class Scatter:
    """Messages of samples with the same prefetch, compared one with the next.

    ``share`` is how much they scatter, per what they would if they came at random: 1 then, and at
    first, 0 where all have the same number. Where slots come back at regular times, few messages
    tell a change; where messages come at random, or work is random, it takes many. One message more
    or less is chance anywhere.
    """

    def __init__(self) -> None:
        self.share = 1.0
        self._differences = 0
        self._last: Sample | None = None

    def measure(self, sample: Sample) -> None:
        """Compare a sample with the one before."""
        last, self._last = self._last, sample
        if last is None or not same_prefetch(sample.prefetch, last.prefetch):
            return
        both = sample.arrivals + last.arrivals
        if both:
            found = min((sample.arrivals - last.arrivals) ** 2 / both, 1.0)
            self._differences += 1
            weight = max(1 / (self._differences + 1), LATEST_WEIGHT)
            self.share += weight * (found - self.share)

    def of_difference(self, messages: float, others: float) -> float:
        """The standard deviation of the difference of two counts, in messages."""
        return max(math.sqrt(self.share * (messages + others)), 1.0)

    def of_ratio(self, messages: float, others: float) -> float:
        """The standard deviation of the ratio of two counts near each other, as a share of 1."""
        if not messages or not others:
            return math.inf
        by_chance = math.sqrt(self.share * (1 / messages + 1 / others))
        return max(by_chance, 1 / min(messages, others))


def same_prefetch(prefetch: float, other: float) -> bool:
    """Whether two prefetches count as the same."""
    return max(prefetch, other) <= SAME_PREFETCH_FACTOR * min(prefetch, other)
