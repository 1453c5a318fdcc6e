"""The control laws, stepped by hand."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq import (
    PI,
    PID,
    ArxModel,
    Gains,
    InputError,
    Limits,
    P,
    Profile,
    Sample,
    Schedule,
    Tuning,
)
from controlmq.clients.settings import settings_from
from controlmq.controllers import OpenLoop, Scale, build, controller_from, ramp, random_levels
from controlmq.controllers.limits import MOST_WITHOUT_LIMITS
from controlmq.controllers.resolve import default_tuning, resolve
from controlmq.loop import Controller

MODEL = ArxModel(a=0.2, b=60.0, c=12.0, interval=1.0, linear_range=(0.0, 20.0))
WIDE = Limits(0.0, 1e9)

rates = st.lists(st.integers(0, 2000), min_size=3, max_size=30)


def sample(rate: float, prefetch: float, number: int = 0, starved: float = 0.0) -> Sample:
    return Sample(number, float(number), 1.0, prefetch, int(rate), starved=starved)


def drive(controller: Controller, measured: list[int], goal: float, prefetch: float) -> list[float]:
    """What the controller puts in force when it measures these rates."""
    decided = []
    for number, rate in enumerate(measured):
        prefetch = controller(sample(rate, prefetch, number), goal)
        decided.append(prefetch)
    return decided


@given(measured=rates)
def test_pi_is_the_published_law(measured: list[int]) -> None:
    kp, ki, goal, start = -0.0016, 0.006, 400.0, 1e6
    expected, u = [], start
    errors = [goal - measured[0], *(goal - rate for rate in measured)]
    for before, now in itertools.pairwise(errors):
        u = u + (kp + ki) * now - kp * before
        expected.append(u)
    assert drive(PI(Gains(kp, ki), WIDE), measured, goal, start) == pytest.approx(expected)


@given(measured=rates)
def test_pid_is_the_published_law(measured: list[int]) -> None:
    kp, ki, kd, goal, start = 0.0018, 0.0058, 0.0018, 400.0, 1e6
    errors = [goal - rate for rate in measured]
    expected = []
    for k, error in enumerate(errors):
        change = error - errors[max(k - 1, 0)]
        expected.append(kp * error + ki * sum(errors[: k + 1]) + kd * change)
    # The published sum starts at 0; ours continues from what is in force.
    expected = [value - kp * errors[0] + start for value in expected]
    assert drive(PID(Gains(kp, ki, kd), WIDE), measured, goal, start) == pytest.approx(expected)


def test_p_holds_the_operating_point_of_its_model() -> None:
    controller = P(Gains(0.01), WIDE, MODEL)
    point = MODEL.prefetch_for(400)
    assert controller(sample(400, point), 400) == pytest.approx(point)
    assert controller(sample(300, point), 400) == pytest.approx(point + 1)


@pytest.mark.parametrize(
    "controller",
    [
        P(Gains(0.01), WIDE, MODEL),
        PI(Gains(0.01, 0.001), WIDE),
        PID(Gains(0.01, 0.001, 0.01), WIDE),
    ],
    ids=["p", "pi", "pid"],
)
def test_the_first_decision_continues_from_the_prefetch_in_force(controller: P | PI) -> None:
    ki = controller.gains.ki
    assert controller(sample(100, 13.0), 400) == pytest.approx(13.0 + ki * 300)


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_a_gain_change_at_rest_moves_nothing(kind: str) -> None:
    before = Gains(0.01, 0.001 if kind != "p" else 0.0, 0.01 if kind == "pid" else 0.0)
    after = dataclasses.replace(before, kp=0.05, ki=before.ki * 3, kd=before.kd * 2)
    controller = build(Tuning(kind, before, MODEL), WIDE)
    rest = MODEL.prefetch_for(400) + 0.5
    for number in range(20):
        rest = controller(sample(400, rest, number), 400)
    controller.gains = after
    assert controller(sample(400, rest, 20), 400) == pytest.approx(rest, abs=1e-6)


def test_a_gain_change_of_p_away_from_rest_fades_in() -> None:
    controller = P(Gains(0.01), WIDE, MODEL)
    prefetch = 10.0
    for number in range(20):
        prefetch = controller(sample(300, prefetch, number), 400)
    controller.gains = Gains(0.02)
    law = MODEL.prefetch_for(400) + 0.02 * 100
    seen = [controller(sample(300, prefetch, 20), 400)]
    for number in range(21, 30):
        seen.append(controller(sample(300, seen[-1], number), 400))
    assert seen[0] == pytest.approx(prefetch)
    gaps = [abs(value - law) for value in seen]
    assert all(after <= before for before, after in itertools.pairwise(gaps))
    assert gaps[-1] < 0.01


@given(measured=rates, low=st.floats(0, 5), width=st.floats(0.1, 30))
def test_no_law_leaves_its_limits(measured: list[int], low: float, width: float) -> None:
    limits = Limits(low, low + width)
    for kind, gains in (
        ("p", Gains(0.5)),
        ("pi", Gains(0.5, 0.1)),
        ("pid", Gains(0.5, 0.1, 0.3)),
    ):
        controller = build(Tuning(kind, gains, MODEL), limits)
        for value in drive(controller, measured, 400.0, low):
            assert limits.low <= value <= limits.high


def test_a_saturated_law_comes_back_at_once() -> None:
    controller = PI(Gains(0.0, 0.01), Limits(0.0, 10.0))
    prefetch = 5.0
    for number in range(100):
        prefetch = controller(sample(0, prefetch, number), 400)
    assert prefetch == 10.0
    assert controller(sample(500, prefetch, 100), 400) < 10.0


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_a_starved_law_stands_still_its_last_error_included(kind: str) -> None:
    gains = Gains(0.01, 0.002 if kind != "p" else 0.0, 0.01 if kind == "pid" else 0.0)

    def after(dry_samples: int) -> float:
        controller = build(Tuning(kind, gains, MODEL), WIDE)
        prefetch = controller(sample(390, 6.0, 0), 400)
        prefetch = controller(sample(380, prefetch, 1), 400)
        for number in range(2, 2 + dry_samples):
            dry = controller(sample(0, prefetch, number, starved=1.0), 400)
            assert dry == prefetch
        return controller(sample(395, prefetch, 2 + dry_samples), 400)

    assert after(60) == after(0)


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_one_goal_that_is_no_number_is_forgotten(kind: str) -> None:
    gains = Gains(0.01, 0.002 if kind != "p" else 0.0, 0.01 if kind == "pid" else 0.0)

    def after(goals: list[float]) -> float:
        controller = build(Tuning(kind, gains, MODEL), WIDE)
        for number, goal in enumerate(goals):
            controller(sample(390 + number, 6.0, number), goal)
        return controller(sample(395, 6.0, 9), 400)

    assert math.isfinite(after([400, math.nan]))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: PI(Gains(1, 1, 1), WIDE),
        lambda: PID(Gains(1, 1, 1), WIDE, derivative_filter=1.5),
        lambda: PID(Gains(1, 1, 1), WIDE, setpoint_weight=7),
        lambda: Tuning("pi", Gains(1, 1), MODEL, setpoint_weight="x"),  # type: ignore[arg-type]
    ],
)
def test_a_law_that_would_be_another_is_refused(bad: object) -> None:
    with pytest.raises(InputError):
        bad()  # type: ignore[operator]


def test_a_rate_above_the_goal_is_answered_even_when_the_queue_runs_dry() -> None:
    controller = PI(Gains(0.0, 0.01), WIDE)
    assert controller(sample(500, 20.0, starved=0.5), 400) < 20.0


def test_the_setpoint_weight_softens_a_goal_step() -> None:
    def kick(weight: float) -> float:
        controller = PI(Gains(0.05, 0.001), WIDE, setpoint_weight=weight)
        prefetch = controller(sample(200, 5.0, 0), 200)
        return controller(sample(200, prefetch, 1), 400) - prefetch

    assert kick(1.0) == pytest.approx(0.05 * 200 + 0.001 * 200)
    assert kick(0.0) == pytest.approx(0.001 * 200)


def test_the_derivative_filter_spreads_the_derivative() -> None:
    controller = PID(Gains(0.0, 0.0, 1.0), WIDE, derivative_filter=0.5)
    start = controller(sample(400, 1000.0, 0), 400)
    first = controller(sample(300, start, 1), 400)
    assert first - start == pytest.approx(0.5 * 100)
    second = controller(sample(300, first, 2), 400)
    assert second - first == pytest.approx(-0.25 * 100)


def test_a_ramp_rises_and_random_levels_do_not() -> None:
    assert ramp(1, 4, 2) == [1, 1, 2, 2, 3, 3, 4, 4]
    levels = random_levels(1, 20, 200, seed=3)
    assert min(levels) >= 1
    assert max(levels) <= 20
    assert sorted(levels) != levels
    assert sum(levels) / 200 == pytest.approx(10.5, abs=0.1)
    assert levels == random_levels(1, 20, 200, seed=3)


def test_an_open_loop_follows_its_plan_and_stays_on_the_last() -> None:
    plan = OpenLoop([3, 1, 2])
    assert [plan(sample(0, 0), 1) for _ in range(5)] == [3, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "bad",
    [
        lambda: OpenLoop([]),
        lambda: OpenLoop([-1.0]),
        lambda: OpenLoop([math.nan]),
        lambda: ramp(5, 1),
        lambda: ramp(1, math.inf),
        lambda: ramp(math.nan, 5),
        lambda: random_levels(1, math.inf, 5),
        lambda: random_levels(5, 5, 10),
        lambda: Limits(5, 5),
        lambda: Limits(-1, 5),
        lambda: Limits(0, math.inf),
    ],
)
def test_impossible_plans_and_limits_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        bad()  # type: ignore[operator]


class TestControllerFrom:
    def test_a_name_needs_a_model(self) -> None:
        with pytest.raises(InputError, match="needs a model"):
            controller_from("pi")
        assert isinstance(controller_from("pid", model=MODEL), PID)

    def test_a_model_gets_a_pi_that_searches_from_the_end_of_its_range(self) -> None:
        controller = controller_from(MODEL)
        assert isinstance(controller, PI)
        assert controller.beyond is not None
        assert controller.beyond.within.high == 20.0
        assert controller.limits.high == MOST_WITHOUT_LIMITS

    def test_files_of_both_kinds_are_taken(self, tmp_path: Path) -> None:
        tuning = Tuning("pid", Gains(0.1, 0.2, 0.3), MODEL, 0.25, 0.5)
        tuning.save(tmp_path / "controller.json")
        MODEL.save(tmp_path / "model.json")
        loaded = controller_from(tmp_path / "controller.json")
        assert isinstance(loaded, PID)
        assert (loaded.gains, loaded.derivative_filter, loaded.setpoint_weight) == (
            tuning.gains,
            0.25,
            0.5,
        )
        assert isinstance(controller_from(str(tmp_path / "model.json")), PI)

    def test_scale_needs_no_model_and_takes_none(self) -> None:
        law = controller_from("scale", limits=Limits(1.0, 50.0))
        assert isinstance(law, Scale)
        assert law.limits == Limits(1.0, 50.0)
        free = resolve("Scale")
        made = free.make()
        assert free.limits is None
        assert isinstance(made, Scale)
        assert made.limits == Limits.widest()
        assert resolve(made).limits == Limits.widest(), "of an object they are the user's"
        with pytest.raises(InputError, match="needs no model"):
            controller_from("scale", model=MODEL)

    def test_an_object_is_taken_as_it_is(self) -> None:
        controller = OpenLoop([1.0])
        assert controller_from(controller) is controller

    @pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "other"}', "\x00"])
    def test_other_files_are_refused(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "file.json"
        path.write_text(content)
        with pytest.raises(InputError, match="neither"):
            controller_from(path)

    def test_a_missing_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot read"):
            controller_from(tmp_path / "none.json")

    def test_anything_else_is_refused(self) -> None:
        with pytest.raises(InputError, match="give p, pi, pid"):
            controller_from(5)  # type: ignore[arg-type]


def schedule_of(*models: ArxModel) -> Schedule:
    """A schedule of the default tunings of these models."""
    return Schedule(
        [
            Profile({"service_time": 0.001 * number}, default_tuning("pi", model))
            for number, model in enumerate(models)
        ]
    )


class TestResolving:
    """What was given is looked at once, and then everything is known of it."""

    def test_a_law_by_name_knows_its_model_and_the_file_it_came_from(self, tmp_path: Path) -> None:
        path = tmp_path / "model.json"
        MODEL.save(path)
        found = resolve("pi", model=path)
        assert (found.model, found.limits, found.file) == (MODEL, None, path)
        assert found.make() is not found.make()

    def test_a_file_that_was_replaced_is_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "controller.json"
        MODEL.save(path)
        found = resolve(path, limits=Limits(1.0, 4.0))
        steeper = dataclasses.replace(MODEL, b=2 * MODEL.b)
        default_tuning("pid", steeper).save(path)
        again = found.read_again()
        assert found.model == MODEL
        assert (again.model, again.limits, again.file) == (steeper, Limits(1.0, 4.0), path)
        assert isinstance(again.make(), PID)

    def test_an_object_is_itself_with_the_limits_that_it_has(self) -> None:
        law = PI(Gains(0.1, 0.2), Limits(1.0, 9.0))
        found = resolve(law)
        assert found.make() is law
        assert (found.model, found.limits, found.file) == (None, law.limits, None)

    @pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
    def test_another_interval_than_the_models_is_refused(self, factor: float) -> None:
        with pytest.raises(InputError, match=f"fitted at {MODEL.interval:g} s"):
            resolve(MODEL).check_interval(factor * MODEL.interval)

    @pytest.mark.parametrize("factor", [0.96, 1.0, 1.04])
    def test_an_interval_about_the_models_is_taken(self, factor: float) -> None:
        resolve(MODEL).check_interval(factor * MODEL.interval)

    @pytest.mark.parametrize("law", ["p", "pi", "pid"])
    def test_an_object_keeps_the_model_that_it_was_made_with(self, law: str) -> None:
        slow = dataclasses.replace(MODEL, interval=0.5)
        made = controller_from(law, model=slow)
        assert resolve(made).model == slow
        assert settings_from(400, made).sample_interval == 0.5
        with pytest.raises(InputError, match=r"fitted at 0\.5 s"):
            settings_from(400, made, interval=2.0)

    def test_every_model_of_a_schedule_has_to_be_of_the_interval(self) -> None:
        far = dataclasses.replace(MODEL, interval=1.4, linear_range=(0.0, 5.0))
        schedule = schedule_of(MODEL, far)
        for given_as in (schedule, controller_from(schedule)):
            assert resolve(given_as).model == MODEL
            for interval in (None, 1.0, 1.4):
                with pytest.raises(InputError, match=r"fitted at 1 to 1\.4 s"):
                    settings_from(400, given_as, interval=interval)

    def test_an_interval_about_those_of_all_models_of_a_schedule_is_taken(self) -> None:
        near = dataclasses.replace(MODEL, interval=1.08)
        assert settings_from(400, schedule_of(MODEL, near), interval=1.04).interval == 1.04
        alike = controller_from(schedule_of(MODEL, MODEL))
        assert settings_from(400, alike).sample_interval == MODEL.interval

    def test_without_a_model_any_interval_is_taken(self) -> None:
        resolve(PI(Gains(0.1, 0.2), Limits(1.0, 9.0))).check_interval(0.1)
