"""Scenarios of Vector's adaptive request concurrency, with the bands that it expects.

Parameters and bands are those of vectordotdev/vector, ``tests/data/adaptive-concurrency``. A
service answers each request after a delay that grows with the number of requests in flight; how
many may be is what a law decides. Scenarios with errors are left out, because a consumer gets none
from its broker; so are those of a fixed concurrency.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.loop import Controller, Loop, Sample
from simulator.studies.tournament import peers

SAMPLE_SECONDS = 0.2
"""Seconds a sample: two answers of the service, about as often as Vector changes its limit."""

HANDLERS = 200
"""More than any of these laws uses."""

LIMITS = Limits(1.0, float(HANDLERS))


@dataclass(frozen=True)
class Service:
    """A service and the requests to it.

    An answer takes ``delay`` seconds, with ``n`` in flight ``1 + scale (n - 1)`` times as long,
    and above ``knee`` also ``growth`` times for each; ``jitter`` is the mean of what it takes
    longer by chance, as a share. ``requests`` come every ``interval`` seconds, all at once with 0.
    ``band`` is the mean number in flight that Vector expects.
    """

    name: str
    requests: int
    delay: float
    band: tuple[float, float]
    interval: float = 0.0
    jitter: float = 0.0
    scale: float = 0.0
    knee: int = 0
    growth: float = 1.0

    def factor(self, in_flight: int) -> float:
        """How many times its delay an answer takes."""
        above = max(in_flight - self.knee, 0) if self.knee else 0
        return (in_flight - 1) * self.scale + self.growth**above


SERVICES = (
    Service("constant-link", 500, 0.1, (15.0, 16.0)),
    Service("jittery-link-small", 1000, 0.1, (8.0, 20.0), jitter=0.1),
    Service("medium-send", 500, 0.1, (4.0, 4.5), interval=0.025),
    Service("shallow-knee", 1000, 0.1, (9.0, 11.0), knee=10, growth=1.1),
    Service("slow-link", 200, 0.1, (1.5, 5.0), scale=1.0),
    Service("slow-send-1", 100, 0.05, (0.5, 0.55), interval=0.1),
    Service("slow-send-2", 100, 0.05, (1.0, 1.2), interval=0.05),
)

LAWS: dict[str, Callable[[], Controller]] = {
    "protect": lambda: Selector(Goals(protect=True), LIMITS),
    "vegas": peers.vegas,
    "gradient2": peers.gradient2,
    "envoy": peers.envoy,
    "aimd": peers.aimd,
}
"""Ours first."""


class Requests:
    """A plant: requests to a service, as many at once as the prefetch allows."""

    def __init__(self, service: Service, seed: int) -> None:
        self.service = service
        self.area = 0.0
        """Requests in flight, added up over time."""
        self.now = 0.0
        self.answered = 0
        self.answered_at = 0.0
        """When the last answer came."""
        self._draw = random.Random(seed)
        self._prefetch = 1.0
        self._begun = 0
        self._in_flight: list[tuple[float, float]] = []
        """When the answer comes and how long it takes."""
        self._time = service.delay
        self._number = -1

    @property
    def over(self) -> bool:
        """Whether all requests are answered."""
        return self.answered == self.service.requests

    def actuate(self, prefetch: float) -> None:
        """Allow this number at once; of a fraction, the mean."""
        self._prefetch = prefetch

    def observe(self) -> Sample:
        """Let an interval pass."""
        end = self.now + SAMPLE_SECONDS
        started, seconds, answered, area, starved = self._begun, 0.0, 0, self.area, 0.0
        while True:
            self._begin()
            waits = len(self._in_flight) < int(self._prefetch)
            nexts = [end]
            if self._in_flight:
                nexts.append(self._in_flight[0][0])
            if self._begun < self.service.requests:
                nexts.append(max(self._begun * self.service.interval, self.now + 1e-9))
            then = min(nexts) if waits else min(nexts[:2])
            self.area += len(self._in_flight) * (then - self.now)
            starved += (then - self.now) * waits
            self.now = then
            while self._in_flight and self._in_flight[0][0] <= self.now:
                seconds += heapq.heappop(self._in_flight)[1]
                answered += 1
                self.answered_at = self.now
            if then == end:
                break
        self.answered += answered
        self._number += 1
        if answered:
            self._time = seconds / answered
        busy = (self.area - area) / SAMPLE_SECONDS
        return Sample(
            self._number,
            self.now,
            SAMPLE_SECONDS,
            self._prefetch,
            self._begun - started,
            starved=min(starved / SAMPLE_SECONDS, 1.0),
            in_flight=busy,
            handler_time=self._time,
            handlers=HANDLERS,
            busy=busy / HANDLERS,
        )

    def _begin(self) -> None:
        """Send what has come and is allowed."""
        service = self.service
        allowed = int(self._prefetch) + (self._draw.random() < self._prefetch % 1)
        while (
            self._begun < service.requests
            and self._begun * service.interval <= self.now
            and len(self._in_flight) < allowed
        ):
            self._begun += 1
            factor = service.factor(len(self._in_flight) + 1)
            factor += service.jitter * self._draw.expovariate(1.0)
            taken = service.delay * factor
            heapq.heappush(self._in_flight, (self.now + taken, taken))


def in_flight(service: Service, law: Controller, seed: int = 1) -> float:
    """The mean number of requests in flight until all are answered."""
    plant = Requests(service, seed)
    loop = Loop(plant, law, None)
    while not plant.over:
        loop.step()
    return plant.area / plant.answered_at
