"""Pole placement against the published figures and against python-control."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controlmq import ArxModel, Gains, InputError, Tuning, design_controller
from controlmq.controllers import Limits, build
from controlmq.controllers.placement import is_stable, place, poles_for, polynomial_of
from controlmq.design import p_stable_range
from controlmq.loop import Sample

PUBLISHED = ArxModel(a=0.2631, b=59.73, c=0.0, interval=10.0, linear_range=(1.0, 22.0))

models = st.builds(
    ArxModel,
    a=st.floats(-0.9, 0.9),
    b=st.floats(0.5, 500),
    c=st.floats(-100, 100),
    interval=st.just(1.0),
    linear_range=st.just((0.0, 50.0)),
)


def stable_poles(count: int) -> st.SearchStrategy[list[complex]]:
    real = st.floats(-0.9, 0.9).map(complex)
    pair = st.builds(cmath.rect, st.floats(0.05, 0.9), st.floats(0.05, 3.0))
    if count == 1:
        return st.tuples(real).map(list)
    pairs = pair.map(lambda pole: [pole, pole.conjugate()])
    if count == 2:
        return st.one_of(st.tuples(real, real).map(list), pairs)
    return st.one_of(
        st.tuples(real, real, real).map(list),
        st.builds(lambda two, one: [*two, one], pairs, real),
    )


def test_the_p_range_is_the_published_one() -> None:
    low, high = p_stable_range(PUBLISHED)
    assert low == pytest.approx(-0.012337, abs=5e-7)
    assert high == pytest.approx(0.021147, abs=5e-7)


def test_pi_gains_from_the_published_poles() -> None:
    poles = [0.5 + 0.33166j, 0.5 - 0.33166j]
    gains = design_controller(PUBLISHED, "pi", poles=poles).tuning.gains
    assert gains.kp == pytest.approx(-0.0016223, abs=5e-7)
    assert gains.ki == pytest.approx(0.0060271, abs=5e-7)


def test_pid_gains_from_the_published_polynomial() -> None:
    gains = design_controller(PUBLISHED, "pid", polynomial=[1, -0.7, -0.063, 0.11]).tuning.gains
    assert gains.kd == pytest.approx(0.0018416, abs=5e-7)
    assert gains.kp == pytest.approx(0.0017763, abs=5e-7)
    assert gains.ki == pytest.approx(0.0058095, abs=5e-7)


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
@settings(max_examples=40)
@given(data=st.data(), model=models)
def test_python_control_finds_the_poles_that_were_asked_for(
    kind: str, data: st.DataObject, model: ArxModel
) -> None:
    import control  # takes seconds, which only the worker with this file has to spend

    wanted = data.draw(stable_poles({"p": 1, "pi": 2, "pid": 3}[kind]))
    gains = place(kind, model, polynomial_of(wanted))
    # python-control drops the poles of a transfer function whose numerator is 0.
    assume(abs(gains.kp) > 1e-12 and (kind != "pid" or abs(gains.kd) > 1e-12))
    law = control.tf([gains.kp], [1], True)
    if kind != "p":
        law = law + control.tf([gains.ki, 0], [1, -1], True)
    if kind == "pid":
        law = law + control.tf([gains.kd, -gains.kd], [1, 0], True)
    closed = control.feedback(law * control.tf([model.b], [1, -model.a], True), 1)
    # Coefficients, not roots: near a multiple root the roots themselves are ill-conditioned.
    assert np.allclose(np.poly(closed.poles()), np.poly(wanted), atol=1e-6)


@given(poles=stable_poles(3))
def test_the_stability_test_agrees_with_the_roots(poles: list[complex]) -> None:
    assert is_stable(polynomial_of(poles))
    outside = [pole * 1.2 / abs(pole) if abs(pole) > 0 else 1.2 + 0j for pole in poles]
    assert not is_stable(polynomial_of(outside))


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_an_unstable_placement_is_refused_unless_asked_for(kind: str) -> None:
    poles = [1.1 + 0j, 0.2 + 0j, 0.1 + 0j][: {"p": 1, "pi": 2, "pid": 3}[kind]]
    with pytest.raises(InputError, match="unstable"):
        design_controller(PUBLISHED, kind, poles=poles)
    design = design_controller(PUBLISHED, kind, poles=poles, allow_unstable=True)
    assert not design.analysis.stable
    assert design.analysis.settling_samples is None


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
@pytest.mark.parametrize("a", [-0.4, 0.0, 0.2631, 0.8])
def test_the_gain_margin_is_where_the_loop_turns_unstable(kind: str, a: float) -> None:
    from controlmq.design.analysis import analyse

    design = design_controller(ArxModel(a, 59.73, 0.0, 10.0, (0.0, 22.0)), kind)
    margin = design.analysis.gain_margin
    if math.isinf(margin):
        margin = 1e3

    def largest_pole(factor: float) -> float:
        model = ArxModel(a, 59.73 * factor, 0.0, 10.0, (0.0, 22.0))
        analysis = analyse(Tuning(kind, design.tuning.gains, model))
        return max(abs(pole) for pole in analysis.poles)

    assert largest_pole(margin * 0.99) < 1
    if design.analysis.gain_margin < 1e3:
        assert largest_pole(margin * 1.01) > 1


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("p", {}),
        ("pi", {}),
        ("pid", {}),
        ("pi", {"setpoint_weight": 0.3}),
        ("pid", {"derivative_filter": 0.5}),
        ("pid", {"derivative_filter": 0.3, "setpoint_weight": 0.5}),
    ],
)
def test_the_analysed_step_is_the_one_the_controller_makes(
    kind: str, options: dict[str, float]
) -> None:
    """As the controller object stepping the model by hand."""

    from controlmq.design.analysis import step_response

    model = ArxModel(a=0.3, b=60.0, c=15.0, interval=1.0, linear_range=(0.0, 1000.0))
    design = design_controller(model, kind, settling_samples=8, overshoot=5, **options)
    controller = build(design.tuning, Limits(0.0, 1000.0))
    start, goal = 200.0, 300.0
    rate, prefetch = start, model.prefetch_for(start)
    sample = Sample(0, 0.0, 1.0, prefetch, 0)
    rates = []
    for number in range(42):
        # Rates are real numbers here: an interval that makes arrivals / interval exact.
        sample = Sample(number, float(number), 1000 / rate, prefetch, 1000)
        prefetch = controller(sample, start if number < 2 else goal)
        if number >= 2:
            rates.append(rate)
        rate = model.next_rate(rate, prefetch)
    response = step_response(design.tuning, 40)
    predicted = [start + (goal - start) * value for value in response]
    assert rates == pytest.approx(predicted, rel=1e-9)


def test_a_law_whose_gains_are_all_0_still_has_its_poles() -> None:
    model = ArxModel(a=0.3, b=60.0, c=0.0, interval=1.0, linear_range=(0.0, 10.0))
    analysis = design_controller(model, "p", poles=[0.3]).analysis
    assert analysis.poles == pytest.approx([0.3])
    assert analysis.settling_samples == 4
    assert math.isinf(analysis.gain_margin)


def test_p_with_its_operating_point_leaves_no_error_on_its_model() -> None:
    assert design_controller(PUBLISHED, "p").analysis.steady_state_error == pytest.approx(0)


def test_settling_and_overshoot_are_met_where_the_law_adds_no_zero() -> None:
    # kp = 0 in the numerator would need luck; a weight of 0 takes the zero out of F.
    design = design_controller(
        PUBLISHED, "pi", settling_samples=12, overshoot=10, setpoint_weight=0.0
    )
    assert design.analysis.overshoot == pytest.approx(10, abs=2)
    assert design.analysis.settling_samples is not None
    assert 8 <= design.analysis.settling_samples <= 14


def test_poles_from_settling_and_overshoot_follow_the_textbook() -> None:
    pole = poles_for("pi", 10, 10)[0]
    assert abs(pole) == pytest.approx(math.exp(-0.4))
    assert abs(pole) ** (math.pi / cmath.phase(pole)) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"poles": [0.5 + 0.3j, 0.2]}, "conjugate"),
        ({"poles": [0.5]}, "1 poles given"),
        ({"polynomial": [1, 2]}, "3, highest power first"),
        ({"polynomial": [0, 1, 1]}, "first coefficient is 0"),
        ({"polynomial": [1, math.nan, 0]}, "finite"),
        ({"settling_samples": 0}, "above 0"),
        ({"settling_samples": 5, "overshoot": 100}, "100"),
        ({"overshoot": 5}, "settling time"),
        ({"settling_samples": 5, "poles": [0.1, 0.2]}, "only one"),
        ({"setpoint_weight": 2}, "0 to 1"),
        ({"derivative_filter": 0.5}, "pid"),
    ],
)
def test_a_bad_request_is_refused_with_a_sentence(options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        design_controller(PUBLISHED, "pi", **options)  # type: ignore[arg-type]


def test_an_unknown_law_is_refused() -> None:
    with pytest.raises(InputError, match="p, pi, pid"):
        design_controller(PUBLISHED, "lqr")


def test_gains_must_be_finite() -> None:
    with pytest.raises(InputError, match="finite"):
        Gains(kp=math.nan)
