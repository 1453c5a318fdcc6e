"""What every client has to pass, as faults of a trial: mostly nothing fails but the program."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.conformance.drivers import Driver
from tests.conformance.slots import BrokerReadings, counted_above, noted_above
from tests.faults.judging import Verdict
from tests.faults.kinds import cut, itself, kill_consumer, stall, stop_consumer
from tests.faults.record import HANDLED, Line
from tests.faults.trial import Fault, Trial, run
from tests.testbed import Broker, Proxy
from tests.testbed.publishing import QueueKind, delete_queue

ALL_CHANGES = 1000
"""Random changes of the prefetch in a trial of full size."""

TOP_UP_MESSAGES = 1000
"""Messages published at once where fewer wait, while a window changes."""

CONSUMER_TIMEOUT_MS = 1000


def change(trial: Trial, changes: int) -> None:
    """The prefetch changes at random, with messages waiting all the time."""
    trial.stop_publishing()

    def changed() -> bool:
        if trial.waiting() < TOP_UP_MESSAGES:
            trial.fill(TOP_UP_MESSAGES)
        return trial.changes() >= changes

    trial.wait_until(changed, f"the prefetch has changed {changes} times")
    trial.publish()


def dry(trial: Trial) -> None:
    """The queue runs dry for a while: every ack has to go, also those that were held."""
    trial.stop_publishing()
    trial.wait_until(trial.handled_all, "all are handled")
    trial.broker.management.wait_for_queue(
        trial.queue, lambda view: view.messages_unacknowledged == 0, "no ack is held"
    )
    trial.fill(200)
    trial.publish()


@dataclass(frozen=True)
class Conformance:
    """One thing that a client has to pass.

    ``fault`` is what happens. ``further`` is what the program needs to know. ``reconnects``: the
    same process connects again. ``since`` is the first version of RabbitMQ that can do it, and
    ``queues`` are the kinds that can.
    """

    fault: Fault
    further: dict[str, Any] = field(default_factory=dict)
    reconnects: bool = False
    since: tuple[int, ...] = ()
    queues: tuple[QueueKind, ...] = ("classic", "quorum")

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return self.fault.name

    def possible(self, broker: Broker, kind: QueueKind) -> bool:
        """Whether this broker can do it with this kind of queue."""
        return broker.version >= self.since and kind in self.queues


def changes(count: int) -> Conformance:
    """That many changes of the prefetch."""
    return Conformance(Fault(f"{count:,} changes", partial(change, changes=count)))


OTHERS = (
    Conformance(Fault("dry spell", dry)),
    Conformance(Fault("stop", stop_consumer)),
    Conformance(Fault("kill -9", kill_consumer, ends_connection=True)),
    Conformance(Fault("connection cut", cut, ends_connection=True), reconnects=True),
    Conformance(Fault("stall", stall)),
    Conformance(
        Fault(
            "consumer timeout",
            itself,
            ends_connection=True,
            by_consumer="overdue",
            queue_arguments={"x-consumer-timeout": CONSUMER_TIMEOUT_MS},
        ),
        # The consumer does not know of the queue's argument, so it must not hold acks for long. Its
        # window stays, because a message of a lane that is gone comes again without a cancel.
        {"restless": False, "settings": {"max_hold": CONSUMER_TIMEOUT_MS / 4000, "prefetch": 6}},
        reconnects=True,
        since=(4, 3),
        queues=("quorum",),
    ),
)

TRIALS = (changes(ALL_CHANGES), *OTHERS)


@dataclass(frozen=True)
class Result:
    """How a client did: the verdict, and what is wrong, a sentence each."""

    verdict: Verdict
    failures: list[str]
    changes: int
    broker_readings: int
    """How often the broker was asked what is unacknowledged."""


def attempt(
    conformance: Conformance,
    driver: Driver,
    broker: Broker,
    proxy: Proxy,
    kind: QueueKind,
    seed: int = 1,
    least_changes: int = 0,
) -> Result:
    """One trial of one client on one kind of queue; it has ``least_changes`` at least."""
    asked: list[BrokerReadings] = []

    def watch(trial: Trial) -> BrokerReadings:
        asked.append(BrokerReadings(broker.management, trial.queue))
        return asked[0]

    outcome = run(
        conformance.fault,
        broker,
        proxy,
        kind,
        driver.name,
        seed,
        bench=driver.bench(**conformance.further),
        watch=watch,
        least_changes=least_changes,
    )
    if conformance.fault.inflict is stop_consumer:
        allowed = outcome.verdict.bound + driver.repeated_at_stop
        outcome = replace(outcome, verdict=replace(outcome.verdict, bound=allowed))
    judged = replace(outcome, verdict=without_own_losses(outcome.verdict, conformance, driver))
    failures = judged.failures(conformance.fault)
    for suffix in driver.further_queues:
        delete_queue(broker.parameters, f"{outcome.queue}{suffix}")
    if driver.in_order:
        failures += out_of_order(outcome.lines)
    if conformance.reconnects and driver.knows_handled:
        failures += handled_again(outcome.lines, outcome.verdict.duplicates, driver)
    readings = asked[0].readings
    failures += noted_above(outcome.lines)
    # Where nothing goes through for a while, acks and cancels take as long.
    under_way = max(outcome.under_way, outcome.verdict.pause_seconds)
    failures += counted_above(outcome.lines, readings, under_way)
    changed = sum(line.event == "sampled" for line in outcome.lines)
    return Result(outcome.verdict, failures, changed, len(readings))


def without_own_losses(verdict: Verdict, conformance: Conformance, driver: Driver) -> Verdict:
    """The verdict where messages that a kill may lose by the client's own doing are not lost."""
    if conformance.fault.inflict is kill_consumer and verdict.lost <= driver.lost_at_kill:
        return replace(verdict, lost=0)
    return verdict


