"""Queues that are not shared, or not for long: single-active, exclusive, auto-delete, stream."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pika
import pytest

from controlmq.clients.pika.wrap import wrap
from controlmq.consumer.consumer import DEFAULT_MAX_HELD as MAX_HELD
from controlmq.controllers import Limits
from tests.live.handled import Handled, assert_empty
from tests.live.plain_consumer import PLAIN_CONSUMER
from tests.live.restless import LANES, changing
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, connected, fill, process_until


def handle_all(
    broker: Broker, queue: str, count: int, arguments: dict[str, Any] | None = None, **how: Any
) -> tuple[Handled, Any]:
    """Consume ``count`` messages with a consumer of the test's own connection."""
    handled = Handled()
    consumers: list[Any] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) == count:
            consumers.extend(channel.adaptive_consumers.values())
            channel.stop_consuming()

    exclusive = how.pop("exclusive", False)
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), **how)
        channel.basic_consume(queue, on_message, exclusive=exclusive, arguments=arguments)
        channel.start_consuming()
    return handled, consumers[0]


def test_a_single_active_queue_is_found_out(
    broker: Broker, queue: DeclareQueue, caplog: pytest.LogCaptureFixture
) -> None:
    name = queue("single-active")
    fill(broker.parameters, name, 1500)
    with caplog.at_level(logging.WARNING, logger="controlmq"):
        handled, consumer = handle_all(
            broker, name, 1500, goal=100, controller=changing(9), interval=0.02, prefetch=4
        )
    handled.assert_each_once_in_order(1500)
    assert consumer.plant.kind == "single"
    assert [record.message for record in caplog.records if "one consumer" in record.message]
    assert_empty(broker, name)


@pytest.mark.parametrize("kind", ["single-active", "classic", "quorum"])
def test_one_subscription_is_shaped_by_held_acks_alone(
    broker: Broker, queue: DeclareQueue, kind: Any
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 600)
    handled, consumer = handle_all(
        broker, name, 600, **LANES, limits=Limits(0.1, 20), window="single"
    )
    handled.assert_each_once_in_order(600)
    assert consumer.plant.kind == "single"
    assert_empty(broker, name)


def test_an_exclusive_consumer(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 400)
    handled, consumer = handle_all(
        broker, queue_name, 400, **LANES, limits=Limits(0.1, 20), exclusive=True
    )
    handled.assert_each_once_in_order(400)
    assert consumer.plant.kind == "single"


def test_an_exclusive_consumer_without_limits_still_has_room_to_grow(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 400)
    handled, consumer = handle_all(broker, queue_name, 400, **LANES, exclusive=True)
    handled.assert_each_once_in_order(400)
    assert consumer.plant.most == MAX_HELD


def test_a_single_subscription_says_that_it_cannot_grow(
    broker: Broker, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=4, window="single")
        tag = channel.basic_consume(queue_name, print)
        consumer = channel.adaptive_consumers[tag]
        with caplog.at_level(logging.WARNING, logger="controlmq"):
            for prefetch in (3, 9, 10):
                consumer.prefetch = prefetch
        (said,) = [each.message for each in caplog.records if each.name == "controlmq"]
        assert "prefetch 9" in said
        assert "has 4 slots" in said


def test_an_auto_delete_queue_survives_every_change(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("auto-delete")
    fill(broker.parameters, name, 800)
    handled, _ = handle_all(broker, name, 800, **LANES)
    handled.assert_each_once_in_order(800)


def test_a_stream_is_found_out_by_its_first_message(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("stream")
    fill(broker.parameters, name, 300)
    handled, consumer = handle_all(broker, name, 300, {"x-stream-offset": "first"}, **LANES)
    assert handled.numbers == list(range(300))
    assert consumer.plant.kind == "single"


def test_a_standby_takes_over_a_single_active_queue(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("single-active")
    active = subprocess.Popen(
        [sys.executable, "-c", PLAIN_CONSUMER, broker.url, name],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert active.stdout is not None
        assert active.stdout.readline() == "consuming\n"
        with connected(broker.parameters) as connection:
            channel = wrap(connection.channel(), **LANES)
            handled = Handled()

            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                handled.note(method, properties, body)
                channel.basic_ack(method.delivery_tag)

            channel.basic_consume(name, on_message)
            fill(broker.parameters, name, 100)
            first = [int(active.stdout.readline()) for _ in range(100)]
            assert connection.process_data_events(0.05) is None
            assert (first, handled.numbers) == (list(range(100)), [])
            active.kill()
            active.wait()
            fill(broker.parameters, name, 100, first=100)
            process_until(
                # The last ack of a killed process may be lost, and its message come again.
                connection,
                lambda: handled.numbers[-1:] == [199],
                "the standby handled what was left",
            )
            assert handled.numbers[-100:] == list(range(100, 200))
    finally:
        active.kill()
        active.wait()
    assert_empty(broker, name)


def test_a_plain_competing_consumer_gets_its_share(broker: Broker, queue_name: str) -> None:
    with connected(broker.parameters) as connection:
        ours, theirs = Handled(), Handled()
        channel, plain = wrap(connection.channel(), **LANES), connection.channel()
        plain.basic_qos(prefetch_count=5)

        def noted(handled: Handled) -> Any:
            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                handled.note(method, properties, body)
                channel.basic_ack(method.delivery_tag)

            return on_message

        channel.basic_consume(queue_name, noted(ours))
        plain.basic_consume(queue_name, noted(theirs))
        fill(broker.parameters, queue_name, 1000)
        process_until(
            connection,
            lambda: len(ours.numbers) + len(theirs.numbers) == 1000,
            "both handled all",
        )
    assert sorted(ours.numbers + theirs.numbers) == list(range(1000))
    assert ours.redelivered == theirs.redelivered == []
    assert ours.numbers
    assert theirs.numbers


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_deleted_queue_is_told_once(broker: Broker, queue: DeclareQueue, kind: Any) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 20)
    told: list[tuple[str, str]] = []
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        channel.add_on_cancel_callback(
            lambda frame: told.append(("old", frame.method.consumer_tag))
        )
        wrap(channel, prefetch=2, interval=60)
        channel.add_on_cancel_callback(
            lambda frame: told.append(("new", frame.method.consumer_tag))
        )
        came: list[int] = []
        channel.basic_consume(
            name, lambda _, method, *__: came.append(method.delivery_tag), consumer_tag="mine"
        )
        process_until(connection, lambda: came, "messages came")
        channel.adaptive_consumers["mine"].prefetch = 6
        process_until(connection, lambda: len(came) == 6, "six came")
        broker.management.delete_queue(name)
        channel.start_consuming()
        assert told == [("old", "mine"), ("new", "mine")]
        assert channel.consumer_tags == []
        assert channel.is_open


def test_a_deleted_queue_ends_the_generator(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 3)
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=1)
        numbers = []
        for method, _, body in channel.consume(queue_name):
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(numbers) == 3:
                broker.management.delete_queue(queue_name)
        assert numbers == [0, 1, 2]


def test_connection_loss_surfaces_as_in_pika(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 100)
    with broker.proxied() as proxy:
        channel = wrap(pika.BlockingConnection(proxy.parameters).channel(), **LANES)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            if int(body) == 50:
                proxy.cut()

        channel.basic_consume(queue_name, on_message)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            channel.start_consuming()
        assert channel.is_closed
        with pytest.raises(pika.exceptions.ChannelWrongStateError):
            channel.basic_ack(51)
