"""Laws without a model around the core: what its sensors cannot see must not mislead them."""

from __future__ import annotations

import statistics

import pytest

from controlmq.controllers import controller_from
from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.loop import Sample
from controlmq.model import ArxModel
from tests.worlds.bounded import SteadyDemand
from tests.worlds.circumstances import Circumstances
from tests.worlds.world import World

WORK, DELAY = 0.004, 0.02
"""Seconds of work, and of one direction of the network."""

SLOW = pytest.mark.slow


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


@pytest.mark.parametrize("seconds", [10, pytest.param(20, marks=SLOW)])
@pytest.mark.parametrize("handlers", [0, pytest.param(4, marks=SLOW)])
@pytest.mark.parametrize(
    ("rate", "factor"), [(400.0, 4.7), pytest.param(400.0, 2.0, marks=SLOW), (50.0, 4.7)]
)
def test_a_longer_round_trip_costs_a_ceiling_little(
    rate: float, factor: float, handlers: int, seconds: int
) -> None:
    """What would have been handed over in 1.2 s; the rate is back after six samples."""
    running = world(Goals(at_most=rate), work=0.001, jitter=0.0, handlers=handlers)
    running.circumstances.delay = 0.0055
    running.advance(until=seconds + 0.5)
    samples(running).clear()
    running.circumstances.delay *= factor
    running.advance(until=2 * seconds + 0.5)
    assert sum(rate - sample.rate for sample in samples(running)) < 1.2 * rate


@pytest.mark.parametrize(
    "goals",
    [pytest.param(Goals(), marks=SLOW), Goals(at_most=220)],
    ids=["least", "at most"],
)
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


@pytest.mark.parametrize("handlers", [0, 4])
@pytest.mark.parametrize(
    ("rate", "work"),
    [
        pytest.param(100.0, 0.001, marks=SLOW),
        pytest.param(100.0, 0.004, marks=SLOW),
        (20.0, 0.02),
    ],
)
def test_messages_wait_as_long_as_wanted_where_a_ceiling_keeps_handlers_idle(
    rate: float, work: float, handlers: int
) -> None:
    """Less than they would wait for the ceiling alone, which is about one message's time."""
    wanted = 0.6 / rate
    running = world(Goals(at_most=rate, buffer_time=wanted), work=work, handlers=handlers)
    running.advance(until=60.5)
    settled = samples(running)[20:]
    arrivals = sum(sample.arrivals for sample in settled)
    waited = sum(sample.buffer_time * sample.arrivals for sample in settled) / arrivals
    assert waited == pytest.approx(wanted, rel=0.1)
    assert arrivals / len(settled) > 0.95 * rate
    law = running.circumstances.law
    assert isinstance(law, Selector)
    assert law.in_force == "buffer_time"


@pytest.mark.parametrize("work", [0.001, 0.0035])
def test_a_law_goes_on_beyond_the_range_of_its_model_while_the_rate_follows(work: float) -> None:
    """A model of prefetches up to 10, and a goal that asks for 14; slow handlers can do less."""
    loop_time = 2 * DELAY + work
    model = ArxModel(0.0, 1 / loop_time, 0.0, 1.0, linear_range=(1.0, 10.0))
    law, goal = controller_from("pi", model=model), 14 / loop_time
    running = world(Goals(), work=work)
    running.circumstances.law = lambda sample, _: law(sample, goal)
    running.advance(until=40.5)
    settled = samples(running)[20:]
    assert law.told  # type: ignore[attr-defined]
    if work == 0.001:
        rate = statistics.fmean(sample.rate for sample in settled)
        assert rate == pytest.approx(goal, rel=0.01)
    else:
        assert statistics.median(sample.rate for sample in settled) > 0.95 / work
        assert max(sample.prefetch for sample in settled) < 2.2 * loop_time / work


def test_a_jittered_network_does_not_shake_the_rate() -> None:
    demand = SteadyDemand(63, 465.0, 0.0, works=(0.0003,), timers_late=0.001)
    demand.world.circumstances.jitter = 0.01
    demand.world.advance(until=20.5)
    assert min(sample.rate for sample in demand.subscription.samples[3:]) > 0.98 * 465
