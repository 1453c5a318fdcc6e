"""Gains by pole placement: match the polynomial you want to the one the loop has.

With the model ``y(k+1) = a*y(k) + b*u(k)`` the closed loop has the characteristic polynomial

=====  ==========================================================================
P      z - a + b Kp
PI     z^2 + [b(Kp+Ki) - (1+a)] z + a - b Kp
PID    z^3 + [b(Kp+Ki+Kd) - (1+a)] z^2 + [a - b(Kp+2Kd)] z + b Kd
=====  ==========================================================================

so every coefficient wanted is one linear equation in the gains. Plain Python: a consumer in
production computes its gains without any library.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence

from controlmq.checks import above_zero, finite
from controlmq.controllers.controller_file import KINDS
from controlmq.errors import InputError
from controlmq.gains import Gains
from controlmq.model import ArxModel
from controlmq.published import POLYNOMIALS

ORDER = {"p": 1, "pi": 2, "pid": 3}
"""How many poles each law's closed loop has."""

DEFAULT_POLYNOMIAL: dict[str, tuple[float, ...]] = {"p": (1.0, -0.3), **POLYNOMIALS}
"""P with its pole at 0.3; PI and PID as published."""

CONJUGATE_TOLERANCE = 1e-6
"""How far two poles may be from a conjugate pair and still be rounded to one."""


def place(kind: str, model: ArxModel, polynomial: Sequence[float]) -> Gains:
    """The gains that give the closed loop this monic polynomial, highest power first."""
    if kind not in KINDS:
        raise InputError(f"controller is {kind!r}; give one of {', '.join(KINDS)}.")
    _, *wanted = monic(polynomial, ORDER[kind])
    a, b = model.a, model.b
    if kind == "p":
        return Gains(kp=(a + wanted[0]) / b)
    if kind == "pi":
        kp = (a - wanted[1]) / b
        return Gains(kp=kp, ki=(wanted[0] + 1 + a) / b - kp)
    kd = wanted[2] / b
    kp = (a - wanted[1]) / b - 2 * kd
    return Gains(kp=kp, ki=(wanted[0] + 1 + a) / b - kp - kd, kd=kd)


def monic(polynomial: Sequence[float], order: int) -> tuple[float, ...]:
    """The polynomial with a leading 1, checked to have this order."""
    coefficients = [finite("polynomial coefficient", value) for value in polynomial]
    if len(coefficients) != order + 1:
        raise InputError(
            f"the polynomial has {len(coefficients)} coefficients; this controller needs "
            f"{order + 1}, highest power first."
        )
    if coefficients[0] == 0:
        raise InputError("the polynomial's first coefficient is 0; give 1.")
    return tuple(value / coefficients[0] for value in coefficients)


def polynomial_of(poles: Sequence[complex]) -> tuple[float, ...]:
    """The real polynomial with these roots; complex poles must come in conjugate pairs."""
    for pole in poles:
        if not cmath.isfinite(pole):
            raise InputError(f"the pole {pole} is not a finite number.")
    unpaired = [pole for pole in poles if abs(pole.imag) > CONJUGATE_TOLERANCE]
    while unpaired:
        pole = unpaired.pop()
        partner = min(unpaired, key=lambda other: abs(other - pole.conjugate()), default=None)
        if partner is None or abs(partner - pole.conjugate()) > CONJUGATE_TOLERANCE:
            raise InputError(
                f"the complex pole {pole:.6g} has no conjugate among the poles; "
                f"add {pole.conjugate():.6g}."
            )
        unpaired.remove(partner)
    coefficients = [complex(1)]
    for pole in poles:
        shifted = [*coefficients, complex(0)]
        coefficients = [
            value - pole * before
            for value, before in zip(shifted, [complex(0), *coefficients], strict=True)
        ]
    return tuple(value.real for value in coefficients)


def poles_for(kind: str, settling_samples: float, overshoot: float) -> tuple[complex, ...]:
    """Poles for a settling time in samples and an overshoot in percent of a goal step.

    A pole of magnitude ``rho`` decays to 2 % in ``-4/ln(rho)`` samples; a pair at angle
    ``theta`` overshoots by ``rho**(pi/theta)``. A third pole is put at ``rho**2``, where it
    has died out when the pair has settled. The zeros of the law add to the overshoot: the
    analysis of the design tells what the step really does.
    """
    settling = above_zero("settling time", settling_samples)
    if not 0 <= finite("overshoot", overshoot) < 100:
        raise InputError(f"overshoot is {overshoot:g} %; give 0 up to, not including, 100.")
    rho = math.exp(-4 / settling)
    if kind == "p":
        return (complex(rho),)
    theta = math.pi * math.log(rho) / math.log(overshoot / 100) if overshoot > 0 else 0.0
    pair = cmath.rect(rho, min(theta, math.pi))
    return (pair, pair.conjugate(), complex(rho**2))[: ORDER[kind]]


def p_stable_range(model: ArxModel) -> tuple[float, float]:
    """Between which ``Kp`` a P controller is stable: ``(a-1)/b`` to ``(1+a)/b``."""
    return (model.a - 1) / model.b, (1 + model.a) / model.b


def is_stable(polynomial: Sequence[float]) -> bool:
    """Whether all roots lie inside the unit circle (the Schur-Cohn recursion)."""
    coefficients = [value / polynomial[0] for value in polynomial]
    while len(coefficients) > 1:
        last = coefficients[-1]
        if not abs(last) < 1:
            return False
        mirrored = coefficients[::-1]
        coefficients = [
            (value - last * mirror) / (1 - last * last)
            for value, mirror in zip(coefficients[:-1], mirrored[:-1], strict=True)
        ]
    return True
