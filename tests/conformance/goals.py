"""Goals through each client: a rate, a ceiling and a time in the buffer."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.drivers import Driver
from tests.faults.consumer import ConsumerProcess
from tests.known.stretches import worst_excess
from tests.testbed import Broker, wait_until
from tests.testbed.publishing import connected, declared_queue, delete_queue, fill

MEASURED_SAMPLES = 60
SETTLE_SAMPLES = 20
"""Samples before those that are measured."""

RATE = 100.0
BUFFER_SECONDS = 0.2
WORK_SECONDS = 0.005

WAITING_MESSAGES = 6000
"""Messages that wait in the queue at least: some seconds of work for the fastest client. Publishing
the next ones takes a while on a busy machine, and a queue that runs dry makes a law start again."""

DEADLINE = 400.0
"""Seconds for a run, on a busy machine too."""


@dataclass(frozen=True)
class Notes:
    """What a consumer noted: its samples, and when messages were handed over (seconds).

    Only ``measured`` samples count: not those in which it settled, nor those in which it stopped.
    """

    samples: list[dict[str, float]]
    hand_overs: list[float]
    measured: int = MEASURED_SAMPLES

    def mean(self, name: str) -> float:
        """Of the samples that are measured."""
        counted = self.samples[SETTLE_SAMPLES : SETTLE_SAMPLES + self.measured]
        return statistics.fmean(each[name] for each in counted)


@dataclass(frozen=True)
class Goal:
    """A goal, what shows that it is held, and how far off that may be."""

    name: str
    settings: dict[str, float]
    deviation: Callable[[Notes], float]
    allowed: float


def rate_deviation(notes: Notes) -> float:
    """Share by which the mean rate is off."""
    return notes.mean("rate") / RATE - 1


def buffer_deviation(notes: Notes) -> float:
    """Share by which the mean time in the buffer is off."""
    return notes.mean("buffer_time") / BUFFER_SECONDS - 1


def excess(notes: Notes) -> float:
    """Messages by which the worst stretch of time has more than the ceiling and a burst of one."""
    return max(0.0, float(worst_excess(notes.hand_overs, RATE, 1.0)))


GOALS = (
    Goal("rate", {"goal": RATE}, rate_deviation, 0.01),
    Goal("ceiling", {"at_most": RATE, "burst": 1}, excess, 0.0),
    Goal("buffer time", {"buffer_time": BUFFER_SECONDS}, buffer_deviation, 0.1),
)


def hold(
    goal: Goal, driver: Driver, broker: Broker, samples: int, interval: float = 1.0
) -> dict[str, Any]:
    """Let a consumer hold a goal for that many samples after it has settled."""
    needed = SETTLE_SAMPLES + samples
    words: dict[str, Any] = {"interval": interval, **goal.settings}
    if driver.says_handlers:
        words["handlers"] = driver.handlers
    further = {
        "restless": False,
        "work": WORK_SECONDS,
        "handlers": driver.handlers,
        "settings": words,
    }
    with tempfile.TemporaryDirectory() as folder, declared_queue(broker.parameters) as queue:
        notes = Path(folder) / "notes"
        published = 0

        def noted() -> bool:
            nonlocal published
            with connected(broker.parameters) as connection:
                answer = connection.channel().queue_declare(queue, passive=True)
            if answer.method.message_count < WAITING_MESSAGES:
                fill(broker.parameters, queue, WAITING_MESSAGES, published, make=driver.make)
                published += WAITING_MESSAGES
            return notes.exists() and len(notes.read_text().splitlines()) >= needed

        noted()
        bench = driver.bench(notes=str(notes), **further)
        consumer = ConsumerProcess(
            broker.url,
            queue,
            Path(folder) / "record",
            client=driver.name,
            seed=1,
            program=bench.program,
            further=bench.further,
        )

        def ended() -> bool:
            consumer.attend()
            return bool(consumer.crashes) or noted()

        try:
            wait_until(ended, f"there are {needed} samples", DEADLINE, pause=0.5)
            assert not consumer.crashes, consumer.crashes[0]
            consumer.close()
        finally:
            consumer.destroy()
            for suffix in driver.further_queues:
                delete_queue(broker.parameters, f"{queue}{suffix}")
        lines = notes.read_text().splitlines()
        times = notes.with_suffix(".times")
        hand_overs = [float(each) for each in times.read_text().split()] if times.exists() else []
        found = Notes([json.loads(line) for line in lines], hand_overs, samples)
    deviation = goal.deviation(found)
    return {
        "goal": goal.name,
        "deviation": deviation,
        "allowed": goal.allowed,
        "rate": found.mean("rate"),
        "buffer_time": found.mean("buffer_time"),
        "hand_overs": len(hand_overs),
        "crashes": consumer.crashes,
        "held": abs(deviation) <= goal.allowed and not consumer.crashes,
    }
