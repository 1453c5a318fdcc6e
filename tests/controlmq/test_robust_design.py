"""Robust designs: what they state is what the worst model of the set does."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from controlmq import ArxModel, InputError, design_controller
from controlmq.cli.main import main
from controlmq.controllers import Gains
from controlmq.controllers.controller_file import Tuning
from controlmq.model import ConfidenceIntervals
from simulator.studies.tournament.plants import Phase, TrialConsumer

MODEL = ArxModel(
    a=0.1,
    b=70.0,
    c=0.0,
    interval=1.0,
    linear_range=(0.0, 20.0),
    confidence_intervals=ConfidenceIntervals(a=(-0.05, 0.25), b=(50.0, 90.0), c=(-5.0, 5.0)),
)


@pytest.fixture(scope="module")
def identified() -> ArxModel:
    """From a short trace of a noisy consumer, so that its intervals are wide."""
    from tests.known.identified import fit_of, recorded

    plant = TrialConsumer(
        "noisy", [Phase(1, 0.02, 0.005, 4)], "exponential", jitter=0.3, interval=0.1
    )
    model = fit_of(recorded(plant, samples=30, seed=1)).model
    assert model is not None
    return model


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_no_model_of_an_identified_set_is_worse_than_stated(
    kind: str, identified: ArxModel
) -> None:
    from controlmq.design.robust import LEAST_MODULUS_MARGIN
    from tests.known.identified import drawn_from, exceeded, law_run

    design = design_controller(identified, kind, robust=True)
    worst, draw = design.worst, random.Random(1)
    assert worst is not None
    assert worst.modulus_margin >= LEAST_MODULUS_MARGIN
    for _ in range(12):
        found = law_run(design.tuning, drawn_from(identified, draw))
        assert max(exceeded(found, worst).values()) <= 0.05


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_a_law_that_runs_does_what_its_analysis_says_also_on_another_consumer(kind: str) -> None:
    from controlmq.design.analysis import analyse
    from tests.known.identified import law_run

    tuning = design_controller(MODEL, kind, settling_samples=6, overshoot=10).tuning
    for b in (50.0, 70.0, 90.0):
        consumer = replace(MODEL, a=0.3, b=b)
        run, computed = law_run(tuning, consumer), analyse(tuning, consumer)
        assert (run.stable, run.settling_samples) == (computed.stable, computed.settling_samples)
        assert run.overshoot == pytest.approx(computed.overshoot, abs=1e-6)
    assert not law_run(tuning, replace(MODEL, b=20 * MODEL.b)).stable


@pytest.mark.parametrize("derivative_filter", [0.5, 0.8, 0.95])
def test_a_derivative_filter_costs_no_margin(derivative_filter: float) -> None:
    from controlmq.design.robust import LEAST_MODULUS_MARGIN

    model = replace(MODEL, a=0.7)
    design = design_controller(
        model, "pid", robust=True, factor=1.6, derivative_filter=derivative_filter
    )
    assert design.worst is not None
    assert design.worst.modulus_margin >= LEAST_MODULUS_MARGIN


def test_the_operating_point_of_p_stays_that_of_its_model() -> None:
    """With kp = 0 the prefetch is the goal over the model's gain: twice the rate at twice it."""
    from controlmq.design.analysis import analyse

    tuning = Tuning("p", Gains(0.0, 0.0, 0.0), MODEL)
    assert analyse(tuning).steady_state_error == pytest.approx(0.0)
    twice = analyse(tuning, replace(MODEL, b=2 * MODEL.b))
    assert twice.steady_state_error == pytest.approx(-1.0)


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_the_step_response_is_that_of_python_control(kind: str) -> None:
    import control

    from controlmq.design.analysis import law_polynomials, step_response

    model = replace(MODEL, confidence_intervals=None)
    tuning = design_controller(model, kind, derivative_filter=0.2 if kind == "pid" else 0).tuning
    z = control.tf("z")
    forward, law, denominator = law_polynomials(tuning)
    plant = MODEL.b / (z - MODEL.a)
    filtered = control.tf(forward, denominator, True)
    around = control.tf(law, denominator, True) * plant
    _, rates = control.step_response(filtered * plant / (1 + around), np.arange(30.0))
    assert step_response(tuning, 30) == pytest.approx(np.squeeze(rates).tolist(), abs=1e-6)


