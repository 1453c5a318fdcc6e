"""Queues of every kind and several consumers, on asynchronous connections."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from controlmq.clients.pika.wrap import wrap
from tests.live.handled import Handled, assert_empty
from tests.live.plain_consumer import PLAIN_CONSUMER
from tests.live.restless import LANES
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, fill


def test_consumers_on_one_channel_have_goals_of_their_own(
    broker: Broker, queue: DeclareQueue, run: Any
) -> None:
    names = [queue("classic"), queue("quorum")]
    handled = {name: Handled() for name in names}
    goals: list[float] = []
    for name in names:
        fill(broker.parameters, name, 200)

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES | {"goal": {names[0]: 50}})

        def consume(name: str, **goal: float) -> None:
            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                handled[name].note(method, properties, body)
                channel.basic_ack(method.delivery_tag)
                if all(len(each.numbers) == 200 for each in handled.values()):
                    done()

            tag = channel.basic_consume(name, on_message, **goal)
            goals.append(channel.adaptive_consumers[tag].goal)

        consume(names[0])
        consume(names[1], goal=70)

    run(broker.parameters, program)
    assert goals == [50, 70]
    for each in handled.values():
        each.assert_each_once_in_order(200)


@pytest.mark.parametrize(
    ("kind", "how", "shape"),
    [
        ("single-active", {}, "single"),
        ("classic", {"exclusive": True}, "single"),
        ("stream", {"arguments": {"x-stream-offset": "first"}}, "single"),
        ("auto-delete", {}, "lanes"),
    ],
)
def test_queues_that_are_not_shared_or_not_for_long(
    broker: Broker, queue: DeclareQueue, run: Any, kind: Any, how: dict[str, Any], shape: str
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 1500)
    numbers: list[int] = []
    shapes: list[str] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(numbers) == 1500:
                shapes.append(channel.adaptive_consumers["mine"].plant.kind)
                done()

        channel.basic_consume(name, on_message, consumer_tag="mine", **how)

    run(broker.parameters, program)
    assert numbers == list(range(1500))
    assert shapes == [shape]


def test_a_standby_takes_over_a_single_active_queue(
    broker: Broker, queue: DeclareQueue, run: Any
) -> None:
    name = queue("single-active")
    active = subprocess.Popen(
        [sys.executable, "-c", PLAIN_CONSUMER, broker.url, name], stdout=subprocess.PIPE, text=True
    )
    handled = Handled()
    early: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            if handled.note(method, properties, body) == 199:
                done()

        def on_consuming(_frame: Any) -> None:
            assert active.stdout is not None
            fill(broker.parameters, name, 100)
            early.extend(int(active.stdout.readline()) for _ in range(100))
            active.kill()
            active.wait()
            fill(broker.parameters, name, 100, first=100)

        channel.basic_consume(name, on_message, callback=on_consuming)

    try:
        assert active.stdout is not None
        assert active.stdout.readline() == "consuming\n"
        run(broker.parameters, program)
    finally:
        active.kill()
        active.wait()
    assert early == list(range(100))
    # The last acks of a killed process may be lost, and their messages come again.
    assert handled.numbers[-100:] == list(range(100, 200))
    assert len(handled.numbers) <= 105
    assert_empty(broker, name)


def test_a_plain_competing_consumer_gets_its_share(
    broker: Broker, queue_name: str, run: Any
) -> None:
    ours, theirs = Handled(), Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def noted(handled: Handled) -> Any:
            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                handled.note(method, properties, body)
                channel.basic_ack(method.delivery_tag)
                if len(ours.numbers) + len(theirs.numbers) == 600:
                    done()

            return on_message

        def on_second_channel(plain: Any) -> None:
            plain.basic_qos(prefetch_count=5)
            plain.basic_consume(
                queue_name,
                noted(theirs),
                # Both have slots before there is a message.
                callback=lambda _frame: fill(broker.parameters, queue_name, 600),
            )

        channel.basic_consume(
            queue_name,
            noted(ours),
            callback=lambda _frame: channel.connection.channel(on_open_callback=on_second_channel),
        )

    run(broker.parameters, program)
    assert sorted(ours.numbers + theirs.numbers) == list(range(600))
    assert ours.redelivered == theirs.redelivered == []
    assert ours.numbers
    assert theirs.numbers


def test_a_server_named_queue_gets_lanes(broker: Broker, run: Any) -> None:
    numbers: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_declared(frame: Any) -> None:
            channel.basic_consume("", on_message)
            # Another declaration must not lead later lanes astray.
            channel.queue_declare("", exclusive=True, callback=lambda _frame: None)
            for number in range(200):
                channel.basic_publish("", frame.method.queue, b"%d" % number)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(numbers) == 200:
                done()

        channel.queue_declare("", exclusive=True, callback=on_declared)

    run(broker.parameters, program)
    assert numbers == list(range(200))


def test_the_empty_name_is_the_queue_declared_last_answered_or_not(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 100)
    numbers: dict[str, list[int]] = {"first": [], "second": []}
    queues: list[str] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_declared(frame: Any) -> None:
            queues.extend([frame.method.queue, channel.adaptive_consumers["first"].queue])
            for number in range(100):
                channel.basic_publish("", frame.method.queue, b"%d" % number)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers[method.consumer_tag].append(int(body))
            channel.basic_ack(method.delivery_tag)
            if sum(map(len, numbers.values())) == 200:
                done()

        channel.queue_declare("", exclusive=True, callback=on_declared)
        channel.basic_consume("", on_message, consumer_tag="first")
        channel.queue_declare(queue_name, passive=True)
        channel.basic_consume("", on_message, consumer_tag="second")

    run(broker.parameters, program)
    assert queues[0] == queues[1]
    assert numbers == {"first": list(range(100)), "second": list(range(100))}
