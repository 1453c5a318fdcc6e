"""Noticing a prefetch that passes the end of its model's linear range."""

from __future__ import annotations

import math

from controlmq.loop import Step
from controlmq.model import ArxModel


class BeyondModel:
    """Watches the steps of one consumer; passing the end of ``model``'s range is reported once."""

    def __init__(self, model: ArxModel | None) -> None:
        self.model = model
        self._reported = False

    def passed(self, step: Step) -> str | None:
        """What to tell the operator after this step, if anything."""
        if self.model is None or self._reported:
            return None
        end = self.model.linear_range[1]
        if step.prefetch <= end:
            return None
        self._reported = True
        goal = "" if math.isnan(step.goal) else f" and a goal of {step.goal:g}"
        return (
            f"the prefetch goes to {step.prefetch:.4g}, beyond the {end:.4g} up to which the model "
            f"holds, at a rate of {step.sample.rate:.4g} messages/second{goal}: the law goes on; "
            "give limits or a lower goal if the rate no longer grows, else identify the model again"
        )
