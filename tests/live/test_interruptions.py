"""Exceptions and signals: what was acknowledged stays so, and the channel can still be stopped."""

from __future__ import annotations

import signal
from typing import Any

import pika
import pytest

from controlmq.clients.pika.wrap import wrap
from controlmq.controllers.limits import Limits
from tests.testbed import Broker
from tests.testbed.publishing import connected, fill, process_until

COUNT = 200
FAILS_AT = 100
SHRINKS_AT = 60

WINDOWS = [
    {"window": "lanes", "prefetch": 50},
    {"window": "single", "prefetch": 50, "limits": Limits(1, 50)},
]


class HandlerError(Exception):
    """What a handler raises."""


class Shrinking:
    """Acknowledges, shrinks its window so that acks are held, and fails."""

    def __init__(self) -> None:
        self.held = 0

    def __call__(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        consumer = channel.adaptive_consumers["mine"]
        if int(body) == FAILS_AT:
            self.held = consumer.held
            raise HandlerError
        channel.basic_ack(method.delivery_tag)
        if int(body) == SHRINKS_AT:
            consumer.prefetch = 5


def assert_all_acks_arrive(broker: Broker, queue: str, left: int) -> None:
    """The broker gets every ack, though the client does nothing more: its process may end here."""
    broker.management.wait_for_queue(
        queue,
        lambda view: view.messages_ready + view.messages_unacknowledged == left,
        f"{left} messages are not acknowledged",
        deadline=20,
    )


@pytest.mark.parametrize("how", WINDOWS, ids=lambda how: how["window"])
def test_an_exception_of_a_handler_leaves_no_ack_behind(
    broker: Broker, connection: Any, queue_name: str, how: dict[str, Any]
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    on_message = Shrinking()
    channel = wrap(connection.channel(), interval=60, **how)
    channel.basic_consume(queue_name, on_message, consumer_tag="mine")
    with pytest.raises(HandlerError):
        channel.start_consuming()
    assert on_message.held > 30
    assert_all_acks_arrive(broker, queue_name, COUNT - FAILS_AT)


def test_an_exception_in_a_consume_loop_leaves_no_ack_behind(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    on_message = Shrinking()
    channel = wrap(connection.channel(), prefetch=50, interval=60)

    def loop() -> None:
        for method, properties, body in channel.consume(queue_name, consumer_tag="mine"):
            on_message(channel, method, properties, body)

    with pytest.raises(HandlerError):
        loop()
    assert on_message.held > 30
    assert_all_acks_arrive(broker, queue_name, COUNT - FAILS_AT)


def test_an_interrupt_while_nothing_comes_leaves_no_ack_behind(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 50)
    channel = wrap(connection.channel(), prefetch=50, window="lanes", interval=60)
    tags: list[int] = []
    tag = channel.basic_consume(queue_name, lambda _, method, *__: tags.append(method.delivery_tag))
    process_until(connection, lambda: len(tags) == 50, "all came")
    consumer = channel.adaptive_consumers[tag]
    consumer.prefetch = 1
    for each in tags:
        channel.basic_ack(each)
    assert consumer.held == 49
    connection.call_later(0, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        channel.start_consuming()
    assert_all_acks_arrive(broker, queue_name, 0)


@pytest.fixture
def interruptions(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Put in the name of a method: Ctrl-C comes when pika sends it next, for a further lane."""
    names: set[str] = set()
    send = pika.channel.Channel._send_method

    def interrupted(self: Any, method: Any, content: Any = None) -> None:
        send(self, method, content)
        if method.NAME in names and method_is_for_a_lane(method):
            names.clear()
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(pika.channel.Channel, "_send_method", interrupted)
    return names


def method_is_for_a_lane(method: Any) -> bool:
    return getattr(method, "consumer_tag", None) != "mine"


@pytest.mark.parametrize("method", ["Basic.Qos", "Basic.Consume", "Basic.Cancel"])
def test_an_interrupt_within_a_change_of_lanes_leaves_a_channel_that_can_be_stopped(
    broker: Broker, queue_name: str, interruptions: set[str], method: str
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        consumer = channel.adaptive_consumers["mine"]
        if len(handled) == 10:
            consumer.prefetch = 8
        elif len(handled) == 60:
            consumer.prefetch = 2
        channel.basic_ack(method.delivery_tag)

    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=4, window="lanes", interval=0.01)
        channel.basic_consume(queue_name, on_message, consumer_tag="mine")
        interruptions.add(method)

        def consume_all() -> None:
            process_until(connection, lambda: len(set(handled)) == COUNT, "it is interrupted")
            channel.stop_consuming()

        with pytest.raises(KeyboardInterrupt):
            consume_all()
        channel.stop_consuming()
        assert channel.consumer_tags == []
        # What the user was given is answered, and the rest is there for the next consumer.
        channel.basic_consume(queue_name, on_message, consumer_tag="mine")
        process_until(connection, lambda: len(set(handled)) == COUNT, "all are handled")
    assert sorted(set(handled)) == list(range(COUNT))
