"""Makes a controller for each consumer, with the laws of its goals."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controlmq.clients.settings import Settings
from controlmq.controllers import Limits, OpenLoop
from controlmq.controllers.selector import Selector
from controlmq.errors import InputError
from controlmq.goals import Goals
from controlmq.loop import Controller, Sample

if TYPE_CHECKING:
    from controlmq.clients.controlled_consumer import ControlledConsumer


class Controllers:
    """Gives each consumer of a channel a controller that no other has."""

    def __init__(self) -> None:
        self._first: Controller | None = None
        self._copy: Controller | None = None

    def new(self, settings: Settings, queue: str) -> Controller | None:
        """A controller for a consumer of ``queue``; None where the prefetch stays fixed."""
        goals = settings.goals.of(queue)
        if not settings.adapts(goals):
            return None
        if settings.controller is None:
            return Selector(goals, settings.limits or Limits.widest())
        controller = self._own(settings.controller.make())
        check_goal(queue, goals, controller)
        return combined(goals, settings.limits or settings.controller.limits, controller)

    def _own(self, controller: Controller) -> Controller:
        """``controller`` itself for the first consumer, and for others a copy of what it was then.

        A controller remembers, so that two consumers cannot share one.
        """
        if controller is not self._first:
            self._first = controller
            try:
                self._copy = copy.deepcopy(controller)
            except Exception:
                self._copy = None
            return controller
        if self._copy is None:
            raise InputError(
                "the controller cannot be copied for a second consumer; wrap a channel for "
                "each, with a controller of its own."
            )
        return copy.deepcopy(self._copy)


def check_goal(queue: str, goals: Goals, controller: Controller) -> None:
    """Refuse a controller without a goal; a plan has none, and needs none."""
    if goals.goal is None and not isinstance(controller, OpenLoop):
        raise InputError(
            f"queue {queue} has no goal; give one in messages/second, for a controller of "
            "your own too."
        )


def combined(goals: Goals, limits: Limits | None, controller: Controller) -> Controller:
    """``controller`` as published, or with the laws of the goals that it does not know."""
    if goals.buffer_time is None and not goals.protect:
        return controller
    return Selector(goals, limits or Limits.widest(), controller)


def hold(sample: Sample, goal: float) -> float:
    """The controller of a consumer with a fixed prefetch."""
    return sample.prefetch


def words_after(last: ControlledConsumer, words: dict[str, Any]) -> dict[str, Any]:
    """The words for the channel of a consumer that goes on from ``last``, which adapts.

    It takes over the controller, whose file may be missing just now; until then one stands in.
    """
    limits = last.limits_for(words.get("window", "auto"))
    words = words | {"limits": limits, "interval": last.plant.interval}
    if words.get("controller") is None and words.get("model") is None:
        return words
    return words | {"controller": stand_in, "model": None}


def stand_in(sample: Sample, goal: float) -> float:
    """The controller of a new consumer until it takes over that of the one before."""
    return sample.prefetch
