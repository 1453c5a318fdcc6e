"""Worlds whose rate is bounded: what users, networks and handlers do, and a steady demand."""

from __future__ import annotations

import random

from tests.worlds.circumstances import Circumstances, disturbed, draw_rate
from tests.worlds.world import World


def bounded_world(seed: int) -> World:
    """A disturbed world with a bound; its books raise when a stretch has more than it allows."""
    rng = random.Random(f"bounded {seed}")
    given = disturbed(rng)
    given.at_most = draw_rate(rng.random)
    return World(seed, given, f"bounded:{seed}")


class SteadyDemand:
    """A queue that never runs dry, before a consumer with the default burst."""

    def __init__(self, seed: int, rate: float, target: float = 40.0, handlers: int = 0) -> None:
        rng = random.Random(f"demand {seed}")
        self.rate = rate
        given = Circumstances(
            target=target,
            delay=rng.choice((0.001, 0.0055, 0.02)),
            jitter=rng.choice((0.0, 0.001, 0.01)),
            work=rng.choice(("constant", "uniform", "exponential")),
            mean_work=rng.choice((0.0003, 0.001)),
            handlers=handlers,
            max_hold=10.0,
            interval=1.0,
            at_most=rate,
        )
        self.world = World(seed, given)
        self.world.begin()
        for queue in self.world.queues:
            queue.endless = True
        self.subscription = self.world.program.subscriptions[0]

    def run(self, seconds: float, settling: float = 2.0) -> tuple[float, float]:
        """Messages/second handed over after settling, and the mean number that waited."""
        self.world.advance(until=self.world.now + settling)
        before, since = self.subscription.received, self.world.now
        sensors = self.subscription.sensors
        sensors.close(self.world.now, 1.0)
        self.world.advance(until=since + seconds)
        took = self.world.now - since
        sample = sensors.close(self.world.now, 1.0)
        return (self.subscription.received - before) / took, sample.gated
