"""A cluster that fails under consumers: each loses nothing, and sees what pika shows of it.

A node takes long to start again, so a fault comes once for all three: bare pika, a wrapped channel
and ``controlmq run``.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from controlmq.clients.pika.wrap import wrap
from tests.faults import kinds, trial
from tests.live.cluster.faults import (
    Fault,
    connections_closed,
    fill_after_fault,
    follower_cut_off,
    leader_drained,
    leader_killed,
    leader_stopped,
    quorum_queue,
)
from tests.sharing.processes import SharingProcesses, most_in
from tests.testbed.cluster import Cluster
from tests.testbed.management import wait_until
from tests.testbed.node import NodeBroker
from tests.testbed.publishing import declared_queue, fill

COUNT = 1200
"""Messages for each consumer, half of them after the fault."""

FAULT_AFTER = 50
"""Messages handled by each consumer when the fault comes."""

WORK = 0.02
"""Seconds a message until the fault is over: it comes while both threads are at work."""

SERVICE_GOAL = 150.0
"""Messages/second of ``controlmq run``: it is still at work, too."""

LARGEST_PREFETCH = 12
"""Messages, of either consumer."""

SHARED_RATE = 100.0

DEADLINE = 120.0
"""Seconds for a consumer to handle all its messages, election and restart included."""

STANDS_STILL_AFTER_SECONDS = 60.0
"""Seconds without its last messages after which a consumer connects again. In rare runs RabbitMQ
3.10 keeps a few messages for a channel that has lost its leader and never sends them; they come
as soon as that channel closes. A message that was acknowledged by mistake would not."""


class Consumer:
    """A consumer in a thread that goes to the next node when it loses its connection."""

    def __init__(self, nodes: list[NodeBroker], queue: str, adaptive: bool) -> None:
        self.handled: Counter[int] = Counter()
        self.shown: list[str] = []
        """What pika raised, in order, but for nodes that could not be reached."""
        self.work = WORK
        self._connection: Any = None
        self._channel: Any = None
        self._nodes, self._queue, self._adaptive = nodes, queue, adaptive
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Return when it has handled all messages and closed its connection."""
        self.work = 0.0
        self._thread.join(STANDS_STILL_AFTER_SECONDS)
        if self._thread.is_alive():
            warnings.warn(f"a consumer stood still: {self._state()}", stacklevel=2)
            self._connection.add_callback_threadsafe(self._channel.stop_consuming)
            self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), f"{self.shown}, {self._state()}"

    def _state(self) -> str:
        """What is missing, and what the last channel knows of it."""
        missing = sorted(set(range(COUNT)) - self.handled.keys())
        lanes = [
            (lane.tag, lane.size, lane.received, lane.answered, lane.waiting)
            for consumer in getattr(self._channel, "adaptive_consumers", {}).values()
            for lane in consumer.plant.window.lanes
        ]
        return f"missing {missing}, lanes (tag, size, received, answered, waiting) {lanes}"

    @property
    def duplicates(self) -> int:
        return sum(self.handled.values()) - len(self.handled)

    def _run(self) -> None:
        turn = 0
        until = time.monotonic() + 2 * DEADLINE
        while len(self.handled) < COUNT and time.monotonic() < until:
            try:
                connection = self._connection = pika.BlockingConnection(
                    self._nodes[turn % 3].parameters
                )
            except (pika.exceptions.AMQPError, OSError):
                turn += 1
                time.sleep(0.2)
                continue
            try:
                self._consume(connection)
            except pika.exceptions.AMQPError as error:
                code = getattr(error, "reply_code", "")
                self.shown.append(f"{type(error).__name__} {code}".strip())
                turn += 1
            finally:
                with contextlib.suppress(pika.exceptions.AMQPError):
                    connection.close()

    def _consume(self, connection: Any) -> None:
        channel = connection.channel()
        if self._adaptive:
            draw = random.Random(3)
            channel = wrap(
                channel,
                100,
                lambda *_: draw.uniform(0.5, LARGEST_PREFETCH),
                interval=0.05,
                prefetch=4,
            )
        else:
            channel.basic_qos(prefetch_count=LARGEST_PREFETCH)
        self._channel = channel
        channel.add_on_cancel_callback(lambda frame: self.shown.append("cancelled"))

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            time.sleep(self.work)
            self.handled[int(body)] += 1
            channel.basic_ack(method.delivery_tag)
            if len(self.handled) == COUNT:
                channel.stop_consuming()

        channel.basic_consume(self._queue, on_message)
        channel.start_consuming()


HANDLER = """
import os

def handle(body, properties):
    with open(os.environ["HANDLED"], "ab", buffering=0) as handled:
        handled.write(body + b"\\n")
"""


