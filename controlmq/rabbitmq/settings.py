"""How a wrapped channel adapts its consumers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from controlmq.checks import above_zero, not_negative, prefetch_count
from controlmq.controllers.controller_file import KINDS
from controlmq.controllers.limits import Limits
from controlmq.controllers.resolve import ControllerSpec, controller_from, model_of
from controlmq.errors import InputError
from controlmq.loop import Controller, Step, Transition
from controlmq.model import ArxModel
from controlmq.rabbitmq.model_file import ModelFile

ModelSpec = ArxModel | str | os.PathLike[str]
"""What a model may be given as: itself, or its file."""

WindowChoice = Literal["auto", "lanes", "single"]
"""``lanes``: the window grows by further consumers on the channel. ``single``: one consumer
at the upper limit, shaped by held acks alone, as single-active and exclusive consumers and
streams need it. ``auto``: lanes, until the queue turns out not to share."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What :func:`controlmq.rabbitmq.wrap` was told; see there."""

    goal: float | Mapping[str, float] | None = None
    controller: ControllerSpec | None = None
    model: ModelSpec | None = None
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

    def known_model(self) -> ArxModel | None:
        """The model that was given, else the one that comes with the controller."""
        if isinstance(self.model, str | os.PathLike):
            return ArxModel.load(self.model)
        if self.model is None and self.controller is not None:
            return model_of(self.controller)
        return self.model

    def new_controller(self, spec: ControllerSpec) -> Controller:
        """The controller that ``spec`` stands for, with the model and limits as they are now."""
        return controller_from(spec, model=self.known_model(), limits=self.limits)

    def model_file(self) -> ModelFile | None:
        """The file to follow: the controller's, else that of the model a law is computed from."""
        spec = self.controller
        if not isinstance(spec, str | os.PathLike):
            return None
        path = _file_of(spec) or _file_of(self.model)
        return ModelFile(path, lambda: self.new_controller(spec)) if path is not None else None

    def goal_for(self, queue: str) -> float | None:
        """The goal of consumers on ``queue``."""
        if isinstance(self.goal, Mapping):
            return self.goal.get(queue)
        return self.goal


def _file_of(spec: ControllerSpec | ModelSpec | None) -> str | os.PathLike[str] | None:
    """The file that a controller or a model was given as, if it was."""
    if isinstance(spec, str | os.PathLike) and str(spec).lower() not in KINDS:
        return spec
    return None
