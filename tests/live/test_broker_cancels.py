"""Cancels by the broker: the user is told once, and the tag is free again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlmq.clients.pika.wrap import unwrap, wrap
from controlmq.controllers import Limits
from tests.testbed import Broker
from tests.testbed.publishing import (
    DeclareQueue,
    declare_queue,
    declared_queue,
    delete_queue,
    fill,
    process_until,
)

TIMEOUT_MS = 1000
"""Milliseconds that a consumer may keep a message unacknowledged in these tests."""


@pytest.fixture
def impatient_queue(broker: Broker) -> Iterator[str]:
    """A quorum queue with a consumer timeout."""
    arguments: dict[str, object] = {"x-consumer-timeout": TIMEOUT_MS}
    with declared_queue(broker.parameters, "quorum", arguments) as name:
        yield name


def test_a_consumer_that_timed_out_is_cancelled_for_good(
    broker: Broker, connection: Any, impatient_queue: str
) -> None:
    if broker.version < (4, 3):
        pytest.skip("RabbitMQ 4.3 is the first to cancel a consumer that is late")
    told: list[str] = []
    tags: list[int] = []
    channel = wrap(connection.channel(), prefetch=2, window="lanes", interval=60)
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    channel.basic_consume(
        impatient_queue,
        lambda _, method, *__: tags.append(method.delivery_tag),
        consumer_tag="mine",
    )
    # Both lanes are there before the first message, whose time starts with its delivery.
    consumer = channel.adaptive_consumers["mine"]
    consumer.prefetch = 6
    process_until(
        connection,
        lambda: len(consumer.plant.window.subscribed) == 2 and consumer.plant.pending is None,
        "there are two lanes",
    )
    fill(broker.parameters, impatient_queue, 20)
    process_until(connection, lambda: told, "the consumer is cancelled")
    came = len(tags)
    assert came <= 6
    for tag in tags:
        channel.basic_ack(tag)
    # An ack that is late brings no more, and no second cancel comes when those would be late.
    process_until(
        connection,
        lambda: not broker.management.wait_for_queue(impatient_queue).consumers,
        "the broker has forgotten every lane",
    )
    connection.sleep(2 * TIMEOUT_MS / 1000)
    assert told == ["mine"]
    assert channel.is_open
    assert len(tags) == came
    broker.management.wait_for_queue(
        impatient_queue, lambda view: view.messages_unacknowledged == 0, "nothing is kept"
    )


def test_acks_are_held_for_half_of_a_consumer_timeout_at_most(
    connection: Any, queue: DeclareQueue
) -> None:
    channel = wrap(connection.channel(), prefetch=2)
    channel.basic_consume(
        queue("quorum"), print, consumer_tag="mine", arguments={"x-consumer-timeout": 3_000}
    )
    assert channel.adaptive_consumers["mine"].plant.window.max_hold == 1.5


def test_held_acks_cause_no_consumer_timeout_though_max_hold_is_longer(
    broker: Broker, connection: Any, queue: DeclareQueue
) -> None:
    if broker.version < (4, 3):
        pytest.skip("RabbitMQ 4.3 is the first to cancel a consumer that is late")
    name = queue("quorum")
    fill(broker.parameters, name, 100)
    told: list[str] = []
    handled: list[int] = []
    held: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(method.delivery_tag)
        channel.basic_ack(method.delivery_tag)

    limits = Limits(0.5, 10)
    channel = wrap(
        connection.channel(), prefetch=5, window="single", limits=limits, max_hold=60, interval=60
    )
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    tag = channel.basic_consume(name, on_message, arguments={"x-consumer-timeout": TIMEOUT_MS})
    consumer = channel.adaptive_consumers[tag]
    process_until(connection, lambda: len(handled) >= 20, "some are handled")
    # From here on nearly all acks are held, while the queue has more: for 0.5 s each.
    consumer.prefetch = 0.5

    def consuming_for_two_timeouts() -> bool:
        held.append(consumer.plant.window.held)
        return len(handled) >= 60 or bool(told)

    process_until(connection, consuming_for_two_timeouts, "it went on")
    connection.sleep(2 * TIMEOUT_MS / 1000)
    assert told == []
    assert max(held) > 0


def test_a_user_who_is_told_of_a_cancel_may_subscribe_again(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 20)
    other = declare_queue(broker.parameters)
    fill(broker.parameters, other, 5)
    channel = wrap(connection.channel(), prefetch=2, window="lanes", interval=60)
    came: list[str] = []
    again: list[int] = []
    channel.add_on_cancel_callback(
        lambda _frame: channel.basic_consume(
            other, lambda *message: again.append(int(message[3])), consumer_tag="mine"
        )
    )
    channel.basic_consume(queue_name, lambda *_: came.append("old"), consumer_tag="mine")
    process_until(connection, lambda: len(came) == 2, "two came")
    channel.adaptive_consumers["mine"].prefetch = 4
    process_until(connection, lambda: len(came) == 4, "four came")
    broker.management.delete_queue(queue_name)
    process_until(connection, lambda: len(again) == 2, "the other queue is served")
    delete_queue(broker.parameters, other)


def test_callbacks_of_cancels_survive_wrapping_twice(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 10)
    told: list[str] = []
    channel = connection.channel()
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    unwrap(wrap(channel, prefetch=2))
    wrap(channel, prefetch=2, window="lanes", interval=60)
    came: list[int] = []
    channel.basic_consume(queue_name, lambda *_: came.append(1), consumer_tag="mine")
    process_until(connection, lambda: len(came) == 2, "two came")
    channel.adaptive_consumers["mine"].prefetch = 4
    process_until(connection, lambda: len(came) == 4, "four came")
    broker.management.delete_queue(queue_name)
    process_until(connection, lambda: told, "the user is told")
    assert told == ["mine"]


def test_a_connection_does_not_remember_channels_that_are_closed(connection: Any) -> None:
    callbacks = connection._impl.callbacks
    before = callbacks.pending(0, "Connection.Blocked")
    for _ in range(3):
        wrap(connection.channel(), prefetch=2).close()
    unwrap(wrap(connection.channel(), prefetch=2))
    assert callbacks.pending(0, "Connection.Blocked") == before
