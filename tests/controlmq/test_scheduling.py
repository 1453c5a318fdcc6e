"""Gain scheduling: a controller for each workload, blended by what is measured."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq import (
    PI,
    ArxModel,
    Gains,
    InputError,
    Limits,
    Loop,
    Profile,
    Sample,
    Schedule,
    TraceWriter,
    Tuning,
)
from controlmq.bands import band
from controlmq.cli.main import main
from controlmq.controllers import (
    OpenLoop,
    ScheduledController,
    build_schedule,
    controller_from,
    random_levels,
)
from controlmq.controllers.resolve import resolve
from controlmq.student import mean_interval
from simulator import SimulatedConsumer
from tests.known.jumping_work import deadbeat, faster_published, jumping, tracking_error, working

FAST = ArxModel(a=0.0, b=500.0, c=0.0, interval=1.0, linear_range=(0.0, 8.0))
SLOW = ArxModel(a=0.0, b=200.0, c=0.0, interval=1.0, linear_range=(0.0, 5.0))
WIDE = Limits(0.0, 1e6)


def tuning(model: ArxModel = FAST, kind: str = "pi", kd: float = 0.0) -> Tuning:
    return Tuning(kind, Gains(0.1 / model.b, 0.6 / model.b, kd), model)


def schedule(smoothing: float = 0.0) -> Schedule:
    return Schedule(
        [
            Profile({"service_time": 0.001}, tuning(FAST)),
            Profile({"service_time": 0.004}, tuning(SLOW)),
        ],
        smoothing=smoothing,
    )


def sample(rate: float, prefetch: float, handler_time: float, number: int = 0) -> Sample:
    return Sample(
        number, float(number), 1.0, prefetch, arrivals=int(rate), handler_time=handler_time
    )


@given(value=st.floats(0, 1))
def test_the_shares_add_up_to_one_and_neighbours_alone_count(value: float) -> None:
    profiles = [Profile({"service_time": at}, tuning()) for at in (0.1, 0.2, 0.5, 0.7)]
    weights = Schedule(profiles).weights({"service_time": value})
    assert sum(weights) == pytest.approx(1)
    counting = [index for index, weight in enumerate(weights) if weight > 0]
    assert counting[-1] - counting[0] <= 1
    assert min(weights) >= 0


def test_between_breakpoints_the_blend_is_linear_and_beyond_them_it_ends() -> None:
    given_at = schedule().weights
    assert given_at({"service_time": 0.001}) == [1, 0]
    assert given_at({"service_time": 0.002}) == pytest.approx([2 / 3, 1 / 3])
    assert given_at({"service_time": 0.004}) == [0, 1]
    assert given_at({"service_time": 0}) == [1, 0]
    assert given_at({"service_time": 60}) == [0, 1]


def test_two_quantities_make_a_table() -> None:
    places = itertools.product((0.001, 0.004), (100.0, 300.0))
    profiles = [Profile({"service_time": s, "arrival_rate": r}, tuning()) for s, r in places]
    weights = Schedule(profiles).weights({"service_time": 0.002, "arrival_rate": 150.0})
    assert weights == pytest.approx([2 / 3 * 3 / 4, 2 / 3 / 4, 3 / 4 / 3, 1 / 12])


def test_blending_laws_is_blending_their_gains() -> None:
    blended = build_schedule(schedule(), WIDE)
    between = Gains(
        0.1 * (2 / 3 / FAST.b + 1 / 3 / SLOW.b), 0.6 * (2 / 3 / FAST.b + 1 / 3 / SLOW.b)
    )
    single = PI(between, WIDE)
    prefetch = 2.0
    for number, rate in enumerate((100, 340, 420, 390, 700)):
        now = sample(rate, prefetch, 0.002, number)
        prefetch = single(now, 400)
        assert blended(now, 400) == pytest.approx(prefetch)


@given(times=st.lists(st.floats(1e-6, 0.1), min_size=2, max_size=20))
def test_at_the_goal_no_jump_of_the_workload_moves_the_prefetch(times: list[float]) -> None:
    controller = build_schedule(schedule(), WIDE)
    for number, time in enumerate(times):
        assert controller(sample(400, 2.5, time, number), 400) == pytest.approx(2.5, rel=1e-12)


def test_the_limits_move_with_the_knee() -> None:
    controller = build_schedule(schedule())
    assert controller(sample(10, 8.0, 0.001), 4000) == 8
    assert controller(sample(10, 8.0, 0.004), 4000) == 5
    assert controller.limits == Limits(0.1, 8.0)


def test_without_a_message_the_last_workload_known_decides() -> None:
    controller = build_schedule(schedule())
    controller(sample(0, 2.0, 0.0), 400)
    assert controller.weights == [1, 0]
    controller(sample(300, 2.0, 0.004), 400)
    controller(sample(0, 2.0, 0.0), 400)
    assert controller.weights == [0, 1]


def test_smoothing_answers_a_jump_by_and_by() -> None:
    controller = build_schedule(schedule(smoothing=0.5))
    shares = []
    for number, time in enumerate((0.001, 0.004, 0.004, 0.004)):
        controller(sample(400, 2.0, time, number), 400)
        shares.append(controller.weights[1])
    assert shares == pytest.approx([0, 0.5, 0.75, 0.875])


def test_a_schedule_survives_its_file_and_any_controller_may_be_one(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    schedule(0.3).save(path)
    assert Schedule.load(path) == schedule(0.3)
    for given_as in (path, str(path), Schedule.load(path)):
        controller = controller_from(given_as)
        assert isinstance(controller, ScheduledController)
        assert [law.gains for law in controller.laws] == [tuning(FAST).gains, tuning(SLOW).gains]
        assert resolve(given_as).model == FAST


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c.update(extra=1), "unknown key extra"),
        (lambda c: c.update(profiles={}), "give a list"),
        (lambda c: c.update(profiles=[]), "at least one profile"),
        (lambda c: c.update(smoothing=1), "smoothing is 1"),
        (lambda c: c.update(version=2), "version 2"),
        (lambda c: c["profiles"].append(1), "profile 3 must have exactly"),
        (lambda c: c["profiles"][0].update(at={}), "profile 1: a profile is at {}"),
        (lambda c: c["profiles"][0].update(at={"mood": 1}), "'mood'; a consumer measures"),
        (lambda c: c["profiles"][0].update(at={"service_time": -1}), "service_time is -1"),
        (lambda c: c["profiles"][0].update(at={"arrival_rate": 1}), "different quantities"),
        (lambda c: c["profiles"][0].update(at={"service_time": 0.004}), "2 profiles at"),
        (lambda c: c["profiles"][1]["controller"].pop("kp"), "profile 2: kp missing"),
        (lambda c: c["profiles"][1]["controller"]["model"].update(interval=10), "intervals of 1"),
        (lambda c: c["profiles"][1]["controller"].update(controller="p", ki=0), "a p controller"),
    ],
)
def test_a_malformed_schedule_is_refused_in_a_sentence(
    tmp_path: Path, change: Callable[[Any], object], reason: str
) -> None:
    content = json.loads(schedule().to_json())
    change(content)
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as refusal:
        controller_from(path)
    assert str(path) in str(refusal.value)
    assert reason in str(refusal.value)


def test_a_table_with_a_hole_is_refused() -> None:
    places = [(0.001, 100.0), (0.004, 100.0), (0.001, 300.0)]
    profiles = [Profile({"service_time": s, "arrival_rate": r}, tuning()) for s, r in places]
    with pytest.raises(InputError, match=r"0 profiles at service_time 0\.004, arrival_rate 300"):
        Schedule(profiles)


@pytest.mark.slow
def test_when_the_service_time_jumps_a_schedule_tracks_better_than_any_single_law() -> None:
    """A small run of ``python -m benchmarks gain_scheduling``, on the models of theory."""
    scenario, seeds = jumping(samples=100), range(1, 6)
    models = {
        time: ArxModel(0.0, 1 / (0.0011 + time), 0.0, 1.0, (0.0, 50.0)) for time in (1e-3, 4e-3)
    }
    scheduled = Schedule(
        [Profile({"service_time": time}, deadbeat(model)) for time, model in models.items()]
    )
    singles = [
        PI(Gains(0.0, share * (0.0011 + time)), Limits(0.1, 50.0))
        for time in (0.001, 0.0025, 0.004)
        for share in (0.6, 0.9)
    ]
    errors = [tracking_error(scenario, build_schedule(scheduled), seed) for seed in seeds]
    single_errors = [
        [tracking_error(scenario, PI(law.gains, law.limits), seed) for seed in seeds]
        for law in singles
    ]
    best = min(single_errors, key=sum)
    less = mean_interval([a - b for a, b in zip(errors, best, strict=True)])
    assert less.high < 0


@given(value=st.floats(1e-9, 1e9))
def test_a_band_is_half_an_octave_about_its_centre(value: float) -> None:
    assert 2**-0.25 <= value / band(value) * (1 + 1e-12) <= 2**0.25 * (1 + 1e-9)
    assert band(band(value)) == pytest.approx(band(value))


def test_what_was_not_measured_is_in_no_band() -> None:
    assert [band(value) for value in (0.0, -1.0, float("nan"), float("inf"))] == [0, 0, 0, 0]


@pytest.mark.spark
def test_a_trace_of_two_workloads_becomes_a_schedule_of_two_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = random_levels(0.5, 2.0, 120, seed=7)
    with TraceWriter(tmp_path / "trace") as writer:
        for time in (0.001, 0.004):
            plant = SimulatedConsumer(faster_published(working(time)), seed=7)
            loop = Loop(plant, OpenLoop(levels), 1.0, record=writer, trace=str(time))
            list(loop.run(len(levels) + 1))
    out = tmp_path / "schedule.json"
    assert main(["schedule", str(tmp_path / "trace"), "--settling", "2", "--out", str(out)]) == 0
    assert "A controller for every workload" in capsys.readouterr().out
    fast, slow = Schedule.load(out).profiles
    assert fast.at["service_time"] == pytest.approx(0.001, rel=0.19)
    assert slow.at["service_time"] == pytest.approx(0.004, rel=0.19)
    assert fast.tuning.model.b / slow.tuning.model.b == pytest.approx(5.1 / 2.1, rel=0.1)
    assert slow.tuning.gains.ki / fast.tuning.gains.ki == pytest.approx(5.1 / 2.1, rel=0.15)
