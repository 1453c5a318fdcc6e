"""A simulated consumer whose work jumps between two service times, and a loop's error on it."""

from __future__ import annotations

from controlmq import (
    ArxModel,
    Loop,
    Tuning,
)
from controlmq.design import place
from controlmq.loop import Controller
from controlmq.performance import score
from simulator import (
    Change,
    Consumer,
    Duration,
    Link,
    Publishers,
    Queue,
    Scenario,
    SimulatedConsumer,
)

GOAL = 400.0


SAMPLES = 300


FAST, SLOW = 0.001, 0.004
"""Seconds of work."""


ROUND_TRIP, JITTER = 0.001, 0.00005


JUMP_INTERVAL_SECONDS = 10.0
"""Seconds from one jump to the next."""


def jumping(samples: int = SAMPLES) -> Scenario:
    """The consumer whose work changes between 1 and 4 ms, again and again."""
    jumps = range(1, int(samples / JUMP_INTERVAL_SECONDS) + 1)
    return working(
        FAST,
        [Change(at=JUMP_INTERVAL_SECONDS * k, factor=SLOW / FAST if k % 2 else 1.0) for k in jumps],
    )


def working(time: float, changes: list[Change] | None = None) -> Scenario:
    """The consumer with this much work a message, exponential."""
    return Scenario(
        name="jumping-work",
        sample_interval=1.0,
        publishers=[Publishers("publishers", "work", Duration(1 / 130, "exponential"), count=5)],
        queues=[Queue("work", max_length=1000, overflow="drop-head")],
        consumers=[
            Consumer(
                "consumer",
                "work",
                Duration(time, "exponential"),
                handlers=4,
                link="network",
                work_schedule=changes or (),
                spread_acks=False,
            )
        ],
        links=[Link("network", ROUND_TRIP, jitter=Duration(JITTER, "exponential"))],
    )


def deadbeat(model: ArxModel) -> Tuning:
    """PI with both poles at 0: an error is gone a sample after it was seen."""
    return Tuning("pi", place("pi", model, (1.0, 0.0, 0.0)), model)


def faster_published(scenario: Scenario) -> Scenario:
    """The same with more publishers: an experiment goes beyond the goal, and must not starve."""
    from dataclasses import replace

    return replace(scenario, publishers=[replace(scenario.publishers[0], count=15)])


def tracking_error(scenario: Scenario, controller: Controller, seed: int) -> float:
    """The IAE of a loop on the jumping consumer, messages."""
    jumps = scenario.consumers[0].work_schedule
    samples = int(JUMP_INTERVAL_SECONDS * len(jumps))
    loop = Loop(SimulatedConsumer(scenario, seed=seed), controller, GOAL)
    return score(list(loop.run(samples)), [jump.at for jump in jumps]).iae
