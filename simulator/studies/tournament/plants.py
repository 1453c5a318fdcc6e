"""Consumers to try laws on: named ones, and some drawn at random with a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controlmq.controllers.selector import Selector
from controlmq.loop import Controller, Loop, Step
from simulator.plant import SimulatedConsumer
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import Duration
from simulator.scenario.links import Link
from simulator.scenario.publishers import SHORTEST_PUBLISH_INTERVAL_SECONDS, Publishers
from simulator.scenario.queues import Queue
from simulator.scenario.scenario import Scenario

NAME = "consumer"

DRAWN = "drawn"
"""How the names of plants begin that are drawn at random."""

PUBLISHED_PER_CAPACITY = 1.2
"""Messages published for each that handlers can do: the queue is never empty."""

QUEUE_LENGTH_MESSAGES = 5000
"""Messages. Longer than any prefetch here; what does not fit is dropped."""


@dataclass(frozen=True)
class Phase:
    """``samples`` with one round trip, work (mean seconds) and number of handlers.

    ``share`` is the part of what handlers can do that is published; 1.2 keeps the queue full.
    """

    samples: int
    round_trip: float
    work: float
    handlers: int = 1
    goal: float = math.nan
    share: float = PUBLISHED_PER_CAPACITY

    @property
    def capacity(self) -> float:
        """Messages/second that busy handlers do."""
        return self.handlers / self.work


@dataclass(frozen=True)
class TrialConsumer:
    """A consumer to try laws on, and what happens to it: the words that a plant is made from.

    ``distribution`` is that of the work, ``cv`` its spread per mean where it is lognormal;
    ``jitter`` is the mean of what each direction of the link takes longer, a share of half of the
    round trip, exponential.
    """

    name: str
    phases: Sequence[Phase]
    distribution: str = "deterministic"
    cv: float = 0.0
    jitter: float = 0.0
    interval: float = 1.0
    prefetch: float = 1.0
    spread_acks: bool = False

    def scenario(self) -> Scenario:
        """The scenario of the first phase, with handlers and messages enough for every one."""
        first = self.phases[0]
        most = max(phase.capacity for phase in self.phases)
        mean = first.work
        sd = self.cv * mean if self.distribution == "lognormal" else None
        jitter = None
        if self.jitter:
            jitter = Duration(self.jitter * first.round_trip / 2, "exponential")
        count = max(
            1, math.ceil(2 * PUBLISHED_PER_CAPACITY * most * SHORTEST_PUBLISH_INTERVAL_SECONDS)
        )
        return Scenario(
            self.name,
            self.interval,
            [
                Publishers(
                    "publishers",
                    "work",
                    Duration(count / (PUBLISHED_PER_CAPACITY * most)),
                    count=count,
                )
            ],
            [Queue("work", max_length=QUEUE_LENGTH_MESSAGES)],
            [
                Consumer(
                    NAME,
                    "work",
                    Duration(mean, self.distribution, sd),
                    handlers=max(phase.handlers for phase in self.phases),
                    link="link",
                    prefetch=self.prefetch,
                    spread_acks=self.spread_acks,
                )
            ],
            links=[Link("link", first.round_trip, jitter)],
        )


def drive(plant: TrialConsumer, controller: Controller, seed: int) -> Iterator[tuple[Phase, Step]]:
    """The steps of a loop through all phases; a selector with a rate gets a bucket for it."""
    consumer = SimulatedConsumer(plant.scenario(), seed=seed)
    simulation = consumer.simulation
    most = max(phase.capacity for phase in plant.phases)
    goal = plant.phases[0].goal
    loop = Loop(consumer, controller, None if math.isnan(goal) else goal)
    for phase in plant.phases:
        simulation.set_round_trip(NAME, phase.round_trip)
        simulation.set_service_time(NAME, phase.work)
        simulation.set_handlers(NAME, phase.handlers)
        simulation.set_publish_rate(phase.share * phase.capacity / (PUBLISHED_PER_CAPACITY * most))
        if not math.isnan(phase.goal):
            loop.goal = phase.goal
            if isinstance(controller, Selector):
                _pursue(consumer, controller, phase.goal)
        for _ in range(phase.samples):
            yield phase, loop.step()


def _pursue(consumer: SimulatedConsumer, selector: Selector, goal: float) -> None:
    """Give a selector the goal of a phase, and the consumer the bucket that it asks for."""
    words = ("goal", "at_most", "buffer_time")
    given = next(word for word in words if getattr(selector.goals, word) is not None)
    selector.goals = replace(selector.goals, **{given: goal})  # type: ignore[arg-type]
    consumer.pace(*selector.goals.pace(controlled=False))


def drawn(number: int, seed: int, messages: float = 1e5) -> list[TrialConsumer]:
    """``number`` plants drawn at random; each has three phases: as drawn, round trip x3, work x2.

    Every phase is as long as it takes to handle this number of ``messages``.
    """
    draw = random.Random(seed)
    return [_drawn(draw, f"{DRAWN} {seed}.{k}", messages) for k in range(1, number + 1)]


def _drawn(draw: random.Random, name: str, messages: float) -> TrialConsumer:
    round_trip = math.exp(draw.uniform(math.log(0.001), math.log(0.1)))
    work = math.exp(draw.uniform(math.log(0.0005), math.log(0.02)))
    handlers = draw.choice((1, 1, 2, 4, 8))
    distribution = draw.choice(("deterministic", "exponential", "lognormal"))
    cv = draw.uniform(0.3, 1.5) if distribution == "lognormal" else 0.0
    jitter = draw.choice((0.0, 0.1, 0.3))

    def phase(round_trip: float, work: float) -> Phase:
        samples = max(60, math.ceil(messages * work / handlers))
        return Phase(samples, round_trip, work, handlers)

    phases = (
        phase(round_trip, work),
        phase(3 * round_trip, work),
        phase(3 * round_trip, 2 * work),
    )
    return TrialConsumer(name, phases, distribution, cv, jitter)


# With goals

ROUND_TRIP, WORK = 0.0115, 0.001
"""Seconds: about the published consumer, with one handler."""


def named_rates(samples: int = 40) -> list[TrialConsumer]:
    """Consumers with a rate to hold, each with what may happen to one."""

    def phase(
        goal: float,
        round_trip: float = ROUND_TRIP,
        work: float = WORK,
        handlers: int = 1,
        share: float = PUBLISHED_PER_CAPACITY,
    ) -> Phase:
        return Phase(samples, round_trip, work, handlers, goal, share)

    def plant(name: str, *phases: Phase, **how: Any) -> TrialConsumer:
        usual: dict[str, Any] = {"distribution": "exponential", "spread_acks": True}
        return TrialConsumer(name, phases, **usual | how)

    return [
        plant("published, 400", phase(400.0), distribution="deterministic"),
        plant("published, 450", phase(450.0), distribution="deterministic"),
        plant("stairs", *(phase(goal) for goal in (100.0, 400.0, 200.0, 650.0))),
        plant("work x2 and back", phase(300.0), phase(300.0, work=2 * WORK), phase(300.0)),
        plant(
            "work-dominated, x3",
            phase(40.0, 0.001, 0.005),
            phase(40.0, 0.001, 0.015),
            phase(40.0, 0.001, 0.005),
        ),
        plant("round trip x2", phase(300.0), phase(300.0, 2 * ROUND_TRIP)),
        plant("round trip x5", phase(300.0), phase(300.0, 5 * ROUND_TRIP)),
        plant("pause and burst", phase(400.0), phase(400.0, share=0.05), phase(400.0)),
        plant("lognormal work, cv 3", phase(300.0), distribution="lognormal", cv=3.0),
        plant("goal above capacity", phase(600.0), phase(600.0, work=2 * WORK), phase(600.0)),
        plant("8 handlers", phase(400.0, work=0.01, handlers=8)),
        plant("jitter", phase(400.0), jitter=0.5),
    ]


DIFFER_BY_GOAL = ("published, 450", "stairs", "goal above capacity")
"""Named consumers that are another one of them, but for the rate."""


def named_ceilings(samples: int = 40) -> list[TrialConsumer]:
    """The same with a ceiling in the place of the rate.

    The stairs are left out: the first sample below a ceiling that is lowered was still decided
    above it, whatever the law.
    """
    plants = [plant for plant in named_rates(samples) if plant.name != "stairs"]
    return [replace(plant, spread_acks=False) for plant in plants]


def named_without_goals(samples: int = 40) -> list[TrialConsumer]:
    """The same without a goal, each once."""
    return [
        _with_goal(replace(plant, name=plant.name.removesuffix(", 400")), math.nan)
        for plant in named_ceilings(samples)
        if plant.name not in DIFFER_BY_GOAL
    ]


def named_times(samples: int = 40) -> list[TrialConsumer]:
    """The same with a time in the buffer to hold; no law can while the queue is empty."""
    plants = named_without_goals(samples)
    return with_times([plant for plant in plants if plant.name != "pause and burst"])


def with_rates(plants: Sequence[TrialConsumer], share: float = 0.6) -> list[TrialConsumer]:
    """Plants with a rate to hold that every phase can reach: a share of the least capacity."""
    return [
        _with_goal(plant, share * min(phase.capacity for phase in plant.phases), spread_acks=True)
        for plant in plants
    ]


def with_ceilings(plants: Sequence[TrialConsumer], share: float = 0.8) -> list[TrialConsumer]:
    """Plants with a ceiling that is a share of the first capacity, and above a later one."""
    return [_with_goal(plant, share * plant.phases[0].capacity) for plant in plants]


def with_times(plants: Sequence[TrialConsumer], works: float = 10.0) -> list[TrialConsumer]:
    """Plants with a time in the buffer to hold: that of so many messages at first."""
    return [_with_goal(plant, works * plant.phases[0].work) for plant in plants]


def _with_goal(plant: TrialConsumer, goal: float, **how: Any) -> TrialConsumer:
    phases = [replace(phase, goal=goal) for phase in plant.phases]
    return replace(plant, phases=tuple(phases), **how)
