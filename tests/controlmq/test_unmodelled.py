"""The law for a consumer that nobody has modelled."""

from __future__ import annotations

import statistics

import pytest

from controlmq import Limits, Loop, Sample
from controlmq.controllers.unmodelled import Unmodelled
from simulator import SimulatedConsumer, load_scenario


def sample(prefetch: float, arrivals: int, starved: float = 0.0) -> Sample:
    return Sample(1, 1.0, 1.0, prefetch, arrivals, starved=starved)


@pytest.mark.parametrize("name", ["rosa", "rosa-noisy"])
@pytest.mark.parametrize("goal", [60.0, 400.0, 1000.0])
def test_it_settles_on_any_goal_that_the_consumer_can_reach(name: str, goal: float) -> None:
    loop = Loop(SimulatedConsumer(load_scenario(name), seed=3), Unmodelled(Limits(0.1, 50)), goal)
    rates = [step.sample.rate for step in loop.run(60)]
    assert statistics.fmean(rates[20:]) == pytest.approx(goal, rel=0.02)
    assert statistics.pstdev(rates[20:]) < 0.05 * goal


def test_a_sample_halves_the_error_of_a_straight_consumer() -> None:
    law = Unmodelled(Limits(0.1, 50))
    assert law(sample(4.0, 400), 600) == pytest.approx(5.0)
    assert law(sample(4.0, 400), 200) == pytest.approx(3.0)


def test_it_never_leaves_its_limits_nor_jumps() -> None:
    law = Unmodelled(Limits(1.0, 10.0))
    assert law(sample(4.0, 1), 1e6) == 8.0
    assert law(sample(8.0, 1), 1e6) == 10.0
    assert law(sample(1.5, 10**6), 1.0) == 1.0


@pytest.mark.parametrize("seen", [sample(4.0, 100, starved=0.5), sample(4.0, 0)])
def test_what_says_nothing_of_the_prefetch_leaves_it_alone(seen: Sample) -> None:
    assert Unmodelled(Limits(0.1, 50))(seen, 400) == 4.0
