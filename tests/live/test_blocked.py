"""A blocked connection: the broker reads nothing from it, and the process goes on all the same."""

from __future__ import annotations

import threading
from typing import Any

from controlmq.clients.pika.wrap import wrap
from tests.testbed import Broker
from tests.testbed.publishing import connected, declare_queue, fill, process_until

COUNT = 100
GIVEN_UP_AFTER_SECONDS = 30.0
"""When the alarm ends by itself, so that a process that waits for it can fail."""

TICKS = 20
TICK_SECONDS = 0.02


def test_a_change_of_lanes_does_not_stop_a_process_whose_connection_is_blocked(
    disposable_broker: Broker,
) -> None:
    broker = disposable_broker
    queue = declare_queue(broker.parameters)
    fill(broker.parameters, queue, COUNT)
    handled: list[int] = []
    ticks: list[bool] = []
    ended = threading.Event()

    def end_the_alarm() -> None:
        ended.set()
        broker.control("rabbitmqctl", "set_vm_memory_high_watermark", "0.9")

    guard = threading.Timer(GIVEN_UP_AFTER_SECONDS, end_the_alarm)
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=4, window="lanes", interval=0.05)
        publishing = connection.channel()

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(handled) == 20:
                broker.control("rabbitmqctl", "set_vm_memory_high_watermark", "0.00000001")
                guard.start()
                publishing.basic_publish("", "nowhere", b"")
                channel.adaptive_consumers["mine"].prefetch = 8
                tick()

        def tick() -> None:
            ticks.append(ended.is_set())
            connection.call_later(TICK_SECONDS, tick)

        channel.basic_consume(queue, on_message, consumer_tag="mine")
        process_until(connection, lambda: len(ticks) >= TICKS, "timers fire")
        guard.cancel()
        assert True not in ticks[:TICKS]
        assert len(handled) < COUNT
        end_the_alarm()
        process_until(connection, lambda: len(handled) == COUNT, "all are handled")
        assert handled == list(range(COUNT))
        assert len(channel.adaptive_consumers["mine"].plant.window.subscribed) == 2
