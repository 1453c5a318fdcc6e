"""A window that is far too large becomes small on a real broker, however long its handler takes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from controlmq.clients.channel_runner import clock
from controlmq.clients.pika.wrap import wrap
from controlmq.controllers.limits import Limits
from tests.live.handled import Handled
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, QueueKind, fill

DEADLINE = 60.0
"""Seconds for what takes a few."""

HANDLED_BEFORE = 5
"""Messages handled before the prefetch drops."""


def shrink(
    connection: Any, queue: str, prefetch: float, to: float, work: float, **settings: Any
) -> Handled:
    """Consume until no more slots are subscribed than asked for, with ``work`` seconds a message.

    Everything is done by the handler: while messages keep coming, pika does nothing else.
    """
    channel = wrap(connection.channel(), prefetch=prefetch, **settings)
    handled = Handled()
    started = clock()
    pause = threading.Event()
    subscribed: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        pause.wait(work)
        channel.basic_ack(method.delivery_tag)
        consumer = channel.adaptive_consumers[method.consumer_tag]
        if len(handled.numbers) == HANDLED_BEFORE:
            consumer.prefetch = to
        subscribed.append(sum(lane.size for lane in consumer.plant.window.subscribed))
        if subscribed[-1] <= to or clock() - started > DEADLINE:
            channel.stop_consuming()

    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    assert subscribed[0] == prefetch
    assert subscribed[-1] <= to, subscribed[-1]
    assert max(subscribed) <= prefetch + 1
    return handled


@pytest.mark.parametrize(
    ("prefetch", "settings"),
    [(200, {"max_held": 10}), (2000, {"limits": Limits(1, 2000)})],
    ids=["200", "2000"],
)
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_window_shrinks_by_more_than_may_be_held(
    broker: Broker,
    connection: Any,
    queue: DeclareQueue,
    kind: QueueKind,
    prefetch: float,
    settings: dict[str, Any],
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 20_000)
    handled = shrink(connection, name, prefetch, 10, 0.001, interval=0.2, **settings)
    handled.assert_each_once_in_order(len(handled.numbers))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_window_shrinks_though_its_handler_takes_long(
    broker: Broker, connection: Any, queue: DeclareQueue, kind: QueueKind
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 300)
    # To handle what is in flight takes 20 times as long as an ack may be held.
    handled = shrink(connection, name, 20, 2, 0.3, interval=0.2, max_hold=0.3)
    handled.assert_each_once_in_order(len(handled.numbers))
