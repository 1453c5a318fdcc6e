"""How a wrapped channel adapts its consumers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from controlmq.checks import above_zero, not_negative, prefetch_count
from controlmq.controllers.limits import Limits
from controlmq.controllers.resolve import ControllerSpec
from controlmq.errors import InputError
from controlmq.loop import Step, Transition
from controlmq.model import ArxModel
from controlmq.rabbitmq.model_file import ModelFile
from controlmq.tuning import KINDS

WindowChoice = Literal["auto", "lanes", "single"]
"""``lanes``: the window grows by further consumers on the channel. ``single``: one consumer
at the upper limit, shaped by held acks alone, as single-active and exclusive consumers and
streams need it. ``auto``: lanes, until the queue turns out not to share."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What :func:`controlmq.rabbitmq.wrap` was told; see there."""

    goal: float | Mapping[str, float] | None = None
    controller: ControllerSpec | None = None
    model: ArxModel | None = None
    interval: float = 1.0
    prefetch: float | None = None
    limits: Limits | None = None
    window: WindowChoice = "auto"
    max_held: int | None = None
    max_hold: float = 10.0
    record: Callable[[Transition], None] | None = None
    on_step: Callable[[Step], None] | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        goals = self.goal if isinstance(self.goal, Mapping) else {"": self.goal}
        for queue, goal in goals.items():
            if goal is not None:
                above_zero(f"goal of queue {queue}" if queue else "goal", goal)
        if self.controller is None and any(goal is not None for goal in goals.values()):
            raise InputError(
                "a goal needs a controller to hold it; give wrap a controller: a law, a file, a "
                "model or an object."
            )
        above_zero("interval", self.interval)
        if self.prefetch is not None:
            above_zero("prefetch", self.prefetch)
            prefetch_count("prefetch", self.prefetch)
        if self.window not in get_args(WindowChoice):
            raise InputError(f"window is {self.window!r}; give 'auto', 'lanes' or 'single'.")
        if self.max_held is not None:
            not_negative("max_held", self.max_held)
        above_zero("max_hold", self.max_hold)

    def model_file(self) -> ModelFile | None:
        """The file to follow, where the controller was given as one."""
        spec = self.controller
        if isinstance(spec, str | os.PathLike) and str(spec).lower() not in KINDS:
            return ModelFile(spec, self.limits)
        return None

    def goal_for(self, queue: str) -> float | None:
        """The goal of consumers on ``queue``."""
        if isinstance(self.goal, Mapping):
            return self.goal.get(queue)
        return self.goal
