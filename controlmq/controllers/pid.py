"""The published PID law and its PI case, in velocity form."""

from __future__ import annotations

import math

from controlmq.controllers.beyond_range import BeyondRange
from controlmq.controllers.controller_file import check_shaping
from controlmq.controllers.limits import Limits
from controlmq.controllers.rate_law import RateLaw
from controlmq.errors import InputError
from controlmq.gains import Gains
from controlmq.model import ArxModel
from controlmq.sample import Sample


class PID(RateLaw):
    """``u(k) = Kp e(k) + Ki sum e(i) + Kd [e(k) - e(k-1)]`` with ``e = goal - rate``.

    Computed as a change of the prefetch in force, which the sample carries::

        u(k) = u(k-1) + Kp [e(k) - e(k-1)] + Ki e(k) + d(k) - d(k-1)
        d(k) = f d(k-1) + (1 - f) Kd [e(k) - e(k-1)]

    so the sum never exists as a number that could wind up, and the law continues from
    whatever is in force: starting it, replacing its gains or moving the prefetch by hand
    causes no bump.

    ``derivative_filter`` is ``f``, 0 (the published law) up to but not including 1: nearer 1
    the derivative answers more slowly and amplifies less noise. ``setpoint_weight`` scales
    the goal in the proportional part alone: below 1 a step of the goal kicks less.
    ``gains`` may be set at any time; ``model`` is the one that they were computed for, if any.
    """

    kind = "pid"

    def __init__(
        self,
        gains: Gains,
        limits: Limits,
        *,
        derivative_filter: float = 0.0,
        setpoint_weight: float = 1.0,
        beyond: BeyondRange | None = None,
        model: ArxModel | None = None,
    ) -> None:
        check_shaping(derivative_filter, setpoint_weight)
        super().__init__(limits, beyond, model)
        self.gains = gains
        self.derivative_filter = derivative_filter
        self.setpoint_weight = setpoint_weight
        self._error: float | None = None
        self._weighted_error = 0.0
        self._derivative = 0.0

    def _formula(self, sample: Sample, goal: float) -> float:
        error = goal - sample.rate
        weighted = self.setpoint_weight * goal - sample.rate
        last = error if self._error is None else self._error
        last_weighted = weighted if self._error is None else self._weighted_error
        gains, f = self.gains, self.derivative_filter
        derivative = f * self._derivative + (1 - f) * gains.kd * (error - last)
        prefetch = (
            sample.prefetch
            + gains.kp * (weighted - last_weighted)
            + gains.ki * error
            + (derivative - self._derivative)
        )
        if math.isfinite(prefetch):
            # What is not a number must not be remembered: the law would never be one again.
            self._error, self._weighted_error = error, weighted
            self._derivative = derivative
        return prefetch


class PI(PID):
    """``u(k) = u(k-1) + (Kp + Ki) e(k) - Kp e(k-1)``: the PID law without its derivative.

    Settles on the goal without error. The controller to start with.
    """

    kind = "pi"

    def __init__(
        self,
        gains: Gains,
        limits: Limits,
        *,
        setpoint_weight: float = 1.0,
        beyond: BeyondRange | None = None,
        model: ArxModel | None = None,
    ) -> None:
        if gains.kd:
            raise InputError(f"a PI controller has no kd and {gains.kd:g} is given; take PID.")
        super().__init__(gains, limits, setpoint_weight=setpoint_weight, beyond=beyond, model=model)
