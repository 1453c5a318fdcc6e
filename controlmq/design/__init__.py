"""Designing controllers: gains from a model, and what the closed loop will do with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlmq.controllers.controller_file import KINDS, Tuning
from controlmq.controllers.placement import (
    DEFAULT_POLYNOMIAL,
    ORDER,
    is_stable,
    monic,
    p_stable_range,
    place,
    poles_for,
    polynomial_of,
)
from controlmq.errors import InputError
from controlmq.extras import need
from controlmq.model import ArxModel

if TYPE_CHECKING:
    from controlmq.design.analysis import Analysis
    from controlmq.design.robust import Worst

__all__ = ["Design", "design_controller", "p_stable_range", "place"]


@dataclass(frozen=True)
class Design:
    """A tuning, the polynomial it was placed for and the analysis of the law as it runs.

    ``worst`` is the worst over all models that the consumer may be; None where their set is not
    known, or where its intervals are so wide that some of it is beyond any controller.
    """

    tuning: Tuning
    polynomial: tuple[float, ...]
    analysis: Analysis
    worst: Worst | None = None


def design_controller(
    model: ArxModel,
    kind: str = "pi",
    *,
    poles: Sequence[complex] | None = None,
    polynomial: Sequence[float] | None = None,
    settling_samples: float | None = None,
    overshoot: float | None = None,
    derivative_filter: float = 0.0,
    setpoint_weight: float = 1.0,
    allow_unstable: bool = False,
    robust: bool = False,
    factor: float | None = None,
) -> Design:
    """Place the closed-loop poles of a P, PI or PID controller and analyse the result.

    Say what you want in one way: ``poles``, a ``polynomial`` (highest power first), or
    ``settling_samples`` with an ``overshoot`` in percent (0 when not given). Without any, the
    published placement is used. An unstable loop is refused unless ``allow_unstable``.

    ``robust`` finds, of placements without overshoot, the fastest that keeps a modulus margin of
    0.5 for every model in the 95 % intervals, or for every gain within ``factor`` of the model's.
    """
    wanted = wanted_polynomial(kind, poles, polynomial, settling_samples, overshoot)
    if robust:
        if any(way is not None for way in (poles, polynomial, settling_samples)):
            raise InputError("robust finds a placement of its own; give no other with it.")
        need("control", "design")
        from controlmq.design.robust import robust_polynomial

        wanted = robust_polynomial(model, kind, factor, derivative_filter)
    tuning = Tuning(kind, place(kind, model, wanted), model, derivative_filter, setpoint_weight)
    if not allow_unstable and not is_stable(wanted):
        raise InputError(
            "the placement is unstable, a pole lies on or outside the unit circle; move every "
            "pole inside it, or ask for an unstable design."
        )
    need("control", "design")
    from controlmq.design.analysis import analyse
    from controlmq.design.robust import too_wide, worst_of

    analysis = analyse(tuning)
    if not allow_unstable and not analysis.stable:
        raise InputError(
            f"with derivative_filter {derivative_filter:g} the loop is unstable, though the "
            "poles asked for are not; filter less, or ask for an unstable design."
        )
    by_intervals = model.confidence_intervals is not None and not too_wide(model)
    known = factor is not None or by_intervals
    return Design(tuning, wanted, analysis, worst_of(tuning, factor) if known else None)


def wanted_polynomial(
    kind: str,
    poles: Sequence[complex] | None,
    polynomial: Sequence[float] | None,
    settling_samples: float | None,
    overshoot: float | None,
) -> tuple[float, ...]:
    """The closed-loop polynomial that one of the three ways of asking stands for."""
    if kind not in KINDS:
        raise InputError(f"controller is {kind!r}; give one of {', '.join(KINDS)}.")
    if overshoot is not None and settling_samples is None:
        raise InputError("an overshoot alone places no pole; give a settling time with it.")
    if sum(way is not None for way in (poles, polynomial, settling_samples)) > 1:
        raise InputError("give poles, a polynomial or a settling time, and only one of them.")
    if polynomial is not None:
        return monic(polynomial, ORDER[kind])
    if settling_samples is not None:
        return polynomial_of(poles_for(kind, settling_samples, overshoot or 0.0))
    if poles is not None:
        if len(poles) != ORDER[kind]:
            raise InputError(f"{len(poles)} poles given; a {kind} loop has {ORDER[kind]}.")
        return polynomial_of(poles)
    return DEFAULT_POLYNOMIAL[kind]
