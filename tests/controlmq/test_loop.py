"""The loop: order of events, recording, and a controller that fails."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import pytest

from controlmq import InputError, Loop, Sample, Transition


class StaticPlant:
    """A consumer whose rate is ten times its prefetch."""

    def __init__(self, prefetch: float = 1.0) -> None:
        self.prefetch = prefetch
        self.number = 0
        self.actuated: list[float] = []
        self.starved = 0.0

    def observe(self) -> Sample:
        sample = Sample(
            self.number,
            float(self.number),
            1.0,
            self.prefetch,
            int(10 * self.prefetch),
            starved=self.starved,
        )
        self.number += 1
        return sample

    def actuate(self, prefetch: float) -> None:
        self.prefetch = prefetch
        self.actuated.append(prefetch)


def test_the_decision_of_one_sample_is_in_force_in_the_next() -> None:
    plant = StaticPlant()
    loop = Loop(plant, lambda sample, goal: sample.prefetch + 1, goal=40)
    steps = list(loop.run(3))
    assert [step.sample.prefetch for step in steps] == [1, 2, 3]
    assert [step.prefetch for step in steps] == [2, 3, 4]


def test_a_transition_pairs_the_prefetch_with_the_rate_it_led_to() -> None:
    rows: list[Transition] = []
    loop = Loop(
        StaticPlant(),
        lambda sample, goal: sample.prefetch + 1,
        goal=40,
        record=rows.append,
        group="g",
        trace="t",
    )
    list(loop.run(3))
    assert rows == [
        Transition("g", "t", 0, 0.0, 1.0, u=2, y=10, y_next=20, window_limited=True),
        Transition("g", "t", 1, 1.0, 1.0, u=3, y=20, y_next=30, window_limited=True),
    ]


def test_a_gap_in_the_sampling_yields_no_row() -> None:
    rows: list[Transition] = []
    plant = StaticPlant()
    loop = Loop(plant, lambda sample, goal: 1.0, goal=40, record=rows.append)
    loop.step()
    plant.number = 5
    loop.step()
    loop.step()
    assert [row.sample for row in rows] == [5]


def test_a_starved_sample_marks_both_rows_it_is_part_of() -> None:
    rows: list[Transition] = []
    plant = StaticPlant()
    loop = Loop(plant, lambda sample, goal: 1.0, goal=40, record=rows.append)
    for starved in (0.0, 0.0, 0.5, 0.0, 0.0):
        plant.starved = starved
        loop.step()
    assert [row.window_limited for row in rows] == [True, False, False, True]


def test_an_unchanged_prefetch_is_not_sent_again() -> None:
    plant = StaticPlant()
    list(Loop(plant, lambda sample, goal: 5.0, goal=40).run(4))
    assert plant.actuated == [5.0]


def raising(sample: Sample, goal: float) -> float:
    raise ZeroDivisionError("broken")


@pytest.mark.parametrize(
    "failing",
    [raising, lambda s, g: math.nan, lambda s, g: math.inf, lambda s, g: -1.0, lambda s, g: "x"],
    ids=["raises", "nan", "infinite", "negative", "text"],
)
def test_a_failing_controller_leaves_the_prefetch_and_is_logged_once(
    failing: Callable[[Sample, float], float], caplog: pytest.LogCaptureFixture
) -> None:
    plant = StaticPlant(prefetch=7.0)
    loop = Loop(plant, failing, goal=40)
    with caplog.at_level(logging.WARNING, logger="controlmq"):
        list(loop.run(5))
        assert plant.prefetch == 7.0
        assert len(caplog.records) == 1
        loop.controller = lambda sample, goal: 3.0
        list(loop.run(2))
    assert plant.prefetch == 3.0
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_recorder_that_fails_does_not_stop_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows: list[Transition] = []
    failing = True

    def record(row: Transition) -> None:
        if failing:
            raise OSError(28, "No space left on device")
        rows.append(row)

    loop = Loop(StaticPlant(), lambda sample, goal: 2.0, goal=40, record=record)
    list(loop.run(4))
    failing = False
    list(loop.run(2))
    assert [row.sample for row in rows] == [3, 4]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_goal_set_later_is_checked_too() -> None:
    loop = Loop(StaticPlant(), raising, goal=40)
    with pytest.raises(InputError, match="goal"):
        loop.goal = math.nan
    assert loop.goal == 40


def test_a_goal_may_be_taken_away() -> None:
    loop = Loop(StaticPlant(), lambda sample, goal: sample.prefetch, goal=40)
    loop.goal = None
    assert math.isnan(loop.goal)
    assert math.isnan(loop.step().goal)


@pytest.mark.parametrize("goal", [0, -1, math.nan, math.inf])
def test_a_goal_must_be_above_0(goal: float) -> None:
    with pytest.raises(InputError, match="goal"):
        Loop(StaticPlant(), raising, goal=goal)
