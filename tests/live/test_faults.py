"""Faults under load: nothing is lost, no change requeues, duplicates are what was in flight."""

from __future__ import annotations

import random
from typing import Any

import pytest

from controlmq.clients.pika.wrap import wrap
from controlmq.loop import Sample
from tests.faults.consumer import Client
from tests.faults.kinds import BY_NAME, FAULTS
from tests.faults.soak import soak
from tests.faults.trial import Fault, run
from tests.live.handled import assert_empty
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, QueueKind, connected, fill, process_until

COUNT = 1500
LARGEST_PREFETCH = 12
"""Messages that the controller asks for at most."""


def assert_good(fault: Fault, broker: Broker, kind: QueueKind, client: Client) -> None:
    with broker.proxied() as proxy:
        outcome = run(fault, broker, proxy, kind, client)
    assert outcome.failures(fault) == []


ON_A_SHARED_BROKER = [
    fault for fault in FAULTS if not fault.restarts_broker and not fault.consumer_publishes
]


@pytest.mark.parametrize("fault", ON_A_SHARED_BROKER[::2], ids=lambda fault: fault.name)
def test_a_blocking_consumer_on_a_quorum_queue(broker: Broker, fault: Fault) -> None:
    assert_good(fault, broker, "quorum", "blocking")


@pytest.mark.parametrize("fault", ON_A_SHARED_BROKER[1::2], ids=lambda fault: fault.name)
def test_an_asynchronous_consumer_on_a_classic_queue(broker: Broker, fault: Fault) -> None:
    assert_good(fault, broker, "classic", "asynchronous")


@pytest.mark.parametrize(
    ("defect", "found"),
    [("forget", "1 messages lost"), ("requeue", "1 messages requeued without a reason")],
)
def test_a_trial_finds_a_defect_that_is_planted(broker: Broker, defect: str, found: str) -> None:
    fault = BY_NAME["controller raising"]
    with broker.proxied() as proxy:
        assert run(fault, broker, proxy, defect=defect).failures(fault) == [found]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_broker_that_is_killed_and_one_whose_disk_is_full(
    disposable_broker: Broker, kind: QueueKind
) -> None:
    assert_good(BY_NAME["disk full"], disposable_broker, kind, "blocking")
    assert_good(BY_NAME["broker killed"], disposable_broker, kind, "asynchronous")


@pytest.mark.slow
def test_a_soak_loses_nothing_and_finds_what_comes_again(broker: Broker) -> None:
    result = soak(broker, "classic", count=20_000, reconnect_every=4_000)
    assert (result["lost"], result["requeued"]) == (0, 0)
    assert result["connections"] >= 5
    assert result["duplicates"] <= result["duplicates_bound"]


def test_a_controller_and_a_recorder_that_fail_at_random(
    broker: Broker, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    draw = random.Random(5)

    def controller(sample: Sample, goal: float) -> float:
        return draw.choice(
            [lambda: 1 / 0, lambda: float("nan"), lambda: draw.uniform(1, LARGEST_PREFETCH)]
        )()

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
