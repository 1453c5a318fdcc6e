"""Robust designs: what they state is what the worst model of the set does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controlmq import ArxModel, InputError, design_controller
from controlmq.design.analysis import analyse
from controlmq.design.robust import LEAST_MODULUS_MARGIN
from controlmq.model import ConfidenceIntervals

MODEL = ArxModel(
    a=0.1,
    b=70.0,
    c=0.0,
    interval=1.0,
    linear_range=(0.0, 20.0),
    confidence_intervals=ConfidenceIntervals(a=(-0.05, 0.25), b=(50.0, 90.0), c=(-5.0, 5.0)),
)


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_no_model_of_the_set_is_worse_than_stated(kind: str) -> None:
    design = design_controller(MODEL, kind, robust=True)
    worst, draw = design.worst, random.Random(1)
    assert worst is not None
    assert worst.settling_samples is not None
    assert worst.modulus_margin > 0.99 * LEAST_MODULUS_MARGIN
    for _ in range(40):
        found = analyse(
            replace(
                design.tuning,
                model=replace(MODEL, a=draw.uniform(-0.05, 0.25), b=draw.uniform(50.0, 90.0)),
            )
        )
        assert found.stable
        assert found.settling_samples is not None
        assert found.modulus_margin > 0.95 * worst.modulus_margin
        assert found.settling_samples <= 1.05 * worst.settling_samples + 0.5
        assert found.overshoot <= 1.05 * worst.overshoot + 0.5


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
