"""How a wrapped channel adapts its consumers: what the user said, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from controlmq.checks import above_zero, not_negative, prefetch_count
from controlmq.consumer.consumer import Shape, WindowChoice
from controlmq.consumer.sensors import HandlerPool
from controlmq.controllers.limits import Limits
from controlmq.controllers.resolve import ResolvedController
from controlmq.errors import InputError
from controlmq.loop import Step, Transition

START_PREFETCH = 1.0
"""Messages. The prefetch to start from when nothing says which."""

DEFAULT_INTERVAL_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What :func:`controlmq.wrap` was given; see there."""

    goal: float | Mapping[str, float] | None = None
    controller: ResolvedController | None = None
    interval: float | None = None
    prefetch: float | None = None
    limits: Limits | None = None
    window: WindowChoice = "auto"
    max_held: int | None = None
    max_hold: float = 10.0
    handlers: int | HandlerPool | None = None
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
        if self.interval is not None:
            above_zero("interval", self.interval)
            if self.controller is not None:
                self.controller.check_interval(self.interval)
        if self.prefetch is not None:
            above_zero("prefetch", self.prefetch)
            prefetch_count("prefetch", self.prefetch)
        if self.window not in get_args(WindowChoice):
            raise InputError(f"window is {self.window!r}; give 'auto', 'lanes' or 'single'.")
        if self.max_held is not None:
            if not_negative("max_held", self.max_held) % 1:
                raise InputError(f"max_held is {self.max_held:g}; give a whole number of acks.")
        above_zero("max_hold", self.max_hold)
        if isinstance(self.handlers, int | float):
            if self.handlers < 1 or self.handlers % 1:
                raise InputError(
                    f"handlers is {self.handlers}; give how many messages your program works on "
                    "at once, or the controlmq.WorkerPool that they run in."
                )

    @property
    def sample_interval(self) -> float:
        """Seconds a sample: what was given, else the model's."""
        if self.interval is not None:
            return self.interval
        model = self.controller.model if self.controller is not None else None
        return model.interval if model is not None else DEFAULT_INTERVAL_SECONDS

    def goal_for(self, queue: str) -> float | None:
        """The goal of consumers on ``queue``."""
        if isinstance(self.goal, Mapping):
            return self.goal.get(queue)
        return self.goal

    def start(self, asked: float | None, goal: float | None, limits: Limits | None) -> float:
        """The prefetch to start from; ``asked`` is what ``basic_qos`` said."""
        if self.prefetch is not None:
            prefetch = self.prefetch
        elif asked:
            prefetch = asked
        elif goal is not None and self.controller is not None and self.controller.model is not None:
            prefetch = self.controller.model.prefetch_for(goal)
        elif self.controller is None:
            raise InputError(
                "there is no prefetch to hold; give wrap a prefetch or a goal and a controller, "
                "or call basic_qos before basic_consume."
            )
        else:
            prefetch = START_PREFETCH
        return limits.clamp(prefetch) if limits else prefetch

    def shape(self, limits: Limits | None, *, controlled: bool) -> Shape:
        """How the window of a consumer may be made."""
        return Shape(
            window=self.window,
            controlled=controlled,
            limits=limits,
            max_held=self.max_held,
            max_hold=self.max_hold,
            interval=self.sample_interval,
            handlers=self.handlers,
        )
