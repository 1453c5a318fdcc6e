"""Notices a controller that stays at its upper limit and does not reach the goal."""

from __future__ import annotations

import math

from controlmq.controllers.limits import Limits
from controlmq.loop import Step

SAMPLES_AT_THE_LIMIT = 10
"""Steps in a row before anything is said: longer than a controller takes to settle."""

MISSED_SHARE = 0.05
"""Share of the goal by which the mean rate of these samples must be too low."""


class UpperLimit:
    """Watches the steps of one loop; the same limit and goal are reported once."""

    def __init__(self) -> None:
        self._rates: list[float] = []
        self._reported: tuple[float, float] | None = None

    def missed(self, step: Step, limits: Limits | None) -> str | None:
        """What to tell the operator after this step, if anything."""
        if (
            limits is None
            or math.isnan(step.goal)
            or step.prefetch < limits.high
            or not step.sample.window_limited
        ):
            self._rates.clear()
            return None
        self._rates.append(step.sample.rate)
        if len(self._rates) < SAMPLES_AT_THE_LIMIT:
            return None
        rate = sum(self._rates) / len(self._rates)
        self._rates.clear()
        now = step.goal, limits.high
        if rate >= (1 - MISSED_SHARE) * step.goal or now == self._reported:
            return None
        self._reported = now
        return (
            f"the goal is {step.goal:g} messages/second and the rate stays at {rate:.4g}: the "
            f"prefetch has been at its upper limit of {limits.high:.4g} for "
            f"{SAMPLES_AT_THE_LIMIT} samples; raise the limit if handlers have time left, else add "
            "consumers or lower the goal"
        )
