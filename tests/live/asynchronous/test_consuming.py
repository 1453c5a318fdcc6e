"""Consuming, cancelling and what ends it, on asynchronous connections."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

from controlmq.clients.pika.asynchronous import AsynchronousAdapter
from controlmq.clients.pika.wrap import unwrap, wrap
from controlmq.controllers import Limits
from tests.live.asynchronous.conftest import DEADLINE
from tests.live.handled import Handled, assert_empty, left_in
from tests.live.restless import LANES
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, connected, fill
from tests.testbed.wire import qos_calls


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_late_acks_in_any_order(broker: Broker, queue: DeclareQueue, run: Any, kind: Any) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 600)
    handled, draw, acked = Handled(), random.Random(7), 0

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            assert method.consumer_tag == "mine"
            channel.connection.ioloop.call_later(
                draw.uniform(0, 0.005), lambda: ack(method.delivery_tag)
            )

        def ack(tag: int) -> None:
            nonlocal acked
            channel.basic_ack(tag)
            acked += 1
            if acked == 600:
                done()

        channel.basic_consume(name, on_message, consumer_tag="mine")

    run(broker.parameters, program)
    handled.assert_each_once_in_order(600)
    assert_empty(broker, name)


def test_quick_handlers_that_acknowledge_at_once(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 3000)
    handled = Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=50)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            channel.basic_ack(method.delivery_tag)
            if len(handled.numbers) == 3000:
                done()

        channel.basic_consume(queue_name, on_message)

    run(broker.parameters, program)
    handled.assert_each_once_in_order(3000)
    assert_empty(broker, queue_name)


def test_cancelling_answers_once_with_the_users_tag(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 300)
    answers: list[tuple[str, str]] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            if int(body) == 200:
                channel.basic_cancel("mine", callback=on_cancelled)

        def on_consuming(frame: Any) -> None:
            answers.append(("consuming", frame.method.consumer_tag))

        def on_cancelled(frame: Any) -> None:
            answers.append(("cancelled", frame.method.consumer_tag))
            assert channel.consumer_tags == []
            done()

        channel.basic_consume(queue_name, on_message, consumer_tag="mine", callback=on_consuming)

    run(broker.parameters, program)
    assert answers == [("consuming", "mine"), ("cancelled", "mine")]


def test_cancelling_several_lanes_requeues_nothing(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 40)
    tags: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=2, interval=60, window="lanes")

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            tags.append(method.delivery_tag)
            consumer = channel.adaptive_consumers["mine"]
            if len(tags) in (2, 4):
                consumer.prefetch += 2
            elif len(tags) == 6:
                # Every slot is occupied, so nothing can be on the way when the lanes go.
                consumer.prefetch = 1
                for tag in tags[1:]:
                    channel.basic_ack(tag)
                assert len(consumer.plant.window.subscribed) == 3
                assert consumer.held == 5
                channel.basic_cancel("mine", callback=on_cancelled)

        def on_cancelled(_frame: Any) -> None:
            channel.basic_ack(tags[0])
            done()

        channel.basic_consume(queue_name, on_message, consumer_tag="mine")

    run(broker.parameters, program)
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        rest = [channel.basic_get(queue_name) for _ in range(34)]
    assert [int(body) for _, _, body in rest] == list(range(6, 40))
    assert not any(method.redelivered for method, _, _ in rest)


def test_a_lane_opened_before_a_cancel_is_confirmed_gets_its_messages(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 60)
    handled = Handled()
    unconfirmed: list[bool] = []
    with broker.proxied(delay=0.1) as proxy:

        def program(channel: Any, done: Callable[[], None]) -> None:
            wrap(channel, prefetch=4, window="lanes", interval=60, max_held=1)
            tags: list[int] = []

            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                handled.note(method, properties, body)
                tags.append(method.delivery_tag)
                if len(tags) == 4:
                    # Another lane takes the place of the first, which still has its messages.
                    channel.adaptive_consumers["mine"].prefetch = 1
                    grow_once_cancelled()
                elif unconfirmed:
                    while tags:
                        channel.basic_ack(tags.pop())
                    if len(handled.numbers) == 60:
                        done()

            def grow_once_cancelled() -> None:
                consumer = channel.adaptive_consumers["mine"]
                if not consumer.plant.window.lanes[0].cancelled:
                    channel.connection.ioloop.call_later(0.001, grow_once_cancelled)
                    return
                consumer.prefetch = 20
                unconfirmed.append("mine" in channel._adapter._unanswered)

            channel.basic_consume(queue_name, on_message, consumer_tag="mine")

        run(proxy.parameters, program)
    assert unconfirmed == [True]
    handled.assert_each_once_in_order(60)
    assert_empty(broker, queue_name)


def test_a_deleted_queue_is_told_once(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 300)
    told: list[str] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        def on_cancel(frame: Any) -> None:
            told.append(frame.method.consumer_tag)
            channel.connection.ioloop.call_later(0.2, done)

        channel.add_on_cancel_callback(on_cancel)
        wrap(channel, prefetch=2)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if int(body) == 1:
                channel.adaptive_consumers["mine"].prefetch = 6
            elif int(body) == 5:
                broker.management.delete_queue(queue_name)

        channel.basic_consume(queue_name, on_message, consumer_tag="mine")

    run(broker.parameters, program)
    assert told == ["mine"]


def test_a_user_who_is_told_of_a_cancel_may_subscribe_again(
    broker: Broker, queue: DeclareQueue, run: Any
) -> None:
    deleted, other = queue("classic"), queue("classic")
    fill(broker.parameters, deleted, 20)
    fill(broker.parameters, other, 2)
    again: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=2, window="lanes", interval=60)

        def on_cancel(_frame: Any) -> None:
            channel.basic_consume(other, on_other_message, consumer_tag="mine")

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if int(body) == 1:
                channel.adaptive_consumers["mine"].prefetch = 4
            elif int(body) == 3:
                broker.management.delete_queue(deleted)

        def on_other_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            again.append(int(body))
            if len(again) == 2:
                done()

        channel.add_on_cancel_callback(on_cancel)
        channel.basic_consume(deleted, on_message, consumer_tag="mine")

    run(broker.parameters, program)
    assert again == [0, 1]


def test_an_exception_of_a_handler_leaves_no_ack_behind(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 200)
    held: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=50, window="lanes", interval=60)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            consumer = channel.adaptive_consumers["mine"]
            if int(body) == 100:
                held.append(consumer.held)
                raise RuntimeError
            channel.basic_ack(method.delivery_tag)
            if int(body) == 60:
                consumer.prefetch = 5

        channel.basic_consume(queue_name, on_message, consumer_tag="mine")

    run(broker.parameters, program, closes=pika.exceptions.StreamLostError)
    assert held[0] > 30
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == 100, "what was not handled went back"
    )


def test_a_message_that_an_interrupt_kept_from_the_handler_is_not_acknowledged(
    broker: Broker, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.parameters, queue_name, 200)
    handled: list[int] = []
    read = 0

    def interrupted(_adapter: AsynchronousAdapter) -> int:
        """Called when pika has read a message, and before we note it."""
        nonlocal read
        read += 1
        if read == 5:
            raise KeyboardInterrupt
        return 0

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        channel.basic_ack(method.delivery_tag)
        if len(handled) == 199:
            channel.connection.close()

    def consume(channel: Any) -> None:
        wrap(channel, prefetch=20, window="lanes", interval=60)
        channel.basic_consume(queue_name, on_message)

    monkeypatch.setattr(AsynchronousAdapter, "buffered", interrupted)
    connection = pika.SelectConnection(
        broker.parameters,
        on_open_callback=lambda connection: connection.channel(on_open_callback=consume),
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.call_later(DEADLINE, connection.ioloop.stop)
    with pytest.raises(KeyboardInterrupt):
        connection.ioloop.start()
    connection.ioloop.start()  # as pika's documentation has it
    assert handled == [number for number in range(200) if number != 4]
    assert left_in(broker, queue_name) == [4]


def test_a_close_that_is_interrupted_can_be_gone_on_with(
    broker: Broker, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.parameters, queue_name, 200)
    handled: list[int] = []
    late: list[bool] = []
    plain = pika.channel.Channel._set_state

    def interrupted(channel: Any, state: int) -> None:
        """Ctrl-C comes when pika has noted that it closes the channel, and not asked for it."""
        plain(channel, state)
        if state == channel.CLOSING:
            monkeypatch.undo()  # once
            signal.raise_signal(signal.SIGINT)

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        channel.basic_ack(method.delivery_tag)

    def consume(channel: Any) -> None:
        wrap(channel, prefetch=5, window="single", limits=Limits(1, 20), interval=60)
        channel.basic_consume(queue_name, on_message)

    def give_up() -> None:
        late.append(True)
        connection.ioloop.stop()

    monkeypatch.setattr(pika.channel.Channel, "_set_state", interrupted)
    connection = pika.SelectConnection(
        broker.parameters,
        on_open_callback=lambda connection: connection.channel(on_open_callback=consume),
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.call_later(0.5, connection.close)
    connection.ioloop.call_later(DEADLINE / 3, give_up)
    with pytest.raises(KeyboardInterrupt):
        connection.ioloop.start()
    connection.close()  # again, as a program does that was interrupted
    connection.ioloop.start()
    assert late == []
    assert connection.is_closed
    assert sorted(handled + left_in(broker, queue_name)) == list(range(200))


def test_unwrapping_while_consuming(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 300)
    handled = Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=2.5)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if handled.note(method, properties, body) == 100:
                unwrap(channel)
                assert type(channel) is pika.channel.Channel
            channel.basic_ack(method.delivery_tag)
            if len(handled.numbers) == 300:
                done()

        channel.basic_consume(queue_name, on_message)

    run(broker.parameters, program)
    handled.assert_each_once_in_order(300)
    assert_empty(broker, queue_name)


def test_connection_loss_surfaces_as_in_pika(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 300)
    with broker.proxied() as proxy:

        def program(channel: Any, done: Callable[[], None]) -> None:
            wrap(channel, **LANES)

            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                channel.basic_ack(method.delivery_tag)
                if int(body) == 100:
                    proxy.cut()

            channel.basic_consume(queue_name, on_message)

        run(proxy.parameters, program, pika.exceptions.AMQPConnectionError)


def test_the_limit_is_never_set_for_all_consumers_at_once(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 300)
    handled = Handled()
    granted: list[int] = []
    with broker.proxied(record=True) as proxy:

        def program(channel: Any, done: Callable[[], None]) -> None:
            def on_step(_step: Any) -> None:
                (consumer,) = channel.adaptive_consumers.values()
                granted.append(consumer.plant.window.granted)
                if len(granted) >= 12 and max(granted) > 2 and len(handled.numbers) == 300:
                    done()

            wrap(channel, **LANES, on_step=on_step)

            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                handled.note(method, properties, body)
                channel.basic_ack(method.delivery_tag)

            channel.basic_consume(queue_name, on_message)

        run(proxy.parameters, program)
        calls = qos_calls(proxy.recorded()[0])
    handled.assert_each_once_in_order(300)
    assert len(calls) > 1
    assert not any(call.all_consumers for call in calls)
