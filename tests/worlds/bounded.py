"""Worlds whose rate is bounded: what users, networks and handlers do, and a steady demand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from heapq import heapify, heapreplace

from controlmq.consumer.bucket import Bucket
from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from tests.worlds.circumstances import Circumstances, disturbed, draw_rate
from tests.worlds.world import World


def bounded_world(seed: int) -> World:
    """A disturbed world with a bound; its books raise when a stretch has more than it allows."""
    rng = random.Random(f"bounded {seed}")
    given = disturbed(rng, seed)
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
        self._draw = self.world.work
        self._started_at = 0.0
        """When the first handler started since measuring began."""
        self._works: list[float] = []
        """Seconds of work of the messages that handlers started with since then, in this order."""
        self.world.work = self._work
        self.world.begin()
        for queue in self.world.queues:
            queue.endless = True
        self.subscription = self.world.program.subscriptions[0]

    def _work(self) -> float:
        if not self._works:
            self._started_at = self.world.now
        self._works.append(self._draw())
        return self._works[-1]

    def share_of_attainable(self) -> float:
        """Messages that handlers started with, per those if one always waits before their door.

        The bound and its burst are the same, and so is the work of each message since :meth:`run`
        began to measure; timers are in time. A handler that works for long loses tokens for which
        the burst has no room, whatever the prefetch is.
        """
        started = len(self._works)
        return started / self._attainable(self.world.now - self._started_at)

    def capacity_of_drawn_work(self) -> float:
        """Messages/second that busy handlers do with the work drawn since measuring began."""
        mean_work = sum(self._works) / len(self._works)
        return max(self.world.circumstances.handlers, 1) / mean_work

    def _attainable(self, seconds: float) -> int:
        handlers = self.world.circumstances.handlers
        burst = self.world.circumstances.largest_burst(self.rate)
        bucket = Bucket(self.rate, burst)
        bucket.follow(self.rate, burst, 0.0, empty=True)
        free_at = [0.0] * max(handlers, 1)
        heapify(free_at)
        handed_over = 0.0
        for started, work in enumerate(self._endless_works()):
            # A pool takes messages in before a handler of it is free.
            handed_over = max(handed_over, bucket.ready_at, 0.0 if handlers else free_at[0])
            starts_at = max(handed_over, free_at[0])
            if starts_at > seconds:
                return started
            bucket.take(handed_over)
            heapreplace(free_at, starts_at + work)
        raise AssertionError

    def _endless_works(self) -> Iterator[float]:
        yield from self._works
        while True:
            yield self._draw()

    def run(self, seconds: float, settling: float = 2.0) -> tuple[float, float]:
        """Messages/second handed over after settling, and the mean number that waited meanwhile.

        Both are what the program saw, and nothing that the core says about itself.
        """
        self.world.advance(until=self.world.now + settling)
        subscription = self.subscription
        since = self.world.now
        subscription.wait(since)
        received, waited = subscription.received, subscription.waited
        self._works.clear()
        self.world.advance(until=since + seconds)
        subscription.wait(self.world.now)
        took = self.world.now - since
        return (subscription.received - received) / took, (subscription.waited - waited) / took


DEMAND_WORKS = (0.0003, 0.001, 0.004, 0.02)
"""Seconds of work a message: with the longer ones handlers do less than many a ceiling."""


def drawn_demand(seed: int, target: float = 0.0) -> SteadyDemand:
    """A ceiling from 5 to 500/s, above or below what handlers do, and the law that follows it.

    With a ``target`` the prefetch stays there.
    """
    rng = random.Random(f"drawn demand {seed}")
    rate = 5 * 100 ** rng.random()
    handlers, late = rng.choice((0, 0, 4)), rng.choice((0.0, 0.001))
    return SteadyDemand(seed, rate, target, handlers, DEMAND_WORKS, late)
