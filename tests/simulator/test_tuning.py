"""Tuning in simulation: the points of a search, one loop, the score and the ranking."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from controlmq import ArxModel, InputError, Sample, Step
from controlmq.performance import Score, score
from controlmq.student import mean_interval, t_quantile
from simulator import Change, Scenario, load_scenario
from simulator.studies.tuning_candidates import (
    METRICS,
    Candidate,
    Point,
    Space,
    Trial,
    front,
    rank,
    run_point,
)
from simulator.studies.tuning_candidates.point import steps
from simulator.studies.tuning_candidates.ranking import compare

MODEL = ArxModel(a=0.0, b=80.0, c=0.0, interval=1.0, linear_range=(1.0, 18.0))


def space(**choices: object) -> Space:
    return Space({1.0: MODEL}, **choices)  # type: ignore[arg-type]


def disturbed() -> Scenario:
    scenario = load_scenario("rosa-noisy")
    work = [Change(at=10.0, factor=2.0), Change(at=20.5, factor=1.0)]
    return replace(scenario, consumers=[replace(scenario.consumers[0], work_schedule=work)])


def walk(rates: list[float], goals: list[float] | float, prefetches: list[float]) -> list[Step]:
    """Steps of 2 seconds with these rates, goals and prefetches decided."""
    if not isinstance(goals, list):
        goals = [goals] * len(rates)
    before = [1.0, *prefetches[:-1]]
    return [
        Step(Sample(k, 2.0 * (k + 1), 2.0, before[k], int(2 * rates[k])), goals[k], prefetches[k])
        for k in range(len(rates))
    ]


# One run's score


def test_error_and_effort_add_up_by_hand() -> None:
    found = score(walk([50, 100, 110, 100, 100], 100, [2.0, 2.5, 2.0, 2.0, 2.0]))
    assert found.iae == 2 * (50 + 10)
    assert found.itae == 2 * (2 * 50 + 6 * 10)
    assert found.effort == pytest.approx(1 + 0.5 + 0.5)
    assert found.overshoot == pytest.approx(10)
    assert found.settling == 6
    assert found.recovery == ()
    assert found.mean_recovery == 0


def test_a_goal_step_and_a_disturbance_restart_the_clock() -> None:
    rates = [100.0] * 4 + [150, 200, 200, 200] + [100, 200, 200, 200]
    goals = [100.0] * 4 + [200.0] * 8
    found = score(walk(rates, goals, [1.0] * 12), disturbances=[17.0])
    assert found.settling == 0
    assert found.recovery == (2, 2)
    assert found.itae == 2 * (2 * 50) + 2 * (2 * 100)


def test_a_rate_that_never_settles_counts_all_its_time() -> None:
    found = score(walk([50.0] * 10, 100, [1.0] * 10), disturbances=[10.0])
    assert found.settling == 10
    assert found.recovery == (10,)


def test_the_spread_is_that_of_the_settled_rate_about_its_own_mean() -> None:
    rates = [0.0, 98, 102, 98, 102, 0, 196, 204, 196, 204]
    found = score(walk(rates, [100.0] * 5 + [200.0] * 5, [1.0] * 10))
    first, second = 16 / 3, 64 / 3
    assert found.sd == pytest.approx(((first + second) / 2) ** 0.5)


def test_too_short_a_run_is_not_judged() -> None:
    with pytest.raises(InputError, match="too few"):
        score(walk([1.0] * 3, 1.0, [1.0] * 3))


# Intervals of means


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (19, 2.09302), (120, 1.97993)],
)
def test_the_interval_is_students(freedom: int, expected: float) -> None:
    assert t_quantile(freedom) == pytest.approx(expected, rel=1e-5)


def test_an_interval_needs_a_spread() -> None:
    found = mean_interval([1.0, 3.0])
    assert (found.mean, found.high - 2) == pytest.approx((2.0, 12.7062), rel=1e-5)
    with pytest.raises(InputError, match="at least 2 seeds"):
        mean_interval([1.0])


# Candidates


def test_a_grid_has_every_combination_once() -> None:
    found = space(
        kinds=("p", "pi", "pid"), settling=(2.0, 8.0), overshoot=(0.0, 5.0), upper=(9.0, 12.0)
    ).grid()
    assert len(found) == (2 + 4 + 4) * 2
    assert [candidate.number for candidate in found] == list(range(1, 21))
    assert len({candidate.tuning for candidate in found}) == 20
    assert {candidate.upper for candidate in found} == {9.0, 12.0}


def test_poles_go_to_the_laws_with_as_many() -> None:
    found = space(kinds=("p", "pi"), poles=((0.5,), (0.3 + 0.2j, 0.3 - 0.2j))).grid()
    assert [candidate.tuning.kind for candidate in found] == ["p", "pi"]
    assert found[0].tuning.gains.kp == pytest.approx((0.0 - 0.5) / 80)


def test_a_random_search_stays_between_the_ends_and_repeats_with_its_seed() -> None:
    choices = space(kinds=("pi",), settling=(2.0, 8.0), overshoot=(0.0, 10.0), upper=(9.0, 12.0))
    found = choices.at_random(50, seed=3)
    assert found == choices.at_random(50, seed=3)
    assert found != choices.at_random(50, seed=4)
    assert all(9 <= candidate.upper <= 12 for candidate in found)
    assert len({candidate.tuning for candidate in found}) == 50


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"kinds": ("lqr",)}, "give one of p, pi, pid"),
        ({"kinds": ()}, "nothing to search"),
        ({"kinds": ("pi",), "poles": ((0.1,),)}, "a set of 1 poles fits none of pi; give 2 for pi"),
        ({"kinds": ("pi",), "poles": ((0.1, 1.5),)}, "outside the unit circle"),
        ({"upper": (0.5,)}, "an upper limit is 0.5; the model holds"),
    ],
)
def test_what_cannot_be_searched_is_refused(choices: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        space(**choices)


# One point


def test_a_point_is_a_closed_loop_with_the_disturbances_of_its_scenario() -> None:
    (candidate,) = space(kinds=("pi",), settling=(2.0,), overshoot=(0.0,)).grid()
    trial = Trial(disturbed(), (400.0, 600.0), 40.0)
    point = Point(candidate.tuning, trial, seed=5)
    assert trial.disturbances == [10.0, 20.5]
    taken = list(steps(pickle.loads(pickle.dumps(point))))
    assert [step.goal for step in taken] == [400.0] * 20 + [600.0] * 20
    assert {step.sample.interval for step in taken} == {1.0}
    found = run_point(point)
    assert found == run_point(point)
    # The goal step and the end of the slow work fall into one interval.
    assert len(found.recovery) == 2
    assert 0 < found.settling < 10
    assert found.iae > 0


def test_a_trial_too_short_for_its_interval_is_refused() -> None:
    with pytest.raises(InputError, match="30 seconds are 3 samples of 10 s"):
        Trial(disturbed(), (400.0,), 30.0).samples(10.0)


# Ranking


def scored(iae: float, effort: float) -> Score:
    return Score(iae, iae, 1.0, 0.0, 1.0, (2.0, 4.0), effort)


def test_the_lowest_mean_wins_and_the_front_has_what_none_beats() -> None:
    tuning = space(kinds=("pi",), settling=(2.0,), overshoot=(0.0,)).grid()[0].tuning
    figures = {1: (10.0, 9.0), 2: (20.0, 1.0), 3: (15.0, 5.0), 4: (16.0, 6.0)}
    candidates = [Candidate(number, tuning, "") for number in figures]
    scores = {
        number: {seed: [scored(iae + seed, effort), scored(iae, effort)] for seed in (1, 2)}
        for number, (iae, effort) in figures.items()
    }
    ranked = rank(scores, candidates, "iae")
    assert [each.candidate.number for each in ranked] == [1, 3, 4, 2]
    assert ranked[0].means["iae"].mean == pytest.approx(10.75)
    assert ranked[0].means["recovery"].mean == 3
    assert set(ranked[0].means) == set(METRICS)
    assert [each.candidate.number for each in front(ranked, "iae", "effort")] == [1, 3, 2]
    assert [each.candidate.number for each in rank(scores, candidates, "effort")] == [2, 3, 4, 1]
    difference = compare(scores[1], scores[2])
    assert difference["iae"].high < 0 < difference["effort"].low
