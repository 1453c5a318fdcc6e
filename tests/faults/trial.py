"""One trial: a queue, a publisher with confirms, a consumer with a restless window, one fault."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.confirmed_publisher import ConfirmedPublisher, usual_message
from tests.faults.consumer import PROGRAM, ConsumerProcess
from tests.faults.judging import UNDER_WAY_SECONDS, Verdict, judge
from tests.faults.record import Line, Reader
from tests.testbed import Broker, Proxy, wait_until
from tests.testbed.cluster import Cluster
from tests.testbed.proxy import proxied
from tests.testbed.publishing import (
    MakeMessage,
    QueueKind,
    connected,
    declare_queue,
    delete_queue,
    fill,
)

BACKLOG = 300
"""Messages that wait when the consumer starts."""

PUBLISHED_PER_SECOND = 150.0

FEWEST_BEFORE, MOST_BEFORE = 50, 250
"""Messages handled before the fault: lanes have come and gone, and the backlog is not empty."""

AFTERWARDS_SECONDS = 0.3
"""Seconds for which messages are still published after the fault."""

NETWORK_DELAY_SECONDS = 0.002
"""Seconds in each direction: enough for acks and messages to be under way when a fault comes."""

DRAINED_SECONDS = 10.0
"""Seconds without a message after which an empty queue has nothing more to deliver, not even what a
lost consumer had in flight."""

CLUSTER_DRAINED_SECONDS = 70.0
"""The same in a cluster, where RabbitMQ 4.3 waits a minute for a node that vanished."""

DRAIN_DEADLINE = 120.0
"""Seconds for what waits to be handled after a fault, also by a consumer that connects again."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong.

    ``inflict`` does it, and returns when the cause is gone again. ``by_consumer`` names what the
    consumer does to itself. ``ends_connection``: whether the consumer's connection is lost
    by it; if not, nothing may be delivered twice.
    """

    name: str
    inflict: Callable[[Trial], None]
    ends_connection: bool = False
    restarts_broker: bool = False
    needs_cluster: bool = False
    by_consumer: str | None = None
    consumer_publishes: bool = False
    queue_arguments: dict[str, object] | None = None


@dataclass(frozen=True)
class Bench:
    """What a trial is done with, besides the broker: the program and the messages for it."""

    program: str = PROGRAM
    make: MakeMessage = usual_message
    further: dict[str, Any] | None = None
    """What the program needs to know besides the usual."""


USUAL_BENCH = Bench()


@dataclass(frozen=True)
class Outcome:
    """The verdict on a trial, and consumers that ended by themselves, with what they printed."""

    verdict: Verdict
    crashes: list[str]
    under_way: float
    """Seconds that an ack may have taken to the broker, as the bound allows for it."""
    record: str
    """What the consumers wrote."""
    lines: list[Line]
    """The same, read."""
    queue: str

    def failures(self, fault: Fault) -> list[str]:
        """What is wrong, a sentence each; nothing if all is as it must be."""
        verdict = self.verdict
        wrong = [f"the consumer crashed: {crash}" for crash in self.crashes]
        if verdict.lost:
            wrong.append(f"{verdict.lost} messages lost")
        if verdict.requeued:
            wrong.append(f"{verdict.requeued} messages requeued without a reason")
        if verdict.duplicates > verdict.bound:
            wrong.append(f"{verdict.duplicates} duplicates, at most {verdict.bound} are explained")
        if verdict.losses and not fault.ends_connection:
            wrong.append(f"{verdict.losses} connections lost that should have stayed")
        return wrong


class Trial:
    """What a fault can act on; see :func:`run`."""

    def __init__(
        self,
        broker: Broker,
        proxy: Proxy,
        kind: QueueKind,
        seed: int,
        cluster: Cluster | None,
        bench: Bench = USUAL_BENCH,
        arguments: dict[str, object] | None = None,
    ) -> None:
        self.bench = bench
        self.broker = broker
        self.cluster = cluster
        self.proxy = proxy
        self.kind = kind
        self.draw = random.Random(seed)
        # A quorum queue is led by the node on which it is declared.
        home = broker if cluster is None else self.draw.choice(cluster.nodes)
        self.queue = declare_queue(home.parameters, kind, arguments=arguments)
        self.declared_at = time.monotonic()
        self.fault_at = 0.0
        self.under_way = UNDER_WAY_SECONDS
        self.unsettled_since: float | None = None
        """When the broker was last known to have stored every ack, where it matters."""
        self.confirmed: set[int] = set()
        """Messages that have to be handled, besides those of the publisher at work."""
        self.next_number = 0
        self.publisher: ConfirmedPublisher
        self.consumer: ConsumerProcess
        self.reader: Reader

    def fill(self, count: int) -> None:
        """Publish ``count`` messages at once."""
        parameters, make = self.broker.parameters, self.bench.make
        fill(parameters, self.queue, count, self.next_number, make=make)
        self.confirmed |= set(range(self.next_number, self.next_number + count))
        self.next_number += count

    def publish(self) -> None:
        """Publish from now on."""
        self.publisher = ConfirmedPublisher(
            self.broker.parameters,
            self.queue,
            self.next_number,
            PUBLISHED_PER_SECOND,
            self.bench.make,
        )

    def stop_publishing(self) -> None:
        """Publish no more."""
        self.publisher.stop()
        self.confirmed |= self.publisher.confirmed
        self.next_number = self.publisher.next

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Look at the record until ``condition`` holds; a consumer that crashed is replaced."""

        def holds() -> bool:
            self.reader.look()
            self.consumer.attend()
            return bool(condition())

        wait_until(holds, what, DRAIN_DEADLINE, pause=0.01)

    def handled_all(self) -> bool:
        """Whether every confirmed message was handled and none waits."""
        return self.confirmed <= self.reader.handled and self.waiting() == 0

    def changes(self) -> int:
        """Changes of the prefetch so far, as far as the record was read."""
        return sum(line.event == "sampled" for line in self.reader.lines)

    def drain(self) -> int:
        """Wait until the queue is empty and nothing comes any more; return what is stuck in it."""

        seconds = DRAINED_SECONDS if self.cluster is None else CLUSTER_DRAINED_SECONDS

        def drained() -> bool:
            quiet = self.reader.quiet_seconds() > seconds
            return self.handled_all() or (quiet and self.waiting() == 0)

        try:
            self.wait_until(drained, "all confirmed messages are handled")
        except AssertionError:
            return self.waiting()
        return 0

    def waiting(self) -> int:
        """Messages in the queue that no consumer has."""
        with connected(self.broker.parameters) as connection:
            answer = connection.channel().queue_declare(self.queue, passive=True)
            return int(answer.method.message_count)

    def strike(self) -> None:
        """The fault comes now."""
        self.fault_at = time.monotonic()
        # What a message takes to the broker and its confirm back, an ack takes at most.
        self.under_way = max(UNDER_WAY_SECONDS, self.publisher.slowest)


