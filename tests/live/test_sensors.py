"""What a live consumer measures of its network and its handlers, behind 11 ms of round trip."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from controlmq import Step, WorkerPool
from controlmq.clients.pika.wrap import wrap
from tests.testbed import Broker
from tests.testbed.proxy import ROUND_TRIP
from tests.testbed.publishing import connected, fill, process_until

MESSAGES = 3000
WORK = 0.005
SAMPLES = 4


def test_an_inline_handler_is_one_and_the_turnaround_is_that_of_the_network(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, MESSAGES)
    steps: list[Step] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        time.sleep(WORK)
        channel.basic_ack(method.delivery_tag)

    with broker.proxied(delay=ROUND_TRIP / 2) as proxy, connected(proxy.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=1, interval=0.5, on_step=steps.append)
        channel.basic_consume(queue_name, on_message)
        process_until(connection, lambda: len(steps) >= SAMPLES, "there are samples")
    sample = steps[-1].sample
    assert sample.handlers == 1
    assert sample.turnaround >= ROUND_TRIP
    assert sample.handler_time >= WORK
    assert 0.7 * sample.rate * sample.handler_time <= sample.busy <= 1.0
    # One slot is always somewhere.
    slots = sample.rate * (sample.turnaround + sample.buffer_time + sample.handler_time)
    assert slots == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("known", ["pool", "number"])
def test_time_in_a_pool_is_told_apart_from_time_in_its_handlers(
    broker: Broker, queue_name: str, known: str
) -> None:
    fill(broker.parameters, queue_name, MESSAGES)
    steps: list[Step] = []
    with WorkerPool(2) as pool, connected(broker.parameters) as connection:

        def handle(channel: Any, tag: int) -> None:
            time.sleep(WORK)
            connection.add_callback_threadsafe(partial(channel.basic_ack, tag))

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            pool.submit(handle, channel, method.delivery_tag)

        handlers = pool if known == "pool" else 2
        channel = wrap(
            connection.channel(), prefetch=12, interval=0.5, handlers=handlers, on_step=steps.append
        )
        channel.basic_consume(queue_name, on_message)
        process_until(connection, lambda: len(steps) >= SAMPLES, "there are samples")
        channel.stop_consuming()
    sample = steps[-1].sample
    assert sample.handlers == 2
    assert sample.handler_time >= WORK
    # Ten of twelve messages wait, for five times as long as a handler takes.
    assert sample.buffer_time > 2 * sample.handler_time
    assert 0.5 <= sample.busy <= 1.0
