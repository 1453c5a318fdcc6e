"""What differs between the supported versions of RabbitMQ, seen by a client without a wrapper.

``docs/brokers.md`` has the same in words. A claim that fails here is a page to correct.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika.exceptions
import pytest

from tests.testbed import Broker
from tests.testbed.broker import CHOSEN_BROKER, CONTAINER
from tests.testbed.publishing import DeclareQueue, connected, fill, process_until

DELIVERY_LIMIT = 20
"""Returns to a quorum queue that a message of RabbitMQ 4 survives where no limit was set."""

TIMEOUT_MS = 500
"""Milliseconds that a consumer may keep a message unacknowledged in these tests."""


@contextmanager
def declared(connection: Any, **how: Any) -> Iterator[str]:
    """A queue with these arguments for the length of a ``with`` block."""
    name = f"versions-{uuid.uuid4().hex[:12]}"
    connection.channel().queue_declare(name, **how)
    try:
        yield name
    finally:
        connection.channel().queue_delete(name)


def test_the_broker_is_the_one_that_was_chosen(broker: Broker) -> None:
    version = ".".join(map(str, broker.version[:2]))
    assert version == (os.environ.get(CHOSEN_BROKER) or version).removeprefix(CONTAINER)
    assert broker.version >= (3, 10)


def test_a_message_rejected_to_a_quorum_queue_again_and_again_is_dropped_from_4_0_on(
    broker: Broker, connection: Any, queue: DeclareQueue
) -> None:
    name = queue("quorum")
    fill(broker.parameters, name, 1)
    channel = connection.channel()
    deliveries = 0

    def reject(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal deliveries
        deliveries += 1
        assert ((properties.headers or {}).get("x-delivery-count") or 0) == deliveries - 1
        if deliveries <= DELIVERY_LIMIT + 5:
            channel.basic_reject(method.delivery_tag, requeue=True)

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(name, reject)
    if broker.version < (4,):
        process_until(connection, lambda: deliveries == DELIVERY_LIMIT + 6, "it comes again")
        return
    process_until(connection, lambda: deliveries == DELIVERY_LIMIT + 1, "it came 21 times")
    broker.management.wait_for_queue(
        name,
        lambda view: view.messages_ready == view.messages_unacknowledged == 0,
        "the message is gone",
    )
    assert deliveries == DELIVERY_LIMIT + 1


def test_a_global_prefetch_is_one_per_consumer_from_4_3_on(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 50)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=5, global_qos=True)
    received = 0

    def keep(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal received
        received += 1

    for _ in range(2):
        channel.basic_consume(queue_name, keep)
    in_flight = 10 if broker.version >= (4, 3) else 5
    process_until(connection, lambda: received >= in_flight, f"{in_flight} arrived")
    broker.management.wait_for_queue(
        queue_name,
        lambda view: view.messages_unacknowledged == in_flight and len(view.consumers) == 2,
        f"{in_flight} are in flight",
    )
    connection.process_data_events(0.5)
    assert received == in_flight


def test_a_transient_queue_that_is_not_exclusive_can_still_be_declared(connection: Any) -> None:
    with declared(connection, durable=False) as name:
        channel = connection.channel()
        channel.basic_publish("", name, b"7")
        got: list[bytes] = []
        channel.basic_consume(name, lambda *message: got.append(message[3]), auto_ack=True)
        process_until(connection, lambda: got == [b"7"], "the message arrives")


def test_a_consumer_timeout_cancels_one_consumer_of_a_quorum_queue_from_4_3_on(
    broker: Broker, connection: Any
) -> None:
    arguments = {"x-queue-type": "quorum", "x-consumer-timeout": TIMEOUT_MS}
    # The consumer's connection closes before the queue goes: that would cancel it once more.
    with (
        declared(connection, durable=True, arguments=arguments) as name,
        connected(broker.parameters) as consuming,
    ):
        fill(broker.parameters, name, 1)
        cancelled: list[str] = []
        channel = consuming.channel()
        channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        late = channel.basic_consume(name, lambda *_: None)
        if broker.version >= (4, 3):
            process_until(consuming, lambda: cancelled, "the consumer is cancelled")
            assert cancelled == [late]
        else:
            # Older ones look once a minute, and then close the channel.
            consuming.process_data_events(4 * TIMEOUT_MS / 1000)
            assert cancelled == []
        assert channel.is_open


def test_a_classic_queue_with_a_consumer_timeout_is_refused_from_4_3_on(
    broker: Broker, connection: Any
) -> None:
    arguments = {"x-queue-type": "classic", "x-consumer-timeout": TIMEOUT_MS}
    if broker.version < (4, 3):
        with declared(connection, durable=True, arguments=arguments):
            return
    with (
        pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-consumer-timeout"),
        declared(connection, durable=True, arguments=arguments),
    ):
        pass