def run(
    fault: Fault,
    broker: Broker,
    proxy: Proxy,
    kind: QueueKind = "classic",
    client: str = "blocking",
    seed: int = 1,
    cluster: Cluster | None = None,
    defect: str | None = None,
    bench: Bench = USUAL_BENCH,
    watch: Callable[[Trial], AbstractContextManager[object]] = nullcontext,
    least_changes: int = 0,
) -> Outcome:
    """One trial, with the consumer behind ``proxy``; ``defect`` plants one in the consumer.

    Of a ``cluster``, ``broker`` is the node that publisher and consumer connect to. ``watch`` is
    there for as long as the consumer. Messages are published until the prefetch has changed
    ``least_changes`` times, however slow the consumer is.
    """
    proxy.set_delay(NETWORK_DELAY_SECONDS)
    trial = Trial(broker, proxy, kind, seed, cluster, bench, fault.queue_arguments)
    before = trial.draw.randint(FEWEST_BEFORE, MOST_BEFORE)
    with ExitStack() as stack:
        record = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "record"
        stack.callback(delete_queue, broker.parameters, trial.queue)
        trial.fill(BACKLOG)
        trial.publish()
        stack.callback(lambda: trial.publisher.abandon())
        trial.reader = Reader(record)
        trial.consumer = ConsumerProcess(
            proxied(broker.url, proxy),
            trial.queue,
            record,
            client=client,
            seed=seed,
            program=bench.program,
            further=bench.further,
            fault=fault.by_consumer,
            fault_after=before,
            publishes=fault.consumer_publishes,
            defect=defect,
        )
        stack.callback(trial.consumer.destroy)
        stack.enter_context(watch(trial))
        trial.wait_until(lambda: len(trial.reader.handled) >= before, f"{before} are handled")
        trial.strike()
        fault.inflict(trial)
        time.sleep(AFTERWARDS_SECONDS)
        trial.wait_until(
            lambda: trial.changes() >= least_changes,
            f"the prefetch has changed {least_changes} times",
        )
        trial.stop_publishing()
        stuck = trial.drain()
        trial.consumer.close()
        trial.reader.look()
        verdict = judge(
            trial.reader.lines,
            trial.confirmed,
            trial.fault_at,
            under_way=trial.under_way,
            # What is stuck in the queue is lost, and not there again.
            left=0 if stuck else trial.waiting(),
            unsettled_since=trial.unsettled_since,
        )
        return Outcome(
            verdict,
            trial.consumer.crashes,
            trial.under_way,
            record.read_text(),
            trial.reader.lines,
            trial.queue,
        )
