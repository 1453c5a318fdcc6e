"""The adaptive consumers of this process, and what the last sample of each said.

A consumer reports every step of its loop in its own thread. The report makes one immutable
:class:`Reading`, which others may read from any thread.
"""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from controlmq.consumer.consumer import Consumer
from controlmq.controllers.beyond_range import BeyondRange
from controlmq.controllers.freeze import frozen
from controlmq.controllers.limits import Limits
from controlmq.goals import Goals
from controlmq.loop import Loop, Step

log = logging.getLogger("controlmq")

TIME_BOUNDS_SECONDS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper ends of the bins of handler and buffer times; one more bin has what is longer."""

SERVER_NAMED_PREFIX = "amq.gen"
"""How RabbitMQ begins the names that it makes up; what follows is random."""

Limit = Literal["low", "high"]


class Watched(Protocol):
    """What the registry needs of a consumer and the loop that drives it."""

    plant: Consumer
    loop: Loop
    goal: float
    """The rate to hold, messages/second; to be set in the consumer's own thread."""

    @property
    def name(self) -> str:
        """The name that the user gave, or the queue's."""

    @property
    def goals(self) -> Goals:
        """What it is to do."""

    @property
    def adapts(self) -> bool:
        """Whether a controller moves its prefetch, or will when the kill switch is off again."""

    @property
    def switched_off(self) -> bool:
        """Whether the kill switch holds its prefetch."""

    @property
    def running(self) -> bool:
        """Whether it still consumes."""


@dataclass(frozen=True, slots=True)
class Times:
    """Messages by a time in seconds: in each bin of ``TIME_BOUNDS_SECONDS``, and all together.

    A message counts with the mean of its sample, because no message carries a stamp: the sum
    and the number are exact, and quantiles are those of the samples.
    """

    bins: tuple[int, ...] = (0,) * (len(TIME_BOUNDS_SECONDS) + 1)
    total_seconds: float = 0.0

    def with_sample(self, mean_seconds: float, messages: int) -> Times:
        """These and the messages of one more sample."""
        if not messages:
            return self
        bins = list(self.bins)
        bins[bisect_left(TIME_BOUNDS_SECONDS, mean_seconds)] += messages
        return Times(tuple(bins), self.total_seconds + mean_seconds * messages)


@dataclass(frozen=True, slots=True)
class Reading:
    """A consumer at the end of a sample.

    ``rate``, ``starved``, ``in_flight``, ``held``, ``handler_time`` and ``buffer_time`` are the
    sample's (:class:`controlmq.loop.Sample`); ``measured_prefetch`` was in force during it. The
    rest is what holds now: ``prefetch`` is the one decided from the sample. Counts are since
    the consumer started.
    """

    time: float
    interval: float
    rate: float
    measured_prefetch: float
    starved: float
    in_flight: float
    held: float
    handler_time: float
    buffer_time: float

    goals: Mapping[str, float]
    prefetch: float
    limits: tuple[float, float] | None
    law: str
    law_number: int
    """Changes whenever another controller has taken over."""
    gains: tuple[float, float, float] | None
    frozen: bool
    at_limit: Limit | None
    switched_off: bool
    open_slots: int
    granted: int
    max_held: int
    lanes: int

    samples: int
    received: int
    acknowledged: int
    refused: int
    redelivered: int
    lanes_asked: int
    lanes_refused: int
    controller_failures: int
    record_failures: int
    handler_times: Times
    buffer_times: Times


