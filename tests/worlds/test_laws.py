"""Laws without a model around the core: what its sensors cannot see must not mislead them."""

from __future__ import annotations

import statistics

import pytest

from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.loop import Sample
from tests.worlds.bounded import SteadyDemand
from tests.worlds.circumstances import Circumstances
from tests.worlds.world import World

WORK, DELAY = 0.004, 0.02
"""Seconds of work, and of one direction of the network."""


def world(goals: Goals, **how: float) -> World:
    """A queue that never runs dry before a consumer with these goals."""
    rate, burst = goals.pace(controlled=False)
    given = Circumstances(
        target=1.0,
        delay=DELAY,
        jitter=how.get("jitter", 0.0005),
        work="uniform",
        mean_work=how.get("work", WORK),
        handlers=int(how.get("handlers", 0)),
        max_hold=10.0,
        interval=1.0,
        controlled=True,
        law=Selector(goals, Limits.widest()),
        at_most=rate or 0.0,
        burst=burst,
        timers_late=0.001,
    )
    found = World(1, given)
    found.begin()
    for queue in found.queues:
        queue.endless = True
    return found


def samples(world: World) -> list[Sample]:
    return world.program.subscriptions[0].samples


def test_the_least_prefetch_follows_a_round_trip_that_triples() -> None:
    """Messages that come late look like those of a queue that is short, at first."""
    running = world(Goals())
    running.advance(until=15.0)
    running.circumstances.delay = 3 * DELAY
    running.advance(until=45.5)
    settled = statistics.fmean(sample.busy for sample in samples(running)[35:])
    assert settled > 0.97
    assert statistics.fmean(sample.busy for sample in samples(running)[30:35]) > 0.97 * settled


def test_a_ceiling_is_reached_again_when_the_round_trip_triples() -> None:
    running = world(Goals(at_most=150))
    running.advance(until=15.0)
    running.circumstances.delay = 3 * DELAY
    running.advance(until=40.5)
    assert min(sample.rate for sample in samples(running)[30:]) > 0.98 * 150


@pytest.mark.parametrize("handlers", [0, 4])
@pytest.mark.parametrize(("rate", "factor"), [(400.0, 4.7), (400.0, 2.0), (50.0, 4.7)])
def test_a_longer_round_trip_costs_a_ceiling_little(
    rate: float, factor: float, handlers: int
) -> None:
    """What would have been handed over in 1.2 s."""
    running = world(Goals(at_most=rate), work=0.001, jitter=0.0, handlers=handlers)
    running.circumstances.delay = 0.0055
    running.advance(until=20.5)
    samples(running).clear()
    running.circumstances.delay *= factor
    running.advance(until=40.5)
    assert sum(rate - sample.rate for sample in samples(running)) < 1.2 * rate


@pytest.mark.parametrize("goals", [Goals(), Goals(at_most=220)], ids=["least", "at most"])
def test_a_short_queue_is_not_taken_for_a_long_round_trip(goals: Goals) -> None:
    """100 messages/second come, to a consumer that could do 220 and more."""
    running = world(goals)
    running.advance(until=10.0)
    for queue in running.queues:
        queue.endless = False
    before = samples(running)[-1].prefetch
    for tick in range(1, 6001):
        running.advance(until=10.0 + tick / 100)
        running.broker.publish(running.queues[0], 1)
    starved = samples(running)[20:]
    assert max(sample.prefetch for sample in starved) <= 2.25 * before
    assert statistics.fmean(sample.prefetch for sample in starved) < 1.2 * before


@pytest.mark.parametrize("goals", [Goals(at_most=1 / 12), Goals(at_most=0.2, buffer_time=4)])
def test_samples_tell_how_long_messages_wait_for_a_slow_ceiling(goals: Goals) -> None:
    running = world(goals)
    gate = running.program.subscriptions[0].consumer.gate
    waits, count = [], gate.count

    def counted(since: float, now: float) -> None:
        waits.append(now - since)
        count(since, now)

    gate.count = counted  # type: ignore[method-assign]
    running.advance(until=119.5)
    told = [sample.buffer_time for sample in samples(running) if sample.arrivals]
    assert told == pytest.approx(waits, abs=0.01)  # one message each
    assert statistics.fmean(waits) > 3


def test_a_pool_whose_size_nobody_told_is_not_flooded() -> None:
    running = world(Goals(at_most=380), handlers=4, work=0.02)
    running.advance(until=40.5)
    assert statistics.fmean(sample.rate for sample in samples(running)[10:]) > 0.97 * 4 / 0.02
    prefetches = [sample.prefetch for sample in samples(running)]
    assert statistics.median(prefetches) < 20
    assert max(prefetches) < 300


def test_a_pool_whose_size_nobody_told_is_kept_busy() -> None:
    running = world(Goals(), handlers=4, work=0.02)
    running.advance(until=40.5)
    assert statistics.fmean(sample.rate for sample in samples(running)[10:]) > 0.97 * 4 / 0.02


def test_a_pool_whose_size_nobody_told_is_found_soon_under_protection() -> None:
    """Messages that wait in it look like congestion, so that some of its capacity stays unused."""
    running = world(Goals(protect=True), handlers=4, work=0.02)
    running.advance(until=40.5)
    assert statistics.fmean(sample.rate for sample in samples(running)[10:]) > 0.92 * 4 / 0.02


def test_a_jittered_network_does_not_shake_the_rate() -> None:
    demand = SteadyDemand(63, 465.0, 0.0, works=(0.0003,), timers_late=0.001)
    demand.world.circumstances.jitter = 0.01
    demand.world.advance(until=20.5)
    assert min(sample.rate for sample in demand.subscription.samples[3:]) > 0.98 * 465
