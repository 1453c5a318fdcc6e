"""What a tuned loop will do, computed with python-control from the law as it runs.

Every law here is ``u = F(z) goal - C(z) rate``. ``C`` decides the poles and margins, ``F``
also the answer to a step of the goal: it holds the operating-point bias of P and the setpoint
weight of PI and PID; both hold the derivative filter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import control
import numpy as np

from controlmq.controllers.controller_file import Tuning
from controlmq.performance import settling_samples

SETTLED_SHARE_OF_STEP = 0.02
"""A response has settled once it stays within this share of the step around its end."""

RESPONSE_SAMPLES = 400
"""Length of the analysed step response; a loop slower than this is reported as unsettled."""

MARGIN_FREQUENCIES = 4000
"""Points on the upper half of the unit circle at which the margins are read off."""


@dataclass(frozen=True)
class Analysis:
    """How the closed loop behaves on its model.

    ``settling_samples`` is None when the step does not settle; ``overshoot`` is percent of
    the step, ``steady_state_error`` the share of the step that is never reached.
    ``gain_margin`` is the factor by which the plant's gain may grow before the loop is
    unstable (infinite: any); ``modulus_margin`` the smallest distance of the loop's frequency
    response to -1, 0.5 and more being comfortable.
    """

    poles: tuple[complex, ...]
    stable: bool
    settling_samples: int | None
    overshoot: float
    steady_state_error: float
    gain_margin: float
    modulus_margin: float


def analyse(tuning: Tuning) -> Analysis:
    """The closed loop of this tuning on its own model."""
    loop = _loop(tuning)
    poles = _sensitivity(tuning).poles()
    stable = bool(np.all(np.abs(poles) < 1))
    gain_margin, modulus_margin = _margins(loop)
    response = step_response(tuning, RESPONSE_SAMPLES) if stable else []
    final = _final_value(tuning)
    return Analysis(
        poles=tuple(sorted((complex(pole) for pole in poles), key=lambda p: (-abs(p), p.imag))),
        stable=stable,
        settling_samples=settling_samples(response, final, SETTLED_SHARE_OF_STEP)
        if stable
        else None,
        overshoot=100 * max(0.0, max(response) - final) if stable else math.inf,
        steady_state_error=1 - final if stable else math.nan,
        gain_margin=gain_margin if stable else 0.0,
        modulus_margin=modulus_margin if stable else 0.0,
    )


def step_response(tuning: Tuning, samples: int) -> list[float]:
    """The rate after a unit step of the goal at sample 0, in deviations from rest."""
    times = np.arange(samples, dtype=float)
    _, rates = control.step_response(_goal_to_rate(tuning), times)
    return [float(rate) for rate in np.squeeze(rates)]


def law_polynomials(tuning: Tuning) -> tuple[list[float], list[float], list[float]]:
    """Numerators of ``F`` and ``C`` and their common denominator, highest power first."""
    kp, ki, kd = tuning.gains.kp, tuning.gains.ki, tuning.gains.kd
    a, b = tuning.model.a, tuning.model.b
    if tuning.kind == "p":
        return [kp + (1 - a) / b], [kp], [1.0]
    beta = tuning.setpoint_weight
    if tuning.kind == "pi":
        return [beta * kp + ki, -beta * kp], [kp + ki, -kp], [1.0, -1.0]
    f = tuning.derivative_filter
    # C = Kp + Ki z/(z-1) + Kd (1-f) (z-1)/(z-f), over (z-1)(z-f)
    proportional = np.polymul([1, -1], [1, -f])
    integral = np.polymul([1, 0], [1, -f])
    derivative = (1 - f) * np.polymul([1, -1], [1, -1])
    rest = ki * integral + kd * derivative
    return (
        list(beta * kp * proportional + rest),
        list(kp * proportional + rest),
        list(proportional),
    )


def _loop(tuning: Tuning) -> control.TransferFunction:
    """What a signal meets on its way once around: the controller, then the consumer."""
    _, law, denominator = law_polynomials(tuning)
    plant = control.tf([tuning.model.b], [1, -tuning.model.a], True)
    return control.tf(law, denominator, True) * plant


def _goal_to_rate(tuning: Tuning) -> control.TransferFunction:
    prefilter, _, _ = law_polynomials(tuning)
    return control.tf(np.multiply(tuning.model.b, prefilter), _sensitivity(tuning).den[0][0], True)


def _sensitivity(tuning: Tuning) -> control.TransferFunction:
    """``1/(1 + loop)``: it keeps the closed loop's poles even when every gain is 0."""
    _, law, denominator = law_polynomials(tuning)
    around = np.polymul(denominator, [1, -tuning.model.a])
    return control.tf(around, np.polyadd(around, np.multiply(tuning.model.b, law)), True)


def _final_value(tuning: Tuning) -> float:
    if tuning.gains.ki != 0:
        return 1.0  # exact: an integrating law leaves no error
    return float(np.real(_goal_to_rate(tuning).dcgain()))


def _margins(loop: control.TransferFunction) -> tuple[float, float]:
    # The angle 0 is left out: there an integrating law is infinite.
    angles = np.linspace(1e-6, math.pi, MARGIN_FREQUENCIES)
    response = loop(np.exp(1j * angles))
    crossings = np.nonzero(np.diff(np.sign(response.imag)) != 0)[0]
    real = [float(end.real) for end in response[[0, -1]] if abs(end.imag) < 1e-3 * abs(end.real)]
    for index in crossings:
        before, after = response[index], response[index + 1]
        share = before.imag / (before.imag - after.imag)
        real.append(float(before.real + share * (after.real - before.real)))
    factors = [-1 / value for value in real if -1 < value < 0]
    return min(factors, default=math.inf), float(np.min(np.abs(1 + response)))
