"""The load on a queue: how many publishers, how often, how much, with which bursts."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlmq import published
from controlmq.checks import above_zero, not_negative
from controlmq.errors import InputError


@dataclass(frozen=True)
class Burst:
    """From ``start`` for ``length`` seconds the rate is ``factor`` times as high; 0 is a pause."""

    start: float
    length: float
    factor: float

    def __post_init__(self) -> None:
        not_negative("burst start", self.start)
        above_zero("burst length", self.length)
        not_negative("burst factor", self.factor)


@dataclass(frozen=True)
class Load:
    """``publishers`` that each publish ``size`` bytes every ``mean`` seconds, give or take ``sd``.

    The time between two publishes is normal, cut off at 0.
    """

    publishers: int
    mean: float
    sd: float = 0.0
    size: int = 256
    bursts: Sequence[Burst] = ()

    def __post_init__(self) -> None:
        if self.publishers < 1:
            raise InputError(f"publishers is {self.publishers}; give 1 or more.")
        above_zero("time between publishes", self.mean)
        not_negative("sd of the time between publishes", self.sd)
        if self.size < 0:
            raise InputError(f"size is {self.size}; give 0 bytes or more.")

    @property
    def rate(self) -> float:
        """Messages/second outside of bursts."""
        return self.publishers / self.mean

    def times(self, seed: int = 0) -> Iterator[float]:
        """When messages are published, in seconds from the start, without end."""
        draw = random.Random(seed)
        # Publishers begin at random points of their cycles, as independent ones would.
        due = [draw.random() * self.mean for _ in range(self.publishers)]
        heapq.heapify(due)
        while True:
            time = due[0]
            factor = self._factor(time)
            if factor > 0:
                yield time
                gap = max(0.0, draw.gauss(self.mean, self.sd)) / factor
                heapq.heapreplace(due, time + gap)
            else:
                heapq.heapreplace(due, self._end_of_pause(time) + draw.random() * self.mean)

    def _factor(self, time: float) -> float:
        for burst in self.bursts:
            if burst.start <= time < burst.start + burst.length:
                return burst.factor
        return 1.0

    def _end_of_pause(self, time: float) -> float:
        return max(
            burst.start + burst.length
            for burst in self.bursts
            if burst.start <= time < burst.start + burst.length
        )


EXPERIMENTS = {
    "rosa": Load(
        published.PUBLISHERS,
        published.PUBLISH_EVERY_SECONDS,
        published.PUBLISH_EVERY_SD_SECONDS,
        published.MESSAGE_BYTES,
    )
}
"""Published loads by name."""
