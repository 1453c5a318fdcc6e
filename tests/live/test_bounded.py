"""At most a rate, on a real broker: bunches wait in the core, in order, and nothing is lost."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controlmq import WorkerPool
from controlmq.clients.pika.wrap import wrap
from tests.live.bounding import Bounded
from tests.live.handled import Handled, assert_empty
from tests.testbed import Broker
from tests.testbed.publishing import fill, process_until

COUNT = 150


@pytest.mark.parametrize("multiple", [False, True], ids=["each", "several"])
def test_a_bunch_is_handed_over_no_faster_than_allowed(
    broker: Broker, connection: Any, queue_name: str, multiple: bool
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    channel = wrap(connection.channel(), prefetch=60)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        number = handled.note(method, properties, body)
        if not multiple:
            channel.basic_ack(method.delivery_tag)
        elif number % 10 == 9:
            channel.basic_ack(method.delivery_tag, multiple=True)

    bounded = Bounded(channel, channel.basic_consume(queue_name, on_message))
    process_until(connection, lambda: len(handled.numbers) == COUNT, "all are handled")
    handled.assert_each_once_in_order(COUNT)
    bounded.assert_kept(COUNT)
    channel.close()
    assert_empty(broker, queue_name)


def test_a_pool_gets_no_more_than_allowed(broker: Broker, connection: Any, queue_name: str) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled = Handled()
    acked: list[int] = []
    with WorkerPool(4) as pool:
        channel = wrap(connection.channel(), prefetch=60, handlers=pool)

        def acknowledge(tag: int) -> None:
            channel.basic_ack(tag)
            acked.append(tag)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            ack = partial(acknowledge, method.delivery_tag)
            pool.submit(connection.add_callback_threadsafe, ack)

        bounded = Bounded(channel, channel.basic_consume(queue_name, on_message))
        process_until(connection, lambda: len(acked) == COUNT, "all are acknowledged")
    handled.assert_each_once_in_order(COUNT)
    bounded.assert_kept(COUNT)
    channel.close()
    assert_empty(broker, queue_name)


def test_a_consume_loop_gets_no_more_than_allowed(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    channel = wrap(connection.channel(), prefetch=60)
    handled, pauses, bounded = Handled(), 0, None
    for method, properties, body in channel.consume(queue_name, inactivity_timeout=0.001):
        if bounded is None:
            (tag,) = channel.adaptive_consumers
            bounded = Bounded(channel, tag)
        if method is None:
            pauses += 1
            continue
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) == COUNT:
            break
    handled.assert_each_once_in_order(COUNT)
    assert bounded is not None
    bounded.assert_kept(len(bounded.times))
    assert len(bounded.times) >= COUNT - 1  # perhaps all but the first
    assert pauses > 0, "the loop goes on while messages wait"
    channel.cancel()
    channel.close()
    assert_empty(broker, queue_name)


def test_what_waits_goes_back_to_its_queue_when_the_consumer_is_cancelled(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    channel = wrap(connection.channel(), prefetch=60)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag)

    tag = channel.basic_consume(queue_name, on_message)
    bounded = Bounded(channel, tag, rate=20.0, burst=1.0)
    process_until(connection, lambda: len(handled.numbers) >= 5, "some are handled")
    assert bounded.consumer.gate.waiting
    channel.basic_cancel(tag)
    left = COUNT - len(handled.numbers)
    broker.management.wait_for_queue(
        queue_name,
        lambda view: view.messages_ready == left and view.messages_unacknowledged == 0,
        "what was not handled is back",
    )
    assert handled.numbers == list(range(len(handled.numbers)))
    channel.close()


def test_an_ack_of_several_is_none_of_what_still_waits(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    other = f"{queue_name}.other"
    fill(broker.parameters, queue_name, COUNT)
    setup = connection.channel()
    setup.queue_declare(other, auto_delete=False)
    fill(broker.parameters, other, COUNT)
    channel = wrap(connection.channel(), prefetch=40)
    slow, quick = Handled(), Handled()

    def on_message(
        handled: Handled, channel: Any, method: Any, properties: Any, body: bytes
    ) -> None:
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag, multiple=True)

    bounded = Bounded(channel, channel.basic_consume(queue_name, partial(on_message, slow)))
    channel.basic_consume(other, partial(on_message, quick))
    process_until(
        connection, lambda: len(slow.numbers) == len(quick.numbers) == COUNT, "all are handled"
    )
    assert slow.numbers == quick.numbers == list(range(COUNT))
    assert slow.redelivered == quick.redelivered == []
    bounded.assert_kept(COUNT)
    channel.close()
    assert_empty(broker, queue_name)
    setup.queue_delete(other)
