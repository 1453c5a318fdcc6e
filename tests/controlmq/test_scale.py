"""The law that holds a rate without a model."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from controlmq import Limits, Loop, Sample
from controlmq.controllers.scale import Scale
from simulator import (
    Consumer,
    Duration,
    Link,
    Publishers,
    Queue,
    Scenario,
    SimulatedConsumer,
    load_scenario,
)


def sample(prefetch: float, arrivals: int, starved: float = 0.0) -> Sample:
    return Sample(1, 1.0, 1.0, prefetch, arrivals, starved=starved)


@pytest.mark.parametrize("interval", [2.0, pytest.param(10.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["rosa", "rosa-noisy"])
@pytest.mark.parametrize("goal", [60.0, 400.0, 1000.0])
def test_it_settles_on_any_goal_that_the_consumer_can_reach(
    name: str, goal: float, interval: float
) -> None:
    scenario = replace(load_scenario(name), sample_interval=interval)
    loop = Loop(SimulatedConsumer(scenario, seed=3), Scale(Limits(0.1, 50)), goal)
    rates = [step.sample.rate for step in loop.run(60)]
    assert statistics.fmean(rates[20:]) == pytest.approx(goal, rel=0.02)
    assert statistics.pstdev(rates[20:]) < 0.05 * goal


def test_a_big_error_is_removed_at_once() -> None:
    law = Scale(Limits(0.1, 50))
    assert law(sample(4.0, 400), 600) == pytest.approx(6.0)


def test_noise_is_not_chased() -> None:
    law = Scale(Limits(0.1, 50))
    prefetches = [law(sample(4.0, 400 + (-1) ** k * 20), 400) for k in range(40)]
    assert max(abs(prefetch - 4.0) for prefetch in prefetches[-2:]) < 0.3 * 0.05 * 4.0


def test_it_never_leaves_its_limits_nor_jumps() -> None:
    law = Scale(Limits(1.0, 10.0))
    assert law(sample(1.5, 1), 1e6) == 6.0
    assert law(sample(8.0, 1), 1e6) == 10.0
    assert law(sample(1.5, 10**6), 1.0) == 1.0


def test_a_dry_queue_leaves_the_prefetch_alone() -> None:
    assert Scale(Limits(0.1, 50))(sample(4.0, 100, starved=0.5), 400) == 4.0


def test_intervals_without_a_message_count() -> None:
    """One message in two seconds, of one second of work each, over 200 seconds."""
    work = Scenario(
        "slow",
        1.0,
        [Publishers("many", "work", Duration(0.5))],
        [Queue("work")],
        [Consumer("one", "work", Duration(1.0), link="near")],
        links=[Link("near", 0.011)],
    )
    loop = Loop(SimulatedConsumer(work, seed=1), Scale(Limits(0.01, 50)), 0.5)
    steps = list(loop.run(220))
    assert sum(step.sample.arrivals for step in steps[20:]) == pytest.approx(100, rel=0.05)
