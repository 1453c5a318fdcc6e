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
from scipy.signal import lfilter

from controlmq.controllers.controller_file import Tuning
from controlmq.model import ArxModel
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


def analyse(tuning: Tuning, consumer: ArxModel | None = None) -> Analysis:
    """The closed loop of this tuning on its own model, or on another ``consumer``.

    The law stays that of the tuning's model: P takes its operating point from it.
    """
    consumer = tuning.model if consumer is None else consumer
    loop = _loop(tuning, consumer)
    poles = _sensitivity(tuning, consumer).poles()
    stable = bool(np.all(np.abs(poles) < 1))
    gain_margin, modulus_margin = _margins(loop)
    response = _response(tuning, consumer, RESPONSE_SAMPLES) if stable else []
    final = _final_value(tuning, consumer)
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
    return _response(tuning, tuning.model, samples)


def _response(tuning: Tuning, consumer: ArxModel, samples: int) -> list[float]:
    """The same on any consumer.

    As python-control's step_response, which takes twenty times as long: a robust design asks for
    many.
    """
    loop = _goal_to_rate(tuning, consumer)
    numerator, denominator = loop.num[0][0], loop.den[0][0]
    delayed = np.concatenate([np.zeros(len(denominator) - len(numerator)), numerator])
    return [float(rate) for rate in lfilter(delayed, denominator, np.ones(samples))]


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


def _loop(tuning: Tuning, consumer: ArxModel) -> control.TransferFunction:
    """What a signal meets on its way once around: the controller, then the consumer."""
    _, law, denominator = law_polynomials(tuning)
    plant = control.tf([consumer.b], [1, -consumer.a], True)
    return control.tf(law, denominator, True) * plant


def _goal_to_rate(tuning: Tuning, consumer: ArxModel) -> control.TransferFunction:
    prefilter, _, _ = law_polynomials(tuning)
    around = _sensitivity(tuning, consumer).den[0][0]
    return control.tf(np.multiply(consumer.b, prefilter), around, True)


def _sensitivity(tuning: Tuning, consumer: ArxModel) -> control.TransferFunction:
    """``1/(1 + loop)``: it keeps the closed loop's poles even when every gain is 0."""
    _, law, denominator = law_polynomials(tuning)
    around = np.polymul(denominator, [1, -consumer.a])
    return control.tf(around, np.polyadd(around, np.multiply(consumer.b, law)), True)


def _final_value(tuning: Tuning, consumer: ArxModel) -> float:
    if tuning.gains.ki != 0:
        return 1.0  # exact: an integrating law leaves no error
    return float(np.real(_goal_to_rate(tuning, consumer).dcgain()))


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