def test_what_is_more_certain_may_be_faster() -> None:
    sure = design_controller(MODEL, "pi", robust=True, factor=1.05).analysis
    unsure = design_controller(MODEL, "pi", robust=True, factor=2.0).analysis
    assert sure.settling_samples is not None
    assert unsure.settling_samples is not None
    assert sure.settling_samples < unsure.settling_samples


def test_any_placement_states_its_worst_case_deadbeat_included() -> None:
    """Both poles at 0: exact where the model is right, unstable at twice its gain."""
    model = replace(MODEL, a=0.0)
    right = design_controller(model, "pi", poles=[0, 0], factor=1.0001)
    assert right.analysis.settling_samples == 1
    twice = design_controller(model, "pi", poles=[0, 0], factor=2.0)
    assert twice.worst is not None
    assert twice.worst.modulus_margin == pytest.approx(0.0, abs=1e-3)
    assert twice.worst.settling_samples is None
    assert right.worst is not None
    assert right.worst.stable
    assert not twice.worst.stable


@pytest.mark.parametrize(
    ("kind", "a", "factor"),
    [
        ("pi", 0.0, 2.4829371620133758),
        ("pid", 0.0, 2.379961702996866),
        ("pid", 0.6, 2.513455594822764),
        ("pid", 0.9, 1.6389517566747962),
    ],
)
def test_a_robust_design_keeps_its_margin_at_every_frequency_of_an_analysis(
    kind: str, a: float, factor: float
) -> None:
    """With these factors some placement has just enough of it at every eighth frequency."""
    design = design_controller(replace(MODEL, a=a), kind, robust=True, factor=factor)
    assert design.worst is not None
    assert design.worst.modulus_margin >= 0.5


TOO_WIDE = replace(
    MODEL,
    a=0.4,
    confidence_intervals=ConfidenceIntervals(a=(-0.2, 1.05), b=(50.0, 90.0), c=(-5.0, 5.0)),
)
"""Of a short trace: some of the models in its intervals never settle."""


def test_intervals_that_are_too_wide_are_no_mistake_of_a_plain_design() -> None:
    assert design_controller(TOO_WIDE, "pi").worst is None
    by_factor = design_controller(TOO_WIDE, "pi", factor=1.2).worst
    assert by_factor is not None
    assert by_factor.stable
    with pytest.raises(InputError, match="which no design can be robust against"):
        design_controller(TOO_WIDE, "pi", robust=True)


@pytest.mark.parametrize(
    ("model", "options", "row"),
    [
        (TOO_WIDE, (), r"worst case\W+unknown: the intervals of the model are too wide"),
        (MODEL, ("--poles", "0", "0", "--factor", "2"), r"at worst\W+UNSTABLE"),
    ],
    ids=["unknown", "unstable"],
)
def test_the_table_says_what_the_worst_case_is(
    model: ArxModel,
    options: tuple[str, ...],
    row: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model.save(tmp_path / "model.json")
    words = ["design", "--model", str(tmp_path / "model.json"), *options]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert re.search(row, shown)
    assert "at worst overshoots" not in shown
    assert main([*words, "--json"]) == 0
    worst = json.loads(capsys.readouterr().out)["worst"]
    assert worst is None if model is TOO_WIDE else worst["stable"] is False


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"robust": True, "poles": [0, 0]}, "robust finds a placement of its own"),
        ({"robust": True, "factor": 0.5}, "factor is 0.5; give a number above 1"),
    ],
)
def test_mistakes_get_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        design_controller(MODEL, "pi", **given)  # type: ignore[arg-type]


def test_a_model_of_numbers_alone_needs_a_factor() -> None:
    with pytest.raises(InputError, match="the model has no confidence intervals"):
        design_controller(replace(MODEL, confidence_intervals=None), "pi", robust=True)
