"""Faults: every persistent message is handled, and duplicates are what was in flight."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from controlmq.clients.pika.wrap import wrap
from controlmq.loop import Sample
from tests.live.handled import assert_empty
from tests.testbed import Broker
from tests.testbed.broker import QUORUM_QUEUE_KEPT
from tests.testbed.publishing import (
    DeclareQueue,
    QueueKind,
    connected,
    declare_queue,
    fill,
    process_until,
)

COUNT = 1500
MOST = 12
"""Messages: the largest prefetch the controller asks for."""

IDLE_BROKER = QUORUM_QUEUE_KEPT
"""Seconds without traffic after which a broker has its books on disk."""

REPLACED_CONSUMER = Path(__file__).with_name("consumer_process.py")


def wandering(seed: int) -> Callable[[Sample, float], float]:
    """A controller that goes anywhere between 0.5 and ``MOST``."""
    draw = random.Random(seed)
    return lambda sample, goal: draw.uniform(0.5, MOST)


class Worker:
    """A consumer that reconnects after every fault, as users of pika write it."""

    def __init__(self, parameters: Any, queue: str, count: int) -> None:
        self.parameters = parameters
        self.queue = queue
        self.count = count
        self.handled: Counter[int] = Counter()
        self.faults = 0
        self.in_flight_at_faults = 0
        self._consumer: Any = None
        self.controller: Any = wandering(1)

    def run(self, deadline: float = 120.0) -> None:
        """Until every message was handled."""
        until = time.monotonic() + deadline
        while len(self.handled) < self.count:
            assert time.monotonic() < until, f"{len(self.handled)} of {self.count} handled"
            try:
                self._consume()
            except (pika.exceptions.AMQPError, OSError):
                self.faults += 1
                if self._consumer is not None:
                    self.in_flight_at_faults += MOST
                    self._consumer = None
                time.sleep(0.1)

    def _consume(self) -> None:
        connection = pika.BlockingConnection(self.parameters)
        with contextlib.closing(connection):
            channel = wrap(connection.channel(), 100, self.controller, interval=0.02, prefetch=4)
            tag = channel.basic_consume(self.queue, self._on_message)
            self._consumer = channel.adaptive_consumers[tag]
            channel.start_consuming()

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.handled[int(body)] += 1
        channel.basic_ack(method.delivery_tag)
        self.after_message(channel)
        if len(self.handled) == self.count:
            channel.stop_consuming()

    def after_message(self, channel: Any) -> None:
        """For a test to break something."""

    @property
    def duplicates(self) -> int:
        return sum(self.handled.values()) - len(self.handled)

    def assert_complete(self) -> None:
        """Every message at least once, and no more twice than were in flight at the faults."""
        assert sorted(self.handled) == list(range(self.count))
        assert self.duplicates <= self.in_flight_at_faults


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_killed_broker(disposable_broker: Broker, kind: QueueKind) -> None:
    name = declare_queue(disposable_broker.parameters, kind)
    fill(disposable_broker.parameters, name, COUNT)
    settled: set[int] = set()

    class KillingWorker(Worker):
        def after_message(self, channel: Any) -> None:
            if self.faults:
                return
            if len(self.handled) == 500:
                # RabbitMQ writes acks of a classic queue to disk once it is idle for a while;
                # those it had not written yet are forgotten by kill -9, with any consumer.
                settled.update(self.handled)
                channel.connection.sleep(IDLE_BROKER)
            elif len(self.handled) == 520:
                disposable_broker.kill()
                restarting.start()

    restarting = threading.Thread(target=disposable_broker.restart)
    worker = KillingWorker(disposable_broker.parameters, name, COUNT)
    worker.run(deadline=200)
    restarting.join()
    assert worker.faults > 0
    assert sorted(worker.handled) == list(range(COUNT))
    assert worker.duplicates <= 20 + MOST
    # What is left are acks that were held at the fault.
    assert sum(worker.handled[number] > 1 for number in settled) <= MOST


def test_a_cut_connection(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, COUNT)
    with broker.proxied(delay=0.001) as proxy:
        cut_at: set[int] = set()

        class CuttingWorker(Worker):
            def after_message(self, channel: Any) -> None:
                handled = len(self.handled)
                # Once each: a message that comes again leaves the number as it is.
                if handled % 400 == 399 and handled not in cut_at:
                    cut_at.add(handled)
                    proxy.cut()

        worker = CuttingWorker(proxy.parameters, queue_name, COUNT)
        worker.run()
    assert worker.faults >= 3
    worker.assert_complete()
    assert_empty(broker, queue_name)


def test_a_stalled_network(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, COUNT)
    with broker.proxied(delay=0.001) as proxy:
        stalls = 0

        class StallingWorker(Worker):
            def after_message(self, channel: Any) -> None:
                nonlocal stalls
                if len(self.handled) == 500 and not stalls:
                    stalls += 1
                    proxy.stall()
                    threading.Timer(5.0, proxy.resume).start()

        worker = StallingWorker(proxy.parameters, queue_name, COUNT)
        worker.run()
    assert (stalls, worker.faults, worker.duplicates) == (1, 0, 0)
    worker.assert_complete()
    assert_empty(broker, queue_name)


def test_a_consumer_killed_and_replaced(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled: Counter[int] = Counter()
    kills = 0
    while len(handled) < COUNT:
        process = subprocess.Popen(
            [sys.executable, str(REPLACED_CONSUMER), broker.url, queue_name, str(MOST)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                handled[int(line)] += 1
                if len(handled) == COUNT:
                    break
                if sum(handled.values()) % 600 == 599:
                    process.kill()
                    kills += 1
        finally:
            process.kill()
            process.wait()
    assert kills >= 2
    assert sorted(handled) == list(range(COUNT))
    assert sum(handled.values()) - COUNT <= (kills + 1) * MOST


def test_a_channel_closed_by_an_error(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, COUNT)

    class ErringWorker(Worker):
        def after_message(self, channel: Any) -> None:
            if len(self.handled) % 500 == 400:
                channel.basic_ack(987654321)

    worker = ErringWorker(broker.parameters, queue_name, COUNT)
    worker.run()
    assert worker.faults >= 2
    worker.assert_complete()


def test_a_controller_and_a_recorder_that_fail_at_random(
    broker: Broker, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    draw = random.Random(5)

    def controller(sample: Sample, goal: float) -> float:
        return draw.choice([lambda: 1 / 0, lambda: float("nan"), lambda: draw.uniform(1, MOST)])()

    def record(transition: object) -> None:
        if draw.random() < 0.5:
            raise OSError("no space left on device")

    numbers: list[int] = []
    with connected(broker.parameters) as connection:
        channel = wrap(
            connection.channel(), 100, controller, record=record, interval=0.01, prefetch=3
        )

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            assert not method.redelivered
            channel.basic_ack(method.delivery_tag)

        def said(words: str) -> bool:
            return any(words in record.message for record in caplog.records)

        channel.basic_consume(queue_name, on_message)
        process_until(
            connection,
            # On a dry queue the loop turns as well.
            lambda: (
                len(numbers) == COUNT and said("controller failed") and said("recording failed")
            ),
            "all are handled, and both failures are in the log",
        )
    assert numbers == list(range(COUNT))


def test_a_dry_queue_holds_no_acks(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("classic")
    fill(broker.parameters, name, 300)
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=6.5)
        numbers: list[int] = []

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)

        tag = channel.basic_consume(name, on_message)
        consumer = channel.adaptive_consumers[tag]
        process_until(
            connection,
            lambda: len(numbers) == 300 and consumer.held == 0,
            "all are handled and none is held",
        )
        assert_empty(broker, name)
