"""A consumer that runs without a broker: the real core and loop, with messages by hand."""

from __future__ import annotations

from collections.abc import Callable

from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core
from controlmq.controllers import PI, Limits
from controlmq.gains import Gains
from controlmq.goals import Goals
from controlmq.loop import Controller, Loop, Sample, Step, Transition
from controlmq.observe.registry import Reading, Registry

START = 1_700_000_000.0
"""Seconds since 1970 at which the consumer starts."""

LIMITS = Limits(0.5, 20.0)


class Running:
    """What the registry watches: a core with one consumer, and its loop."""

    def __init__(
        self,
        registry: Registry,
        queue: str = "orders",
        name: str = "",
        *,
        goal: float | None = 100.0,
        controller: Controller | None = None,
        record: Callable[[Transition], None] | None = None,
        start: float = START,
    ) -> None:
        self.registry = registry
        self.name = name or queue
        self.running = True
        self.switched_off = False
        self.at_most: float | None = None
        self.now = start
        self.core = Core()
        shape = Shape(window="lanes", controlled=goal is not None, limits=LIMITS)
        self.plant = Consumer("tag", queue, 2.0, shape, self.now)
        self.lane = self.core.subscribe(self.plant, self.now)
        self.core.lane_opened(self.lane, self.now)
        law = controller or PI(Gains(0.001, 0.005), LIMITS)
        self.loop = Loop(self.plant, law, goal or 1.0, record=record)
        self.steps: list[Step] = []
        self.adapts = goal is not None
        self._tag = 0

    @property
    def goal(self) -> float:
        return self.loop.goal

    @goal.setter
    def goal(self, goal: float) -> None:
        self.loop.goal = goal

    @property
    def goals(self) -> Goals:
        return Goals(goal=self.loop.goal, at_most=self.at_most) if self.adapts else Goals()

    def sample(
        self, messages: int = 50, *, work: float = 0.0, rejected: int = 0, redelivered: int = 0
    ) -> Reading:
        """A second in which this number of messages is handled; the last ones are rejected.

        ``work`` is seconds a message; without it handlers are busy all the time.
        """
        end = self.now + 1.0
        for number in range(messages):
            self._tag += 1
            since = self.now
            if number < redelivered:
                self.core.redelivered(self.plant)
            self.core.delivered(self.lane, self._tag, self.now, 0)
            self.now += work or 1.0 / messages
            if number < messages - rejected:
                self.core.acknowledged(self._tag, False, self.now)
            else:
                self.core.rejected(self._tag, False, self.now)
            self.core.give_back_all(self.now)
            self.core.take_acks()
            self.core.returned(self.plant, since, self.now)
        self.plant.now = self.now = end
        self.steps.append(self.loop.step())
        self.registry.sampled(self, self.steps[-1])
        return self.last

    @property
    def last(self) -> Reading:
        (observed,) = [each for each in self.registry.running() if each.watched is self]
        assert observed.last is not None
        return observed.last


def failing(sample: Sample, goal: float) -> float:
    """A controller that cannot decide."""
    raise ZeroDivisionError("no rate")
