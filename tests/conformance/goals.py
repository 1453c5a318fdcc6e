"""Goals through each client: a rate, a ceiling and a time in the buffer.

What a consumer says of itself does not count. A rate and a ceiling are judged by the times at which
messages were handed over, a time in the buffer by when the network passed each message on to the
client, and when its handler began.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.drivers import Driver
from tests.conformance.slots import noted_above
from tests.faults.consumer import ConsumerProcess
from tests.faults.record import Line, Reader
from tests.known.stretches import worst_excess
from tests.testbed import Broker, wait_until
from tests.testbed.proxy import proxied
from tests.testbed.publishing import connected, declared_queue, delete_queue, fill
from tests.testbed.wire import deliveries, stamped

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
    """What was noted of a consumer; times are in seconds, by the clock of the machine.

    ``samples`` are its own, each with the time ``at`` which it was taken. Only ``measured`` ones
    count: not those in which it settled, nor those in which it stopped. ``hand_overs`` are the
    times at which messages were handed over, ``received`` and ``begun`` when each message was with
    the client and with its handler, by its number.
    """

    samples: Sequence[Mapping[str, float]]
    hand_overs: Sequence[float] = ()
    received: Mapping[int, float] = field(default_factory=dict)
    begun: Mapping[int, float] = field(default_factory=dict)
    measured: int = MEASURED_SAMPLES

    def mean(self, name: str) -> float:
        """What the consumer says of the samples that are measured."""
        counted = self.samples[SETTLE_SAMPLES : SETTLE_SAMPLES + self.measured]
        return statistics.fmean(each[name] for each in counted)

    @property
    def span(self) -> tuple[float, float]:
        """When the samples that are measured began and ended."""
        last = SETTLE_SAMPLES + self.measured - 1
        return self.samples[SETTLE_SAMPLES - 1]["at"], self.samples[last]["at"]

    def rate(self) -> float:
        """Messages handed over per second."""
        since, until = self.span
        return sum(since < each <= until for each in self.hand_overs) / (until - since)

    def buffer_time(self) -> float:
        """Mean seconds from a message's receipt to the begin of its handler."""
        since, until = self.span
        counted = {each: at for each, at in self.begun.items() if since < at <= until}
        return statistics.fmean(at - self.received[each] for each, at in counted.items())


@dataclass(frozen=True)
class Goal:
    """A goal, what shows that it is held, and how far off that may be.

    ``deviation`` is judged by ``judge``; ``sensed`` is the same by the consumer's own samples.
    ``bounded``: every hand-over takes a token, and is noted.
    """

    name: str
    settings: dict[str, float]
    judge: str
    deviation: Callable[[Notes], float]
    sensed: Callable[[Notes], float] | None
    allowed: float
    bounded: bool


def excess(notes: Notes) -> float:
    """Messages by which the worst stretch of time has more than the ceiling and a burst of one."""
    return max(0.0, float(worst_excess(notes.hand_overs, RATE, 1.0)))


GOALS = (
    Goal(
        "rate",
        {"goal": RATE},
        "hand-overs",
        lambda notes: notes.rate() / RATE - 1,
        lambda notes: notes.mean("rate") / RATE - 1,
        allowed=0.01,
        bounded=True,
    ),
    Goal(
        "ceiling",
        {"at_most": RATE, "burst": 1},
        "hand-overs",
        excess,
        None,
        allowed=0.0,
        bounded=True,
    ),
    Goal(
        "buffer time",
        {"buffer_time": BUFFER_SECONDS},
        "stamps",
        lambda notes: notes.buffer_time() / BUFFER_SECONDS - 1,
        lambda notes: notes.mean("buffer_time") / BUFFER_SECONDS - 1,
        allowed=0.1,
        bounded=False,
    ),
)


class Supply:
    """Keeps messages waiting in a queue."""

    def __init__(self, broker: Broker, queue: str, driver: Driver) -> None:
        self._parameters = broker.parameters
        self._queue = queue
        self._make = driver.make
        self._published = 0

    def top_up(self) -> None:
        """Publish some thousands where fewer wait."""
        with connected(self._parameters) as connection:
            answer = connection.channel().queue_declare(self._queue, passive=True)
        if answer.method.message_count < WAITING_MESSAGES:
            fill(self._parameters, self._queue, WAITING_MESSAGES, self._published, make=self._make)
            self._published += WAITING_MESSAGES


