"""Exceptions and signals: what was acknowledged stays so, and the channel can still be stopped."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pika
import pytest

from controlmq.clients.channel_runner import Runner
from controlmq.clients.pika.blocking import BlockingAdapter
from controlmq.clients.pika.private import give_up_when
from controlmq.clients.pika.wrap import wrap
from controlmq.controllers.limits import Limits
from tests.live.handled import left_in
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, connected, fill, process_until

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
    """Put in the name of a method: Ctrl-C comes when pika has sent it next, for a further lane.

    With "before" in front of the name, it comes before pika sends it.
    """
    names: set[str] = set()
    send = pika.channel.Channel._send_method

    def interrupted(self: Any, method: Any, content: Any = None) -> None:
        def interrupt_at(name: str) -> None:
            if name in names and method_is_for_a_lane(method):
                names.clear()
                signal.raise_signal(signal.SIGINT)

        interrupt_at(f"before {method.NAME}")
        send(self, method, content)
        interrupt_at(method.NAME)

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


def test_an_interrupt_while_held_acks_are_sent_leaves_none_behind(
    broker: Broker, connection: Any, queue_name: str, interruptions: set[str]
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    held = handled = 0

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal held, handled
        handled += 1
        consumer = channel.adaptive_consumers["mine"]
        if int(body) == FAILS_AT:
            held = consumer.held
            consumer.prefetch = 50
            interruptions.add("before Basic.Ack")
        channel.basic_ack(method.delivery_tag)
        if int(body) == SHRINKS_AT:
            consumer.prefetch = 5

    channel = wrap(connection.channel(), prefetch=50, window="lanes", interval=60)
    channel.basic_consume(queue_name, on_message, consumer_tag="mine")
    with pytest.raises(KeyboardInterrupt):
        channel.start_consuming()
    assert held > 30
    assert_all_acks_arrive(broker, queue_name, COUNT - handled)


@pytest.mark.parametrize("moment", ["Tx.Commit", "before Tx.Commit"])
def test_a_stop_after_an_interrupted_commit_ends(
    broker: Broker, queue_name: str, interruptions: set[str], moment: str
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    with connected(broker.parameters) as connection:
        until = time.monotonic() + 30
        over = "the stop does not end"
        give_up_when(connection, lambda: over if time.monotonic() > until else None, 1.0)
        channel = wrap(connection.channel(), prefetch=4, window="lanes", interval=60)
        channel.tx_select()

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            interruptions.add(moment)
            channel.tx_commit()

        channel.basic_consume(queue_name, on_message, consumer_tag="mine")
        with pytest.raises(KeyboardInterrupt):
            channel.start_consuming()
        channel.stop_consuming()
        assert channel.consumer_tags == []
    assert left_in(broker, queue_name) == list(range(1, COUNT))


def test_what_an_interrupted_commit_acknowledged_is_not_in_flight_any_more(
    broker: Broker, queue_name: str, interruptions: set[str]
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    tags: list[int] = []
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=2, window="lanes", interval=60)
        channel.tx_select()
        channel.basic_consume(
            queue_name, lambda _, method, *__: tags.append(method.delivery_tag), consumer_tag="mine"
        )
        process_until(connection, lambda: len(tags) == 2, "the first have come")
        for tag in tags:
            channel.basic_ack(tag)
        interruptions.add("Tx.Commit")
        with pytest.raises(KeyboardInterrupt):
            channel.tx_commit()
        channel.tx_rollback()  # as a program does that did not see its commit succeed
        process_until(connection, lambda: len(tags) == 4, "the next have come")
        assert channel.adaptive_consumers["mine"].in_flight == 2
    assert left_in(broker, queue_name) == list(range(2, COUNT))


def handle_all_but_one(broker: Broker, queue_name: str, handled: list[int]) -> None:
    """Consume with an interrupt that one message does not survive, and go on; then stop."""
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=20, window="lanes", interval=60)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.append(int(body))
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue_name, on_message, consumer_tag="mine")
        with pytest.raises(KeyboardInterrupt):
            process_until(connection, lambda: len(handled) == COUNT, "it is interrupted")
        process_until(connection, lambda: len(handled) == COUNT - 1, "the others are handled")
        channel.stop_consuming()


def test_a_message_that_an_interrupt_kept_from_the_handler_is_not_acknowledged(
    broker: Broker, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled: list[int] = []
    taken = 0
    buffered = BlockingAdapter.buffered

    def interrupted(self: BlockingAdapter) -> int:
        """Called when pika has taken a message out of its queue, and before we note it."""
        nonlocal taken
        taken += 1
        if taken == 5:
            raise KeyboardInterrupt
        return buffered(self)

    monkeypatch.setattr(BlockingAdapter, "buffered", interrupted)
    handle_all_but_one(broker, queue_name, handled)
    assert left_in(broker, queue_name) == [4]


def test_a_message_that_an_interrupt_kept_from_pika_is_not_acknowledged(
    broker: Broker, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled: list[int] = []
    interrupts = 0
    received = Runner.received

    def interrupted(self: Runner, lane_tag: str) -> None:
        """Called when pika has read a message, and before it is in its queue."""
        nonlocal interrupts
        # In a dispatch an interrupt is noticed in any case.
        if handled and not interrupts and not self.adapter.dispatching:  # type: ignore[attr-defined]
            interrupts += 1
            raise KeyboardInterrupt
        received(self, lane_tag)

    monkeypatch.setattr(Runner, "received", interrupted)
    handle_all_but_one(broker, queue_name, handled)
    (missing,) = set(range(COUNT)) - set(handled)
    assert left_in(broker, queue_name) == [missing]


def test_a_message_whose_fetch_was_interrupted_is_not_acknowledged(
    broker: Broker, queue: DeclareQueue, interruptions: set[str]
) -> None:
    name, other = queue("classic"), queue("classic")
    fill(broker.parameters, name, COUNT)
    fill(broker.parameters, other, 1)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        channel.basic_ack(method.delivery_tag)
        if len(handled) == 5:
            interruptions.add("Basic.Get")
            channel.basic_get(other)

    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=20, window="lanes", interval=60)
        channel.basic_consume(name, on_message, consumer_tag="mine")
        with pytest.raises(KeyboardInterrupt):
            process_until(connection, lambda: len(handled) == COUNT, "it is interrupted")
        process_until(connection, lambda: len(handled) == COUNT, "all are handled")
        channel.stop_consuming()
    assert left_in(broker, other) == [0]


class ChildError(Exception):
    """What a child process leaves the callback with."""


def test_a_child_process_that_leaves_the_callback_sends_no_ack(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    held: list[int] = []
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        channel.basic_ack(method.delivery_tag)
        consumer = channel.adaptive_consumers["mine"]
        if int(body) == SHRINKS_AT:
            consumer.prefetch = 5
        elif int(body) == FAILS_AT:
            held.append(consumer.held)
            child = os.fork()
            if not child:
                raise ChildError
            os.waitpid(child, 0)
        elif len(handled) == COUNT:
            channel.stop_consuming()

    channel = wrap(connection.channel(), prefetch=50, window="lanes", interval=60)
    channel.basic_consume(queue_name, on_message, consumer_tag="mine")
    try:
        channel.start_consuming()
    except ChildError:
        os._exit(0)
    assert held[0] > 30
    assert handled == list(range(COUNT))
    connection.close()
    assert left_in(broker, queue_name) == []
