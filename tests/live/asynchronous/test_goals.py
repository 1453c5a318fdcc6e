"""Goals without a model on an asynchronous channel: each runs as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controlmq.clients.pika.wrap import wrap
from tests.live.handled import Handled, assert_empty
from tests.testbed import Broker
from tests.testbed.publishing import fill

COUNT = 150


@pytest.mark.parametrize(
    "goals", [{}, {"goal": 200}, {"at_most": "100/s"}, {"buffer_time": 0.1}], ids=str
)
def test_it_runs_as_written(
    broker: Broker, queue_name: str, run: Any, goals: dict[str, Any]
) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled = Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            channel.basic_ack(method.delivery_tag)
            if len(handled.numbers) == COUNT:
                done()

        wrap(channel, interval=0.1, **goals)
        channel.basic_consume(queue_name, on_message)

    run(broker.parameters, program)
    handled.assert_each_once_in_order(COUNT)
    assert_empty(broker, queue_name)


def test_two_channels_share_a_rate(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled = Handled()
    by_channel: dict[int, int] = {}
    shares: list[float] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            number = channel.channel_number
            by_channel[number] = by_channel.get(number, 0) + 1
            channel.basic_ack(method.delivery_tag)
            if len(handled.numbers) == COUNT:
                consumers = (*channel.adaptive_consumers.values(), *others.values())
                shares.extend(each.shared.share for each in consumers)
                done()

        def begin(other: Any) -> None:
            for each in (channel, other):
                wrap(each, at_most=100, shared="orders")
                each.basic_consume(queue_name, on_message)
            others.update(other.adaptive_consumers)

        others: dict[str, Any] = {}
        channel.connection.channel(on_open_callback=begin)

    run(broker.parameters, program)
    assert sorted(handled.numbers) == list(range(COUNT))
    assert len(by_channel) == 2
    assert sum(shares) <= 100
    assert_empty(broker, queue_name)
