"""One loop for two worlds: sample, decide, actuate.

The loop drives anything that is a :class:`Plant`. The simulated consumer and the
live RabbitMQ consumer both are one, and the loop cannot tell which it drives.

Timing: the prefetch decided at sample ``k``, ``u(k)``, is in force until sample
``k+1``; the rate counted in that interval is ``y(k+1)``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from controlmq.bands import band
from controlmq.checks import above_zero
from controlmq.sample import STARVED_TOLERANCE_SHARE, Sample

__all__ = [
    "NO_GROUP",
    "STARVED_TOLERANCE_SHARE",
    "Controller",
    "Loop",
    "Plant",
    "Sample",
    "Step",
    "Transition",
]

log = logging.getLogger("controlmq")

NO_GROUP = "default"
"""The group of a loop that was given none."""


class Plant(Protocol):
    """What can be observed and actuated: a consumer, simulated or live."""

    def observe(self) -> Sample:
        """Close the current interval and return it (a simulated plant runs it first)."""

    def actuate(self, prefetch: float) -> None:
        """Put a real-valued prefetch in force from now on."""


class Controller(Protocol):
    """Decides the next prefetch from a sample and the goal, and nothing else.

    Pure: no clock, no input or output. Limits, anti-windup and bumpless start are its own.
    """

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch to put in force, in messages; may be fractional."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of a trace: prefetch ``u(k)`` and rate ``y(k)`` led to ``y_next = y(k+1)``.

    ``sample`` is ``k`` and ``time`` its end in seconds; ``interval`` is the length in
    seconds over which ``y_next`` was counted. Rates are messages/second. A row is
    ``window_limited`` when the window was the limit in both intervals; other rows are
    kept and not fitted.

    The bands tell workloads apart (:mod:`controlmq.bands`), each by the centre of the band in
    which the workload lay while ``y_next`` was counted: messages/second published, bytes of a
    message, seconds in the handler; 0 where that is not known.
    """

    group: str
    trace: str
    sample: int
    time: float
    interval: float
    u: float
    y: float
    y_next: float
    window_limited: bool
    publish_rate_band: float = 0.0
    message_size_band: float = 0.0
    service_time_band: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """What one turn of the loop saw and decided.

    ``told`` has what the goals cost at present, one sentence each; where there is no rate to hold,
    ``goal`` is not a number.
    """

    sample: Sample
    goal: float
    prefetch: float
    told: tuple[str, ...] = ()


class Loop:
    """Drives a plant towards a goal, one sample at a time.

    ``goal`` (messages/second, None for a controller that needs none) may be set between steps; so
    may ``controller``. ``record`` is called with the transition between every two consecutive
    samples. What a controller has under ``told``, sentences by a key, is in the step, and
    logged when a key appears for the first time; where there is a ``group``, the line names it.

    A controller that raises or returns something that is not a finite number of at least
    0 does not stop the consumer: the prefetch in force stays; this is logged
    once, and again when the controller recovers. A ``record`` that raises, for example on a full
    disk, does not stop the consumer either.
    """

    def __init__(
        self,
        plant: Plant,
        controller: Controller,
        goal: float | None,
        *,
        record: Callable[[Transition], None] | None = None,
        group: str = NO_GROUP,
        trace: str = "default",
    ) -> None:
        self.plant = plant
        self.controller = controller
        self.goal = goal
        self.record = record
        self.group = group
        self.trace = trace
        self.controller_failures = 0
        """Decisions that the controller failed to make, since the start."""
        self.record_failures = 0
        """Transitions that could not be recorded, since the start."""
        self._previous: Sample | None = None
        self._controller_failed = False
        self._record_failed = False
        self.told: set[str] = set()
        """Keys of what was logged of all that the controller had to tell."""

    @property
    def goal(self) -> float:
        """The rate to hold, messages/second; not a number where there is none."""
        return self._goal

    @goal.setter
    def goal(self, goal: float | None) -> None:
        self._goal = math.nan if goal is None else above_zero("goal", goal)

    def step(self) -> Step:
        """Close one interval, record it, decide and put the decision in force."""
        sample = self.plant.observe()
        if self.record is not None and self._previous is not None:
            if sample.number == self._previous.number + 1:
                self._write(self.record, self._transition(self._previous, sample))
        self._previous = sample
        prefetch = self._decide(sample)
        if prefetch != sample.prefetch:
            self.plant.actuate(prefetch)
        return Step(sample, self.goal, prefetch, self._tell())

    def run(self, samples: int) -> Iterator[Step]:
        """The next ``samples`` steps, one by one, so that a caller may act between them."""
        for _ in range(samples):
            yield self.step()

    def _decide(self, sample: Sample) -> float:
        try:
            prefetch = float(self.controller(sample, self.goal))
            if not math.isfinite(prefetch) or prefetch < 0:
                raise ValueError(f"it returned {prefetch}")
        except Exception as error:
            self.controller_failures += 1
            if not self._controller_failed:
                self._controller_failed = True
                log.error(
                    "controller failed (%s: %s); prefetch stays at %g until it recovers",
                    type(error).__name__,
                    error,
                    sample.prefetch,
                )
            return sample.prefetch
        if self._controller_failed:
            self._controller_failed = False
            log.warning("controller recovered; prefetch is %g", prefetch)
        return prefetch

    def _tell(self) -> tuple[str, ...]:
        """What the controller has to tell now, logged the first time."""
        told: Mapping[str, str] = getattr(self.controller, "told", {})
        of_group = "" if self.group == NO_GROUP else f"{self.group}: "
        for key in told.keys() - self.told:
            log.warning("%s%s", of_group, told[key])
        self.told |= told.keys()
        return tuple(told.values())

    def _write(self, record: Callable[[Transition], None], transition: Transition) -> None:
        try:
            record(transition)
        except Exception as error:
            self.record_failures += 1
            if not self._record_failed:
                self._record_failed = True
                log.error(
                    "recording failed (%s: %s); consuming goes on", type(error).__name__, error
                )
            return
        if self._record_failed:
            self._record_failed = False
            log.warning("recording goes on")

    def _transition(self, before: Sample, after: Sample) -> Transition:
        return Transition(
            group=self.group,
            trace=self.trace,
            sample=before.number,
            time=before.time,
            interval=after.interval,
            u=after.prefetch,
            y=before.rate,
            y_next=after.rate,
            window_limited=before.window_limited and after.window_limited,
            service_time_band=band(after.handler_time),
        )