class Service:
    """``controlmq run`` with a handler that writes down what it gets, given all nodes."""

    def __init__(self, nodes: list[NodeBroker], queue: str, folder: Path) -> None:
        (folder / "taking.py").write_text(HANDLER)
        self._file = folder / "handled"
        self._file.touch()
        words = ["run", "--queue", queue, "--goal", str(SERVICE_GOAL), "--interval", "0.5"]
        words += ["--handler", "taking:handle", "--url", *(node.url for node in nodes)]
        paths = {"PYTHONPATH": f"{folder}:{Path.cwd()}", "HANDLED": str(self._file)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "controlmq.cli.main", *words],
            env=os.environ | paths,
            stdout=subprocess.DEVNULL,
        )

    @property
    def handled(self) -> set[int]:
        return {int(line) for line in self._file.read_text().splitlines()}

    def finish(self) -> int:
        """Stop it when it has handled all messages; its exit code."""
        wait_until(lambda: len(self.handled) == COUNT, "all are handled", DEADLINE)
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(DEADLINE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


RESET = "StreamLostError"
CLOSED = "ConnectionClosedByBroker 320"
"""A client that writes at that moment gets a reset instead, before it reads why."""


@dataclass(frozen=True)
class Outcome:
    """What became of three consumers whose cluster failed."""

    bare: Consumer
    wrapped: Consumer
    handled_by_service: set[int]
    exit_code: int
    allowed: set[str]
    """What pika may show, if it shows anything."""


def outcome_of(
    cluster: Cluster, fault: Fault, where: str, allowed: set[str], folder: Path
) -> Outcome:
    """Have three consumers handle everything, with the fault in between."""
    leader, *others = cluster.nodes
    nodes = [leader, *others] if where == "leader" else [*others, leader]
    queues = [quorum_queue(leader, COUNT // 2) for _ in range(3)]
    service = Service(nodes, queues[2], folder)
    try:
        wait_until(lambda: service.handled, "the service is at work", DEADLINE)
        bare, wrapped = (Consumer(nodes, queue, queue is queues[1]) for queue in queues[:2])
        wait_until(
            lambda: min(map(len, (bare.handled, wrapped.handled, service.handled))) > FAULT_AFTER,
            "all are at work",
            DEADLINE,
        )
        assert all(cluster.leader(queue) is leader for queue in queues)
        fault(cluster, leader, nodes[0])
        for queue in queues:
            # There is work left after the fault, however long it took.
            fill_after_fault(others[1], queue, COUNT // 2, COUNT // 2)
        bare.finish()
        wrapped.finish()
        return Outcome(
            bare,
            wrapped,
            exit_code=service.finish(),
            handled_by_service=service.handled,
            allowed=allowed,
        )
    finally:
        service.kill()


@pytest.fixture(
    scope="module",
    params=[
        (leader_killed, "leader", {RESET}),
        (leader_killed, "follower", set()),
        (leader_stopped, "leader", {RESET, CLOSED}),
        (leader_stopped, "follower", set()),
        (leader_drained, "leader", {RESET, CLOSED}),
        (follower_cut_off, "leader", set()),
        (follower_cut_off, "follower", set()),
        (connections_closed, "leader", {RESET, CLOSED}),
    ],
    ids=lambda case: f"{case[0].__name__}-{case[1]}",
)
def outcome(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    fault, where, allowed = request.param
    try:
        return outcome_of(cluster, fault, where, allowed, tmp_path_factory.mktemp("service"))
    finally:
        cluster.mend()


def test_a_wrapped_consumer_sees_what_pika_shows(outcome: Outcome) -> None:
    for consumer in (outcome.bare, outcome.wrapped):
        assert sorted(consumer.handled) == list(range(COUNT))
        assert set(consumer.shown) <= outcome.allowed
        assert len(consumer.shown) == bool(outcome.allowed)
        assert consumer.duplicates <= LARGEST_PREFETCH


def test_run_goes_on_at_another_node(outcome: Outcome) -> None:
    assert outcome.handled_by_service == set(range(COUNT))
    assert outcome.exit_code == 0


def test_a_leader_lost_while_the_window_is_restless(cluster: Cluster) -> None:
    lost, node = kinds.BY_NAME["leader lost"], cluster.nodes[0]
    with node.proxied() as proxy:
        outcome = trial.run(lost, node, proxy, "quorum", cluster=cluster)
    assert outcome.failures(lost) == []


def test_a_shared_rate_is_kept_when_a_node_is_cut_off(cluster: Cluster, tmp_path: Path) -> None:
    """The member of that node has a connection and messages, but no lease any more."""
    with contextlib.ExitStack() as stack:
        alone, *others = members = [
            stack.enter_context(sharing_on(node, tmp_path / str(number)))
            for number, node in enumerate(cluster.nodes)
        ]
        stack.callback(cluster.mend)  # before the queues are deleted

        def use_the_rate(*some: SharingProcesses) -> bool:
            return sum(each.all[0].lately(2.0) for each in some) > 1.8 * SHARED_RATE

        wait_until(lambda: all(each.all[0].lately(2.0) for each in members), "all have a share")
        cluster.cut_off(cluster.nodes[0])
        wait_until(lambda: use_the_rate(*others), "the others have its share", deadline=DEADLINE)
        assert alone.all[0].alive
        wait_until(lambda: not alone.all[0].lately(2.0), "its lease is over", deadline=DEADLINE)
        times = sorted(time for each in members for time in each.times)
    assert most_in(times, 1.0) <= SHARED_RATE + 5
    assert most_in(times, 10.0) <= 10 * SHARED_RATE + 10


@contextlib.contextmanager
def sharing_on(node: NodeBroker, folder: Path) -> Iterator[SharingProcesses]:
    """A process that has a queue of its own on its node, and shares a rate with the others."""
    folder.mkdir()
    with declared_queue(node.parameters) as queue:
        fill(node.parameters, queue, 5000)
        with SharingProcesses(node.url, queue, SHARED_RATE, folder) as processes:
            processes.start()
            yield processes
