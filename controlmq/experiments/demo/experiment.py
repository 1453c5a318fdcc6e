"""The demo's experiment: measure a simulated consumer, model it, control it, disturb it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from controlmq import published
from controlmq.controllers import OpenLoop, build, ramp, random_levels
from controlmq.controllers.controller_file import KINDS
from controlmq.design import Design, design_controller
from controlmq.errors import ControlmqError
from controlmq.loop import Loop, Step, Transition
from controlmq.model import ArxModel
from controlmq.performance import Performance, performance
from controlmq.traces import TraceWriter, read_transitions
from simulator import Scenario, SimulatedConsumer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from identification import Curve, Fit

GOALS = (published.GOAL, 450.0)
"""Messages/second: the published goal, and one that no whole prefetch gives."""

LINEAR_SHARE = 0.8
"""Up to which share of the knee the levels go: random work bends the curve before the knee."""

PAUSE = "publishers pause"


@dataclass(frozen=True)
class Extent:
    """How long each part takes: up to which prefetch, and how many samples."""

    ramp_to: int
    ramp_samples: int
    levels: int
    closed_loop: int
    phase: int


FULL = Extent(ramp_to=40, ramp_samples=4, levels=240, closed_loop=120, phase=30)
QUICK = Extent(ramp_to=40, ramp_samples=1, levels=100, closed_loop=60, phase=25)


@dataclass(frozen=True)
class Event:
    """Something that happens to the loop at the start of a sample, and what to call it."""

    sample: int
    name: str


@dataclass(frozen=True)
class ClosedLoop:
    """One closed loop, sample by sample."""

    controller: str
    steps: tuple[Step, ...]
    events: tuple[Event, ...] = ()

    @property
    def rates(self) -> list[float]:
        """Measured rates, messages/second."""
        return [step.sample.rate for step in self.steps]


@dataclass(frozen=True)
class RampFit:
    """What fitting a ramp makes of a line without any dynamics."""

    a: float
    b: float
    r2: float
    refusal_with_offset: str
    condition_with_offset: float


@dataclass(frozen=True)
class Outcome:
    """Everything the demo found out."""

    scenario: Scenario
    seed: int
    curve: Curve
    fit: Fit
    model: ArxModel
    levels: list[Transition]
    ramp_fit: RampFit
    designs: dict[str, Design]
    held: dict[float, dict[str, ClosedLoop]] = field(repr=False)
    judged: dict[float, dict[str, Performance]]
    stories: dict[str, ClosedLoop] = field(repr=False)


class Demo:
    """Runs the experiment part by part, calling ``progress`` for every sample."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        extent: Extent,
        traces: Path,
        progress: Callable[[str], None],
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.extent = extent
        self.traces = traces
        self.progress = progress

    @property
    def samples(self) -> int:
        """How many samples all parts together simulate."""
        loops = len(KINDS) * (len(GOALS) * self.extent.closed_loop + 6 * self.extent.phase)
        recorded = self.extent.ramp_to * self.extent.ramp_samples + self.extent.levels
        return recorded + 4 + loops

    def run(self, spark: SparkSession) -> Outcome:
        """All parts, in the order a user would do them."""
        from identification import curve

        plan = ramp(1, self.extent.ramp_to, self.extent.ramp_samples)
        ramp_folder = self._record("ramp", plan, "measuring the curve")
        (seen,) = curve(spark, ramp_folder)
        if seen.knee is None:
            raise ControlmqError(
                f"the rate of scenario {self.scenario.name} shows no knee up to prefetch "
                f"{self.extent.ramp_to}; the demo needs a consumer that saturates."
            )
        levels = random_levels(1, LINEAR_SHARE * seen.knee.prefetch, self.extent.levels, self.seed)
        levels_folder = self._record("levels", levels, "recording levels in random order")
        fit, model = self._identify(spark, levels_folder)
        designs = {kind: design_controller(model, kind) for kind in KINDS}
        held = {goal: {kind: self._hold(designs[kind], goal) for kind in KINDS} for goal in GOALS}
        return Outcome(
            scenario=self.scenario,
            seed=self.seed,
            curve=seen,
            fit=fit,
            model=model,
            levels=[Transition(**row) for row in read_transitions(levels_folder).to_pylist()],
            ramp_fit=self._fit_a_ramp(spark),
            designs=designs,
            held=held,
            judged={
                goal: {kind: performance(run.rates, goal) for kind, run in runs.items()}
                for goal, runs in held.items()
            },
            stories={kind: self._story(designs[kind]) for kind in KINDS},
        )

    def _record(self, name: str, levels: list[float], doing: str) -> Path:
        """Run an open-loop experiment and record it; returns the folder of the trace."""
        folder = self.traces / name
        plant = SimulatedConsumer(self.scenario, seed=self.seed)
        with TraceWriter(folder) as writer:
            loop = Loop(plant, OpenLoop(levels), 1.0, record=writer, group="demo", trace=name)
            for _ in loop.run(len(levels) + 1):
                self.progress(doing)
        return folder

    def _identify(self, spark: SparkSession, folder: Path) -> tuple[Fit, ArxModel]:
        from identification import identify

        self.progress("fitting the model on Spark")
        (fit,) = identify(spark, folder, linear_range="all")
        if fit.model is None:
            raise ControlmqError(f"no model for scenario {self.scenario.name}: {fit.reason}")
        return fit, fit.model

    def _fit_a_ramp(self, spark: SparkSession) -> RampFit:
        """Fit the ramp of a static line, with offset and without."""
        from identification import identify

        self.progress("fitting a ramp, as published")
        folder = self.traces / "static-line"
        rates = [
            published.STATIC_LINE_GAIN * level + published.STATIC_LINE_OFFSET
            for level in range(1, 23)
        ]
        with TraceWriter(folder) as writer:
            for k in range(1, len(rates)):
                writer(
                    Transition(
                        "line", "ramp", k - 1, 10.0 * k, 10.0, k + 1.0, rates[k - 1], rates[k], True
                    )
                )
        (without,) = identify(spark, folder, offset=False, linear_range="all", held_out=0)
        (with_offset,) = identify(spark, folder, linear_range="all", held_out=0)
        assert without.estimates is not None
        assert without.train is not None
        return RampFit(
            a=without.estimates.a,
            b=without.estimates.b,
            r2=without.train.r2,
            refusal_with_offset=with_offset.reason or "",
            condition_with_offset=with_offset.condition or math.inf,
        )

    def _hold(self, design: Design, goal: float) -> ClosedLoop:
        """A consumer started at its scenario's prefetch and left alone with one goal."""
        doing = f"{design.tuning.kind.upper()} holds {goal:g} msg/s"
        plant = SimulatedConsumer(self.scenario, seed=self.seed + 1)
        loop = Loop(plant, build(design.tuning), goal)
        return ClosedLoop(design.tuning.kind, self._steps(loop, self.extent.closed_loop, doing))

    def _story(self, design: Design) -> ClosedLoop:
        """A step of the goal, slower work, then a pause and a burst on a short queue."""
        doing = f"{design.tuning.kind.upper()} meets disturbances"
        plant = SimulatedConsumer(with_queue_of(self.scenario, 1000), seed=self.seed + 2)
        loop = Loop(plant, build(design.tuning), GOALS[0])
        phase = self.extent.phase
        work = self.scenario.consumers[0].work.mean
        acts: list[tuple[str, Callable[[], None]]] = [
            ("start", lambda: None),
            ("goal 400 to 600", lambda: setattr(loop, "goal", 600.0)),
            ("work takes twice as long", lambda: plant.set_service_time(2 * work)),
            ("work as before", lambda: plant.set_service_time(work)),
            (PAUSE, plant.pause_publishers),
            ("publishers burst, twice the rate", lambda: _burst(plant)),
        ]
        steps: list[Step] = []
        events: list[Event] = []
        for name, act in acts:
            act()
            if steps:
                events.append(Event(len(steps), name))
            steps.extend(self._steps(loop, phase, doing))
        return ClosedLoop(design.tuning.kind, tuple(steps), tuple(events))

    def _steps(self, loop: Loop, samples: int, doing: str) -> tuple[Step, ...]:
        steps = []
        for step in loop.run(samples):
            steps.append(step)
            self.progress(doing)
        return tuple(steps)


def with_queue_of(scenario: Scenario, length: int) -> Scenario:
    """The same scenario with every queue bounded to ``length`` messages."""
    queues = [dataclasses.replace(queue, max_length=length) for queue in scenario.queues]
    return dataclasses.replace(scenario, queues=queues)


def _burst(plant: SimulatedConsumer) -> None:
    plant.resume_publishers()
    plant.set_publish_rate(2.0)