class Observed:
    """One running consumer, under the name by which it is shown."""

    def __init__(self, watched: Watched, queue: str, name: str) -> None:
        self.watched = watched
        self.queue = queue
        self.name = name
        self.last: Reading | None = None
        self.next_goal: float | None = None
        """A rate to hold that somebody asked for; the next sample puts it in force."""
        self._settled = 0
        self._law: object = None
        self._law_number = 0

    def reading(self, step: Step) -> Reading:
        """What to tell of the consumer after this step; it is the last one from now on."""
        plant, loop = self.watched.plant, self.watched.loop
        sample, window, law = step.sample, plant.window, loop.controller
        before = self.last
        handled = plant.sensors.acks
        self._settled += handled
        # A selector stays and gets another controller.
        inner = getattr(law, "controller", law)
        if inner is not self._law:
            self._law, self._law_number = inner, self._law_number + 1
        off = self.watched.switched_off
        controlled = self.watched.adapts and not off
        goals = goals_by_kind(self.watched.goals) if controlled else {}
        limits = _limits_of(plant.limits, inner)
        gains = getattr(law, "gains", None)
        reading = Reading(
            time=sample.time,
            interval=sample.interval,
            rate=sample.rate,
            measured_prefetch=sample.prefetch,
            starved=sample.starved,
            in_flight=sample.in_flight,
            held=sample.held,
            handler_time=sample.handler_time,
            buffer_time=sample.buffer_time,
            goals=goals,
            prefetch=window.target,
            limits=limits,
            law=law_name(law) if controlled else "fixed",
            law_number=self._law_number,
            gains=(gains.kp, gains.ki, gains.kd) if gains is not None else None,
            frozen="rate" in goals and frozen(sample, step.goal),
            at_limit=_at_limit(step.prefetch, limits),
            switched_off=off,
            open_slots=window.open_slots,
            granted=window.granted,
            max_held=window.max_held,
            lanes=len(window.subscribed),
            samples=before.samples + 1 if before else 1,
            received=plant.sensors.total,
            acknowledged=self._settled - plant.refused,
            refused=plant.refused,
            redelivered=plant.redelivered,
            lanes_asked=plant.lanes_asked,
            lanes_refused=plant.lanes_refused,
            controller_failures=loop.controller_failures,
            record_failures=loop.record_failures,
            handler_times=(before.handler_times if before else Times()).with_sample(
                sample.handler_time, handled
            ),
            buffer_times=(before.buffer_times if before else Times()).with_sample(
                sample.buffer_time, sample.arrivals
            ),
        )
        self.last = reading
        return reading


def law_name(law: object) -> str:
    """The one of several laws that decides, else what a controller calls itself, else its class."""
    return str(getattr(law, "in_force", "") or getattr(law, "kind", type(law).__name__.lower()))


def goals_by_kind(goals: Goals) -> dict[str, float]:
    """Those that are given: rates in messages/second, a time in seconds, 1 for what is wanted."""
    kinds = {
        "rate": goals.goal,
        "at_most": goals.at_most,
        "buffer_time": goals.buffer_time,
        "protect": 1.0 if goals.protect else None,
    }
    return {kind: value for kind, value in kinds.items() if value is not None}


def _limits_of(limits: Limits | None, law: object) -> tuple[float, float] | None:
    """What the prefetch stays within now; without limits, what a law beyond its range may."""
    if limits is not None:
        return limits.low, limits.high
    beyond: BeyondRange | None = getattr(law, "beyond", None)
    return None if beyond is None else (beyond.within.low, beyond.most)


def _at_limit(prefetch: float, limits: tuple[float, float] | None) -> Limit | None:
    if limits is None:
        return None
    low, high = limits
    return "low" if prefetch <= low else "high" if prefetch >= high else None


Listener = Callable[[Observed, Reading], None]
"""Called with each reading, in the thread of its consumer: it must be quick."""


class Registry:
    """Who runs, under which name, and who wants to hear of it.

    Of two consumers with one name on one queue the second is called ``name-2``, and so on: the
    lowest number that is free, so that restarts do not make new names.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self._observed: dict[Watched, Observed] = {}
        self._lock = threading.Lock()
        self._failed = False

    def sampled(self, watched: Watched, step: Step) -> None:
        """A consumer has taken a step; the first one enters it."""
        observed = self._observed.get(watched) or self._enter(watched)
        if observed.next_goal is not None:
            watched.goal, observed.next_goal = observed.next_goal, None
        reading = observed.reading(step)
        for listener in self.listeners:
            try:
                listener(observed, reading)
            except Exception:
                if not self._failed:
                    log.exception("an observer of the consumers failed; consuming goes on")
                self._failed = True

    def running(self) -> list[Observed]:
        """The consumers that run and have taken a sample, by queue and name."""
        with self._lock:
            self._forget_ended()
            found = [each for each in self._observed.values() if each.last is not None]
        return sorted(found, key=lambda each: (each.queue, each.name))

    def clear(self) -> None:
        """Forget all: they run in another process."""
        self._observed = {}
        self._lock = threading.Lock()

    def _enter(self, watched: Watched) -> Observed:
        queue, name = watched.plant.queue, watched.name
        if queue.startswith(SERVER_NAMED_PREFIX):
            name = SERVER_NAMED_PREFIX if name == queue else name
            queue = SERVER_NAMED_PREFIX
        with self._lock:
            self._forget_ended()
            taken = {each.name for each in self._observed.values() if each.queue == queue}
            number, free = 1, name
            while free in taken:
                number += 1
                free = f"{name}-{number}"
            # A new dictionary, so that nobody iterates over one that changes.
            observed = Observed(watched, queue, free)
            self._observed = {**self._observed, watched: observed}
        return observed

    def _forget_ended(self) -> None:
        self._observed = {each: seen for each, seen in self._observed.items() if each.running}


registry = Registry()
"""The consumers of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=registry.clear)
