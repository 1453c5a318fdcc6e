"""A user who may consume no more: the broker refuses a further lane, as with an expired token.

RabbitMQ looks a user's rights up when a channel asks for something, and closes a channel that may
not have it. Of a channel that has been idle for a second it looks them up again.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from controlmq.clients.pika.service import Service
from controlmq.clients.pika.wrap import wrap
from controlmq.clients.stopping import Stop
from controlmq.controllers import Limits
from tests.live.handled import assert_empty, left_in
from tests.testbed import Broker, wait_until
from tests.testbed.publishing import connected, fill, process_until

IDLE_SECONDS = 3.0
"""Seconds between two requests, so that the channel is idle in between."""


class Reader:
    """A user who may read queues, until that is taken away."""

    def __init__(self, broker: Broker) -> None:
        self._management = broker.management
        self._name = f"reader-{uuid.uuid4().hex[:12]}"
        self._management.put(f"/users/{self._name}", {"password": "secret", "tags": ""})
        self.may_read(True)
        login, _, place = broker.url.rpartition("@")
        scheme, _, _ = login.partition("://")
        self.url = f"{scheme}://{self._name}:secret@{place}"

    def may_read(self, may: bool) -> None:
        rights = {"configure": "^$", "write": "^$", "read": ".*" if may else "^$"}
        self._management.put(f"/permissions/%2F/{self._name}", rights)

    def remove(self) -> None:
        self._management.delete(f"/users/{self._name}")


@pytest.fixture
def reader(broker: Broker) -> Iterator[Reader]:
    reader = Reader(broker)
    yield reader
    reader.remove()


def test_a_refused_lane_closes_the_channel_as_in_pika(
    broker: Broker, queue_name: str, reader: Reader
) -> None:
    fill(broker.parameters, queue_name, 10)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        if int(body) < 5:
            channel.basic_ack(method.delivery_tag)

    with connected(pika.URLParameters(reader.url)) as connection:
        channel = wrap(connection.channel(), prefetch=3, window="lanes", interval=60)
        channel.basic_consume(queue_name, on_message, consumer_tag="mine")
        process_until(connection, lambda: len(handled) == 8, "every slot is filled")
        consumer = channel.adaptive_consumers["mine"]
        reader.may_read(False)

        def grow() -> None:
            consumer.prefetch += 1
            connection.call_later(IDLE_SECONDS, grow)

        connection.call_later(IDLE_SECONDS, grow)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"403.*refused"):
            channel.start_consuming()
        assert not consumer.running
        assert connection.is_open
    assert left_in(broker, queue_name) == list(range(5, 10))


def test_run_goes_on_with_lanes_once_the_right_is_back(
    broker: Broker, queue_name: str, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker.parameters, queue_name, 50)
    handled, stop, wanted = Counter[int](), Stop(), [2.0]
    service = Service(
        [reader.url],
        queue_name,
        lambda body, properties: handled.update([int(body)]),
        stop=stop,
        workers=3,
        goal=100,
        controller=lambda sample, goal: wanted[0],
        limits=Limits(1, 50),
        prefetch=2,
        window="lanes",
        interval=0.1,
    )

    def grown_in_vain() -> bool:
        wanted[0] += 1
        return "403" in caplog.text

    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        wait_until(lambda: len(handled) == 50, "all are handled")
        reader.may_read(False)
        wait_until(grown_in_vain, "a further lane is refused", pause=IDLE_SECONDS)
        wait_until(lambda: caplog.text.count("trying again") > 1, "so is every consumer")
        reader.may_read(True)
        fill(broker.parameters, queue_name, 50, first=50)
        wait_until(lambda: len(handled) == 100, "those after it are handled, too")
        wanted[0] += 5
        broker.management.wait_for_queue(
            queue_name, lambda view: len(view.consumers) > 1, "there is a further lane"
        )
    finally:
        stop.ask()
        thread.join()
    assert max(handled.values()) == 1
    assert_empty(broker, queue_name)
    assert "single subscription" not in caplog.text
