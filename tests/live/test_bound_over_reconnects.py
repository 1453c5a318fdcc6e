"""A bound on a rate, over connections that are lost again and again: no stretch has too many."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pika.exceptions
import pytest

from controlmq.clients.pika.wrap import wrap
from controlmq.consumer.hand_over_gate import Gate
from tests.known.stretches import worst_excess
from tests.testbed import Broker
from tests.testbed.publishing import connected, fill

CONNECTIONS = 6
SECONDS_EACH = 0.7


@pytest.mark.parametrize(
    ("at_most", "rate", "burst"),
    [("5/minute", 5 / 60, 1), ("5/minute", 5 / 60, 3), (2, 2.0, 1), (20, 20.0, 5)],
)
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "cancelled"])
def test_no_stretch_has_more_than_its_bound(
    broker: Broker,
    queue_name: str,
    at_most: Any,
    rate: float,
    burst: int,
    lost: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(broker.parameters, queue_name, 500)
    handed_over: list[float] = []
    handled: list[bytes] = []
    count = Gate.count

    def noted(self: Gate, since: float, now: float) -> None:
        handed_over.append(now)
        count(self, since, now)

    monkeypatch.setattr(Gate, "count", noted)

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(body)
        channel.basic_ack(method.delivery_tag)

    def consume(connection: Any, channel: Any) -> None:
        tag = channel.basic_consume(queue_name, on_message)
        end = time.monotonic() + SECONDS_EACH
        while time.monotonic() < end:
            connection.process_data_events(0.05)
        if not lost:
            channel.basic_cancel(tag)

    channel: Any = None
    words = {"at_most": at_most, "burst": burst}
    if lost:
        for _ in range(CONNECTIONS):
            with (
                broker.proxied() as proxy,
                contextlib.suppress(pika.exceptions.AMQPError),
                connected(proxy.parameters) as connection,
            ):
                channel = wrap(connection.channel(), go_on_from=channel, **words)
                consume(connection, channel)
                proxy.cut()
                connection.process_data_events(1.0)
    else:
        with connected(broker.parameters) as connection:
            channel = wrap(connection.channel(), **words)
            for _ in range(CONNECTIONS):
                consume(connection, channel)
    assert len(handled) == len(handed_over) >= burst
    assert worst_excess(handed_over, rate, burst) <= 0
