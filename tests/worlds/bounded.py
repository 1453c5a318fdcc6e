"""Worlds whose rate is bounded: what users, networks and handlers do, and a steady demand."""

from __future__ import annotations

import random

from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from tests.worlds.circumstances import Circumstances, disturbed, draw_rate
from tests.worlds.world import World


def bounded_world(seed: int) -> World:
    """A disturbed world with a bound; its books raise when a stretch has more than it allows."""
    rng = random.Random(f"bounded {seed}")
    given = disturbed(rng)
    given.at_most = draw_rate(rng.random)
    return World(seed, given, f"bounded:{seed}")


class SteadyDemand:
    """A queue that never runs dry, before a consumer with the default burst.

    Its prefetch stays at ``target``; with 0, the law for a ceiling moves it, from 1 on.
    """

    def __init__(
        self,
        seed: int,
        rate: float,
        target: float = 40.0,
        handlers: int = 0,
        works: tuple[float, ...] = (0.0003, 0.001),
        timers_late: float = 0.0,
    ) -> None:
        rng = random.Random(f"demand {seed}")
        self.rate = rate
        given = Circumstances(
            target=target or 1.0,
            delay=rng.choice((0.001, 0.0055, 0.02)),
            jitter=rng.choice((0.0, 0.001, 0.01)),
            work=rng.choice(("constant", "uniform", "exponential")),
            mean_work=rng.choice(works),
            handlers=handlers,
            max_hold=10.0,
            interval=1.0,
            at_most=rate,
            timers_late=timers_late,
        )
        if not target:
            given.controlled = True
            given.law = Selector(Goals(at_most=rate), Limits.widest())
        self.capacity = max(handlers, 1) / given.mean_work
        """Messages/second that busy handlers do."""
        self.world = World(seed, given)
        self.world.begin()
        for queue in self.world.queues:
            queue.endless = True
        self.subscription = self.world.program.subscriptions[0]

    @property
    def busy(self) -> float:
        """Share of time for which handlers ran, as the law has seen it."""
        busy = [sample.busy for sample in self.subscription.samples]
        return sum(busy) / len(busy)

    def run(self, seconds: float, settling: float = 2.0) -> tuple[float, float]:
        """Messages/second handed over after settling, and the mean number that waited."""
        self.world.advance(until=self.world.now + settling)
        subscription = self.subscription
        before, since = subscription.received, self.world.now
        subscription.samples.clear()
        sensors = subscription.sensors
        if self.world.circumstances.law is None:
            sensors.close(self.world.now, 1.0)
        self.world.advance(until=since + seconds)
        took = self.world.now - since
        if self.world.circumstances.law is None:
            subscription.samples.append(sensors.close(self.world.now, 1.0))
        gated = [sample.gated for sample in subscription.samples]
        return (subscription.received - before) / took, sum(gated) / len(gated)


DEMAND_WORKS = (0.0003, 0.001, 0.004, 0.02)
"""Seconds of work a message: with the longer ones handlers do less than many a ceiling."""


def drawn_demand(seed: int) -> SteadyDemand:
    """A ceiling from 5 to 500/s, above or below what handlers do, and the law that follows it."""
    rng = random.Random(f"drawn demand {seed}")
    rate = 5 * 100 ** rng.random()
    handlers, late = rng.choice((0, 0, 4)), rng.choice((0.0, 0.001))
    return SteadyDemand(seed, rate, 0.0, handlers, DEMAND_WORKS, late)