def hold(
    goal: Goal, driver: Driver, broker: Broker, samples: int, interval: float = 1.0
) -> dict[str, Any]:
    """Let a consumer hold a goal for that many samples after it has settled."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        declared_queue(broker.parameters) as queue,
        broker.proxied(stamps=(folder := Path(temporary))) as proxy,
    ):
        supply = Supply(broker, queue, driver)
        supply.top_up()
        url = proxied(broker.url, proxy)
        consumer = _consumer(goal, driver, url, queue, folder, interval)
        try:
            _consume(consumer, supply, folder, SETTLE_SAMPLES + samples)
        finally:
            consumer.destroy()
            for suffix in driver.further_queues:
                delete_queue(broker.parameters, f"{queue}{suffix}")
            proxy.close()
        lines = Reader(folder / "record").look()
        notes = noted(folder, queue, lines, samples)
    return judged(goal, notes, lines, consumer.crashes)


def _consumer(
    goal: Goal, driver: Driver, url: str, queue: str, folder: Path, interval: float
) -> ConsumerProcess:
    words: dict[str, Any] = {"interval": interval, **goal.settings}
    if driver.says_handlers:
        words["handlers"] = driver.handlers
    bench = driver.bench(
        notes=str(folder / "notes"),
        restless=False,
        work=WORK_SECONDS,
        handlers=driver.handlers,
        settings=words,
    )
    return ConsumerProcess(
        url,
        queue,
        folder / "record",
        client=driver.name,
        seed=1,
        program=bench.program,
        further=bench.further,
    )


def _consume(consumer: ConsumerProcess, supply: Supply, folder: Path, needed: int) -> None:
    """Wait until there are that many samples, and end the consumer."""
    notes = folder / "notes"

    def ended() -> bool:
        consumer.attend()
        supply.top_up()
        taken = len(notes.read_text().splitlines()) if notes.exists() else 0
        return bool(consumer.crashes) or taken >= needed

    wait_until(ended, f"there are {needed} samples", DEADLINE, pause=0.5)
    assert not consumer.crashes, consumer.crashes[0]
    consumer.close()


def noted(folder: Path, queue: str, lines: Sequence[Line], samples: int) -> Notes:
    """What the program and the network wrote down."""
    notes = folder / "notes"
    times = notes.with_suffix(".times")
    received: dict[int, float] = {}
    for connection in stamped(folder):
        for each in deliveries(connection):
            if each.routing_key == queue:
                received.setdefault(number_in(each.body), each.when)
    return Notes(
        [json.loads(line) for line in notes.read_text().splitlines()],
        [float(each) for each in times.read_text().split()] if times.exists() else [],
        received,
        {line.number: line.time for line in lines if line.event == "begun"},
        samples,
    )


def number_in(body: bytes) -> int:
    """The number of a message of whatever client: there are no digits before it."""
    found = re.search(rb"\d+", body)
    assert found is not None, body
    return int(found[0])


def judged(
    goal: Goal, notes: Notes, lines: Sequence[Line], crashes: Sequence[str]
) -> dict[str, Any]:
    """Whether a goal was held, and what was noted of it."""
    begun, hand_overs = len(notes.begun), len(notes.hand_overs)
    failures = [*crashes, *noted_above(lines)]
    if not begun or (goal.bounded and hand_overs < begun):
        failures.append(f"{begun} handlers began, and {hand_overs} hand-overs were noted")
    deviation = goal.deviation(notes)
    if abs(deviation) > goal.allowed:
        failures.append(f"off by {deviation:.3g}, at most {goal.allowed:g} is allowed")
    return {
        "goal": goal.name,
        "deviation": deviation,
        "allowed": goal.allowed,
        "judged_by": goal.judge,
        "deviation_sensed": goal.sensed(notes) if goal.sensed is not None else None,
        "rate": notes.mean("rate"),
        "buffer_time": notes.mean("buffer_time"),
        "hand_overs": hand_overs,
        "begun": begun,
        "bound_checked": True,
        "failures": failures,
    }
