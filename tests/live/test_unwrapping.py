"""Unwrapping a consumer that runs, on a ``BlockingConnection``."""

from __future__ import annotations

from typing import Any

from controlmq.clients.pika.wrap import unwrap, wrap
from controlmq.loop import Step
from tests.live.handled import Handled, assert_empty
from tests.live.restless import LANES
from tests.testbed import Broker
from tests.testbed.publishing import fill, process_until


def test_unwrapping_gives_back_a_plain_consumer(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 300)
    channel = connection.channel()
    plain = type(channel)
    wrap(channel, prefetch=3.5, interval=0.05)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if handled.note(method, properties, body) == 100:
            unwrap(channel)
            assert type(channel) is plain
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) == 300:
            channel.stop_consuming()

    channel.basic_consume(queue_name, on_message)
    channel.start_consuming()
    handled.assert_each_once_in_order(300)
    assert_empty(broker, queue_name)


def test_unwrapping_keeps_as_many_slots_as_there_are(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 100)
    channel = wrap(connection.channel(), prefetch=4, window="lanes", interval=0.05)
    tags: list[int] = []
    tag = channel.basic_consume(queue_name, lambda _, method, *__: tags.append(method.delivery_tag))
    consumer = channel.adaptive_consumers[tag]
    consumer.prefetch = 10
    process_until(connection, lambda: len(tags) == 10, "ten slots were filled")
    consumer.prefetch = 7
    for handled in tags[:3]:
        channel.basic_ack(handled)
    assert consumer.held == 3
    unwrap(channel)
    process_until(connection, lambda: len(tags) == 13, "what was held opened its slots again")
    for handled in range(3, 20):
        channel.basic_ack(tags[handled])
        process_until(
            connection, lambda number=handled: len(tags) == number + 11, "every ack opened one slot"
        )
    broker.management.wait_for_queue(
        queue_name, lambda queue: queue.messages_unacknowledged == 10, "ten messages are out"
    )


def test_unwrapping_to_fewer_slots_requeues_nothing(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 500)
    channel = wrap(connection.channel(), **LANES)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if handled.note(method, properties, body) == 200:
            unwrap(channel, prefetch=6)
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) == 499:
            slots.append(channel.adaptive_consumers[tag].plant.window.open_slots)
        if len(handled.numbers) == 500:
            channel.stop_consuming()

    slots: list[int] = []
    tag = channel.basic_consume(queue_name, on_message)
    channel.start_consuming()
    handled.assert_each_once_in_order(500)
    assert slots == [6]


def test_unwrapping_in_a_consume_loop_waits_for_its_end(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 300)
    channel = connection.channel()
    plain = type(channel)
    wrap(channel, **LANES)
    handled = Handled()
    for method, properties, body in channel.consume(queue_name, inactivity_timeout=0.2):
        if method is None:
            # A busy broker may pause for so long, too.
            if len(handled.numbers) == 300:
                break
            continue
        if handled.note(method, properties, body) == 100:
            unwrap(channel)
        channel.basic_ack(method.delivery_tag)
    handled.assert_each_once_in_order(300)
    channel.cancel()
    assert type(channel) is plain
    assert_empty(broker, queue_name)


def test_after_unwrapping_nobody_is_told_of_steps(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 20)
    steps: list[Step] = []
    # A lane is added when no slot has come free for as long as an ack may be held, twice here.
    channel = wrap(
        connection.channel(), prefetch=5, interval=0.01, max_hold=0.5, on_step=steps.append
    )
    tags: list[int] = []
    tag = channel.basic_consume(queue_name, lambda _, method, *__: tags.append(method.delivery_tag))
    process_until(connection, lambda: len(steps) > 1, "steps were taken")
    consumer = channel.adaptive_consumers[tag]
    # Neither of these is what the one subscription has, so the window stays.
    for prefetch in (3, 8):
        unwrap(channel, prefetch)
        told, tick = len(steps), consumer.plant.next_sample
        process_until(
            connection, lambda tick=tick: consumer.plant.next_sample > tick, "the clock went on"
        )
        assert len(steps) == told
    process_until(connection, lambda: len(tags) == 8, "eight came")
