"""At most a rate on an asynchronous channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlmq.clients.pika.wrap import wrap
from tests.live.bounding import Bounded
from tests.live.handled import Handled, assert_empty
from tests.testbed import Broker
from tests.testbed.publishing import fill

COUNT = 150


def test_a_bunch_is_handed_over_no_faster_than_allowed(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled = Handled()
    bounded: list[Bounded] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            channel.basic_ack(method.delivery_tag)
            if len(handled.numbers) == COUNT:
                done()

        wrap(channel, prefetch=60)
        bounded.append(Bounded(channel, channel.basic_consume(queue_name, on_message)))

    run(broker.parameters, program)
    handled.assert_each_once_in_order(COUNT)
    bounded[0].assert_kept(COUNT)
    assert_empty(broker, queue_name)