def out_of_order(lines: Sequence[Line]) -> list[str]:
    """Messages that began after a later one of the same connection.

    What an ended connection had may come again whenever its broker gives it back: messages that
    it can have had do not count in those that follow.
    """
    late, highest, given_back = 0, -1, -1
    most = max((line.slots for line in lines), default=0)
    for line in lines:
        if line.event == "opened" and highest >= 0:
            given_back = highest + most
        elif line.event == "begun":
            late += given_back < line.number < highest
            highest = max(highest, line.number)
    return [f"{late} messages began after a later one"] if late else []


def handled_again(lines: Sequence[Line], duplicates: int, driver: Driver) -> list[str]:
    """Whether more was handled twice than was running when connections were lost.

    A handler runs until it is done and has said so, at most ``reports_within`` seconds later where
    it is in another process. Each of these has one message at most that it has not said is done:
    Celery gives a process its next task when it has read the result of the last ("fair"). But when
    a connection is lost it forgets which processes are at work, so that behind each of these a
    message of the next connection may wait. If that one is lost too, such a message comes again.
    """
    running, most = 0, 0
    done: list[float] = []
    behind = _still_running(lines) if driver.reports_within else {}
    for line in lines:
        if line.event == "begun":
            running += 1
        elif line.event in HANDLED:
            running -= 1
            done.append(line.time)
        elif line.event == "lost":
            unreported = sum(time > line.time - driver.reports_within for time in done)
            most += max(running, min(running + unreported, driver.handlers))
            most += behind.get(line.time, 0)
            running = 0
    if duplicates <= most:
        return []
    return [f"{duplicates} handled twice, and at most {most} were running"]


def _still_running(lines: Sequence[Line]) -> dict[float, int]:
    """By the times of losses: handlers at work since before the loss before, which end later."""
    losses = [line.time for line in lines if line.event == "lost"]
    begun: dict[int, deque[float]] = defaultdict(deque)
    still = dict.fromkeys(losses, 0)
    for line in lines:
        if line.event == "begun":
            begun[line.number].append(line.time)
        elif line.event in HANDLED and begun[line.number]:
            since = begun[line.number].popleft()
            for loss in [each for each in losses if since < each < line.time][1:]:
                still[loss] += 1
    return still
