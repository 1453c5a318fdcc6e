"""What differs between the supported versions of RabbitMQ, seen by a client without a wrapper.

``docs/brokers.md`` has the same in words. A claim that fails here is a page to correct.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.testbed import Broker, Proxy
from tests.testbed.broker import CHOSEN_BROKER, CONTAINER
from tests.testbed.management import DEADLINE, wait_until
from tests.testbed.publishing import connected, fill, process_until

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


class Returning:
    """A consumer of one message at a time, which it gives back each in the same way."""

    def __init__(self, proxy: Proxy, queue: str) -> None:
        self._proxy = proxy
        self._queue = queue
        self._connection: Any = None
        self._channel: Any = None
        self._came: list[tuple[int, int]] = []

    def next(self) -> tuple[int, int]:
        """The next delivery: its tag, and how often the broker says it was delivered before."""
        if self._connection is None:
            self._connection = pika.BlockingConnection(self._proxy.parameters)
        if self._channel is None:
            self._channel = self._connection.channel()
            self._channel.basic_qos(prefetch_count=1)
            self._channel.basic_consume(self._queue, self._on_message)
        process_until(self._connection, lambda: self._came, "the message comes")
        return self._came.pop()

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        count = (properties.headers or {}).get("x-delivery-count") or 0
        self._came.append((method.delivery_tag, count))

    def reject(self, tag: int) -> None:
        self._channel.basic_reject(tag, requeue=True)

    def nack(self, tag: int) -> None:
        self._channel.basic_nack(tag, requeue=True)

    def recover(self, tag: int) -> None:
        self._channel.basic_recover(requeue=True)

    def close_the_channel(self, tag: int) -> None:
        self._channel.close()
        self._channel = None

    def lose_the_connection(self, tag: int) -> None:
        self._proxy.cut()
        with pytest.raises(pika.exceptions.AMQPError):
            self._connection.process_data_events(DEADLINE)
        self._connection = self._channel = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()


@pytest.mark.parametrize(
    ("way", "counts_until"),
    [
        (Returning.reject, None),
        (Returning.nack, (4, 3)),
        (Returning.recover, (4, 3)),
        (Returning.close_the_channel, None),
        (Returning.lose_the_connection, None),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_message_returned_to_a_quorum_queue_again_and_again_is_dropped_from_4_0_on(
    broker: Broker,
    connection: Any,
    way: Callable[[Returning, int], None],
    counts_until: tuple[int, int] | None,
) -> None:
    """Unless its way of returning counts no more from the version ``counts_until`` on."""
    counts = counts_until is None or broker.version < counts_until
    with ExitStack() as stack:
        dropped = stack.enter_context(declared(connection, durable=True))
        arguments = {
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dropped,
        }
        name = stack.enter_context(declared(connection, durable=True, arguments=arguments))
        fill(broker.parameters, name, 1)
        consumer = Returning(stack.enter_context(broker.proxied()), name)
        stack.callback(consumer.close)
        for returns in range(DELIVERY_LIMIT + 1):
            tag, delivery_count = consumer.next()
            assert delivery_count == (returns if counts else 0)
            way(consumer, tag)
        if counts and broker.version >= (4,):
            channel = connection.channel()
            wait_until(
                lambda: channel.queue_declare(dropped, passive=True).method.message_count == 1,
                "the message is dropped",
            )
        else:
            consumer.next()


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
