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
from simulator.studies.tournament.plants import Phase, TrialConsumer, drawn, drive, with_rates


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
    prefetches = [4.0]
    for k in range(40):
        arrivals = round(100 * prefetches[-1]) + (-1) ** k * 20
        prefetches.append(law(sample(prefetches[-1], arrivals), 400))
    assert max(abs(prefetch - 4.0) for prefetch in prefetches[-2:]) < 0.3 * 0.05 * 4.0


def settle(law: Scale, goal: float, slope: float = 100.0) -> float:
    """The prefetch after some samples of a rate in proportion to it."""
    prefetch = 4.0
    for _ in range(20):
        prefetch = law(sample(prefetch, round(slope * prefetch)), goal)
    return prefetch


@pytest.mark.parametrize(("before", "goal"), [(100, 400), (650, 100)])
def test_a_changed_goal_is_no_noise(before: float, goal: float) -> None:
    """Two steps later the rate is there, and at first it was as far away as the change is large."""
    law = Scale(Limits(0.1, 50))
    prefetch = settle(law, before)
    for _ in range(2):
        prefetch = law(sample(prefetch, round(100 * prefetch)), goal)
    assert prefetch == pytest.approx(goal / 100, rel=0.1)


def test_another_rate_after_a_queue_that_ran_dry_is_no_noise() -> None:
    """What the law expected of the rate was before the pause."""
    law = Scale(Limits(0.1, 50))
    settle(law, 400)
    law(sample(4.0, 10, starved=0.5), 400)
    assert law(sample(4.0, 200), 400) == pytest.approx(8.0, rel=0.02)


@pytest.mark.parametrize(
    ("handlers", "work", "share", "seconds"),
    [(1, 1.0, 0.5, 4000), (1, 0.2, 0.8, 1000), (8, 1.4, 0.7, 1000)],
)
def test_random_work_at_a_low_rate_leaves_the_mean_right(
    handlers: int, work: float, share: float, seconds: int
) -> None:
    goal = share * handlers / work
    phases = [Phase(seconds, 0.011, work, handlers, goal)]
    plant = TrialConsumer("slow", phases, "exponential")
    found = [
        step.sample for seed in (1, 2, 3) for _, step in drive(plant, Scale(Limits.widest()), seed)
    ]
    assert statistics.fmean(each.rate for each in found) == pytest.approx(goal, rel=0.06)
    assert max(each.prefetch for each in found) < 30


def test_a_goal_that_nothing_reaches_does_not_raise_the_prefetch_to_its_limit() -> None:
    plant = TrialConsumer("busy", [Phase(300, 0.011, 0.005, goal=400)], "exponential")
    law = Scale(Limits.widest())
    steps = [step for _, step in drive(plant, law, 1)]
    assert statistics.fmean(step.sample.prefetch for step in steps) < 30  # 3.2 keep it busy
    told = {sentence for step in steps for sentence in step.told}
    assert any("the goal is 400/s and the rate stays at" in sentence for sentence in told)


def test_growth_that_a_longer_round_trip_needs_is_not_in_vain() -> None:
    """Samples from before and after the change must not be taken for one rate."""
    plant = with_rates(drawn(2, 4242, 2e4))[1]
    assert not any(step.told for _, step in drive(plant, Scale(Limits.widest()), 3))


def test_growth_is_tried_again_where_the_rate_can_follow_later() -> None:
    law, prefetch = Scale(Limits.widest()), 1.0
    for _ in range(60):
        prefetch = law(sample(prefetch, round(min(100 * prefetch, 400))), 800)
    assert prefetch <= 10
    for _ in range(400):
        prefetch = law(sample(prefetch, round(100 * prefetch)), 800)
    assert prefetch == pytest.approx(8, rel=0.02)


def test_it_never_leaves_its_limits_nor_jumps() -> None:
    law = Scale(Limits(1.0, 10.0))
    assert law(sample(1.5, 1), 1e6) == 6.0
    assert Scale(Limits(1.0, 10.0))(sample(8.0, 1), 1e6) == 10.0
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
