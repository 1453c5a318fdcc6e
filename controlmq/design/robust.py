"""Designs that hold for every consumer that the model may stand for, not for the model alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from controlmq.checks import finite
from controlmq.controllers.controller_file import Tuning
from controlmq.controllers.placement import place, poles_for, polynomial_of
from controlmq.design.analysis import (
    MARGIN_FREQUENCIES,
    RESPONSE_SAMPLES,
    analyse,
    law_polynomials,
)
from controlmq.errors import InputError
from controlmq.model import ArxModel

LEAST_MODULUS_MARGIN = 0.5
"""Distance of the loop's frequency response to -1 that a robust design keeps everywhere."""

POINTS_A_SIDE = 9
"""Models on each side of the grid over the set: between its points nothing changes abruptly."""

SEARCHED_FREQUENCIES = 500
"""Points on the upper half of the unit circle by which placements are ruled out, most of them far
from what is asked. What is found is checked at as many as an analysis has."""

SETTLING_TRIED = [0.25 * 1.08**k for k in range(96)]
"""Settling times that a robust design is looked for among, in samples: from deadbeat, 0.25, to
370, the fastest first."""


@dataclass(frozen=True)
class Worst:
    """The worst that a design does over a set of models.

    ``stable`` says whether every loop of the set is. ``modulus_margin`` is the least of the set, 0
    where a loop is unstable; ``settling_samples`` the most, None where a loop does not settle;
    ``overshoot`` the most, percent of a goal step.
    """

    stable: bool
    modulus_margin: float
    settling_samples: int | None
    overshoot: float


def too_wide(model: ArxModel) -> bool:
    """Whether the 95 % intervals hold models that never settle, or that no prefetch moves."""
    intervals = model.confidence_intervals
    return intervals is not None and not (
        intervals.a[0] > -1 and intervals.a[1] < 1 and intervals.b[0] > 0
    )


def model_set(model: ArxModel, factor: float | None = None) -> Iterator[ArxModel]:
    """Models that the consumer may be: those of the 95 % intervals, or of a factor on the gain.

    With a ``factor`` the gain ``b`` may be that much larger or smaller than the model's.
    """
    if factor is not None:
        if finite("factor", factor) <= 1:
            raise InputError(f"factor is {factor:g}; give a number above 1, such as 1.5.")
        sides = (model.a, model.a), (model.b / factor, model.b * factor)
    elif model.confidence_intervals is not None:
        sides = model.confidence_intervals.a, model.confidence_intervals.b
        if too_wide(model):
            raise InputError(
                f"with 95 % confidence a is {sides[0][0]:g} to {sides[0][1]:g} and b is "
                f"{sides[1][0]:g} to {sides[1][1]:g}, which no design can be robust against; "
                "record a longer trace."
            )
    else:
        raise InputError(
            "the model has no confidence intervals to be robust against; identify it from a "
            "trace, or give a factor by which its gain may be off."
        )
    (low_a, high_a), (low_b, high_b) = sides
    for a in np.unique(np.linspace(low_a, high_a, POINTS_A_SIDE)):
        for b in np.unique(np.linspace(low_b, high_b, POINTS_A_SIDE)):
            yield replace(model, a=float(a), b=float(b))


def worst_of(tuning: Tuning, factor: float | None = None) -> Worst:
    """The worst that a tuning does over the set of its model."""
    found = [analyse(tuning, each) for each in model_set(tuning.model, factor)]
    settled = [each.settling_samples for each in found]
    return Worst(
        stable=all(each.stable for each in found),
        modulus_margin=min(each.modulus_margin for each in found),
        settling_samples=None if None in settled else max(s for s in settled if s is not None),
        overshoot=max(each.overshoot for each in found),
    )


def robust_polynomial(
    model: ArxModel, kind: str, factor: float | None = None, derivative_filter: float = 0.0
) -> tuple[float, ...]:
    """Of placements without overshoot the fastest that keeps its modulus margin over the set.

    The derivative filter moves the poles from where they are placed, so it is part of each try.
    """
    models = list(model_set(model, factor))
    for settling in SETTLING_TRIED:
        polynomial = polynomial_of(poles_for(kind, settling, 0.0))
        tuning = Tuning(kind, place(kind, model, polynomial), model, derivative_filter)
        if all(
            least_margin(tuning, models, frequencies) >= LEAST_MODULUS_MARGIN
            for frequencies in (SEARCHED_FREQUENCIES, MARGIN_FREQUENCIES)
        ):
            return polynomial
    raise InputError(
        f"no {kind} keeps a modulus margin of {LEAST_MODULUS_MARGIN:g} for all models that this "
        f"may be and settles within {RESPONSE_SAMPLES} samples; record a longer trace."
    )


def least_margin(tuning: Tuning, models: list[ArxModel], frequencies: int) -> float:
    """The least modulus margin of a tuning over models; 0 if enough, but a loop is unstable."""
    _, law, denominator = law_polynomials(tuning)
    a, b = np.array([(each.a, each.b) for each in models]).T
    z = np.exp(1j * np.linspace(1e-6, math.pi, frequencies))
    controller = np.polyval(law, z) / np.polyval(denominator, z)
    least = float(np.min(np.abs(1 + controller * b[:, None] / (z - a[:, None]))))
    if least < LEAST_MODULUS_MARGIN:
        return least  # too little already, whether stable or not
    for each in models:
        around = np.polymul(denominator, [1, -each.a])
        closed = np.polyadd(around, np.multiply(each.b, law))
        if np.max(np.abs(np.roots(closed)), initial=0.0) >= 1:
            return 0.0
    return least
