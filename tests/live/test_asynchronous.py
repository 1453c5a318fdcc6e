"""pika's own idioms through the wrapper, on asynchronous connections."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

from controlmq.rabbitmq import unwrap, wrap
from tests.live.handled import Handled, assert_empty
from tests.live.plain_consumer import PLAIN_CONSUMER
from tests.live.restless import LANES
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, connected, fill
from tests.testbed.wire import qos_calls

Program = Callable[[Any, Callable[[], None]], None]
"""What a test does with an open channel, and what it calls when it is done."""

DEADLINE = 90.0
"""Seconds for what takes one or two."""


def run_select(parameters: Any, program: Program) -> Any:
    """Run ``program`` on a channel of a ``SelectConnection`` and return why it closed."""
    reasons: list[Any] = []

    def on_close(connection: Any, reason: Any) -> None:
        reasons.append(reason)
        connection.ioloop.stop()

    connection = pika.SelectConnection(
        parameters,
        on_open_callback=lambda connection: connection.channel(
            on_open_callback=lambda channel: program(channel, connection.close)
        ),
        on_open_error_callback=on_close,
        on_close_callback=on_close,
    )
    timer = connection.ioloop.call_later(DEADLINE, connection.ioloop.stop)
    connection.ioloop.start()
    connection.ioloop.remove_timeout(timer)
    assert reasons, f"not done after {DEADLINE:g} s"
    return reasons[0]


def run_asyncio(parameters: Any, program: Program) -> Any:
    """The same on an ``AsyncioConnection``."""

    async def run() -> Any:
        closed = asyncio.get_running_loop().create_future()
        AsyncioConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(
                on_open_callback=lambda channel: program(channel, connection.close)
            ),
            on_open_error_callback=lambda _, reason: closed.set_result(reason),
            on_close_callback=lambda _, reason: closed.set_result(reason),
        )
        return await asyncio.wait_for(closed, DEADLINE)

    return asyncio.run(run())


@pytest.fixture(params=[run_select, run_asyncio], ids=["select", "asyncio"])
def run(request: pytest.FixtureRequest) -> Any:
    """Runs a program; pika closes the connection if a callback raises, which must not pass."""

    def run(
        parameters: Any,
        program: Program,
        closes: type[Exception] = pika.exceptions.ConnectionClosedByClient,
    ) -> None:
        reason = request.param(parameters, program)
        assert isinstance(reason, closes), repr(reason)

    return run


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_late_acks_in_any_order(broker: Broker, queue: DeclareQueue, run: Any, kind: Any) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 600)
    handled, draw, acked = Handled(), random.Random(7), 0

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            assert method.consumer_tag == "mine"
            channel.connection.ioloop.call_later(
                draw.uniform(0, 0.005), lambda: ack(method.delivery_tag)
            )

        def ack(tag: int) -> None:
            nonlocal acked
            channel.basic_ack(tag)
            acked += 1
            if acked == 600:
                done()

        channel.basic_consume(name, on_message, consumer_tag="mine")

    run(broker.parameters, program)
    handled.assert_each_once_in_order(600)
    assert_empty(broker, name)


def test_quick_handlers_that_acknowledge_at_once(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 3000)
    handled = Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=50)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            channel.basic_ack(method.delivery_tag)
            if len(handled.numbers) == 3000:
                done()

        channel.basic_consume(queue_name, on_message)

    run(broker.parameters, program)
    handled.assert_each_once_in_order(3000)
    assert_empty(broker, queue_name)


def test_cancelling_answers_once_with_the_users_tag(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 300)
    answers: list[tuple[str, str]] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            if int(body) == 200:
                channel.basic_cancel("mine", callback=on_cancelled)

        def on_consuming(frame: Any) -> None:
            answers.append(("consuming", frame.method.consumer_tag))

        def on_cancelled(frame: Any) -> None:
            answers.append(("cancelled", frame.method.consumer_tag))
            assert channel.consumer_tags == []
            done()

        channel.basic_consume(queue_name, on_message, consumer_tag="mine", callback=on_consuming)

    run(broker.parameters, program)
    assert answers == [("consuming", "mine"), ("cancelled", "mine")]


def test_cancelling_several_lanes_requeues_nothing(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 40)
    tags: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=2, interval=60, window="lanes")

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            tags.append(method.delivery_tag)
            consumer = channel.adaptive_consumers["mine"]
            if len(tags) in (2, 4):
                consumer.prefetch += 2
            elif len(tags) == 6:
                # Every slot is occupied, so nothing can be on the way when the lanes go.
                consumer.prefetch = 1
                for tag in tags[1:]:
                    channel.basic_ack(tag)
                assert len(consumer.window.subscribed) == 3
                assert consumer.held == 5
                channel.basic_cancel("mine", callback=on_cancelled)

        def on_cancelled(_frame: Any) -> None:
            channel.basic_ack(tags[0])
            done()

        channel.basic_consume(queue_name, on_message, consumer_tag="mine")

    run(broker.parameters, program)
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        rest = [channel.basic_get(queue_name) for _ in range(34)]
    assert [int(body) for _, _, body in rest] == list(range(6, 40))
    assert not any(method.redelivered for method, _, _ in rest)


def test_a_deleted_queue_is_told_once(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 300)
    told: list[str] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        def on_cancel(frame: Any) -> None:
            told.append(frame.method.consumer_tag)
            channel.connection.ioloop.call_later(0.2, done)

        channel.add_on_cancel_callback(on_cancel)
        wrap(channel, prefetch=2)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if int(body) == 1:
                channel.adaptive_consumers["mine"].prefetch = 6
            elif int(body) == 5:
                broker.management.delete_queue(queue_name)

        channel.basic_consume(queue_name, on_message, consumer_tag="mine")

    run(broker.parameters, program)
    assert told == ["mine"]


def test_fetching_publishing_confirming_and_refusing(
    broker: Broker, queue: DeclareQueue, run: Any
) -> None:
    source, results = queue("classic"), queue("classic")
    fill(broker.parameters, source, 101)
    confirmed = 0
    numbers: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)

        def on_confirm(_frame: Any) -> None:
            nonlocal confirmed
            confirmed += 1

        def on_fetched(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)
            channel.basic_consume(source, on_message)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            number = int(body)
            if number % 2 and not method.redelivered:
                channel.basic_nack(method.delivery_tag)
                return
            numbers.append(number)
            channel.basic_publish("", results, body)
            channel.basic_ack(method.delivery_tag)
            if len(numbers) == 101:
                done()

        channel.confirm_delivery(on_confirm)
        channel.basic_get(source, on_fetched)

    run(broker.parameters, program)
    assert sorted(numbers) == list(range(101))
    assert_empty(broker, source)
    broker.management.wait_for_queue(results, lambda view: view.messages_ready == 100, "all are in")


def test_transactions(broker: Broker, queue: DeclareQueue, run: Any) -> None:
    source, results = queue("classic"), queue("classic")
    fill(broker.parameters, source, 60)
    handled = Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, **LANES)
        waiting: deque[tuple[int, bytes]] = deque()
        at_work = False

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            waiting.append((method.delivery_tag, body))
            if not at_work:
                work()

        def work(_frame: Any = None) -> None:
            """One message, one transaction, after the answer to the one before."""
            nonlocal at_work
            at_work = bool(waiting)
            if waiting:
                answer_for(*waiting[0])
                if int(waiting[0][1]) % 10 == 5:
                    channel.tx_rollback(callback=once_more)
                else:
                    commit()

        def once_more(_frame: Any) -> None:
            answer_for(*waiting[0])
            commit()

        def answer_for(tag: int, body: bytes) -> None:
            channel.basic_publish("", results, body)
            channel.basic_ack(tag)

        def commit() -> None:
            waiting.popleft()
            ended = len(handled.numbers) == 60 and not waiting
            channel.tx_commit(callback=(lambda _frame: done()) if ended else work)

        channel.tx_select(callback=lambda _frame: channel.basic_consume(source, on_message))

    run(broker.parameters, program)
    handled.assert_each_once_in_order(60)
    assert_empty(broker, source)
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        committed = [int(channel.basic_get(results, auto_ack=True)[2]) for _ in range(60)]
        assert channel.basic_get(results)[0] is None
    assert committed == list(range(60))


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


@pytest.mark.parametrize("closing", ["channel", "connection"])
def test_closing_from_the_callback_sends_what_was_held(
    broker: Broker, queue_name: str, run: Any, closing: str
) -> None:
    fill(broker.parameters, queue_name, 5)

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=0.01)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            if closing == "channel":
                channel.add_on_close_callback(lambda _channel, _reason: done())
                channel.close()
            else:
                done()

        channel.basic_consume(queue_name, on_message)

    run(broker.parameters, program)
    with connected(broker.parameters) as again:
        declared = again.channel().queue_declare(queue_name, passive=True)
        assert declared.method.message_count == 4


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
                shapes.append(channel.adaptive_consumers["mine"].shape)
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


def test_the_limit_is_never_set_for_all_consumers_at_once(
    broker: Broker, queue_name: str, run: Any
) -> None:
    fill(broker.parameters, queue_name, 300)
    handled = Handled()
    granted: list[int] = []
    with broker.proxied(record=True) as proxy:

        def program(channel: Any, done: Callable[[], None]) -> None:
            def on_step(_step: Any) -> None:
                (consumer,) = channel.adaptive_consumers.values()
                granted.append(consumer.window.granted)
                if len(granted) >= 12 and max(granted) > 2 and len(handled.numbers) == 300:
                    done()

            wrap(channel, **LANES, on_step=on_step)

            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                handled.note(method, properties, body)
                channel.basic_ack(method.delivery_tag)

            channel.basic_consume(queue_name, on_message)

        run(proxy.parameters, program)
        calls = qos_calls(proxy.recorded()[0])
    handled.assert_each_once_in_order(300)
    assert len(calls) > 1
    assert not any(call.all_consumers for call in calls)


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


def test_unwrapping_while_consuming(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 300)
    handled = Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=2.5)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if handled.note(method, properties, body) == 100:
                unwrap(channel)
                assert type(channel) is pika.channel.Channel
            channel.basic_ack(method.delivery_tag)
            if len(handled.numbers) == 300:
                done()

        channel.basic_consume(queue_name, on_message)

    run(broker.parameters, program)
    handled.assert_each_once_in_order(300)
    assert_empty(broker, queue_name)


def test_connection_loss_surfaces_as_in_pika(broker: Broker, queue_name: str, run: Any) -> None:
    fill(broker.parameters, queue_name, 300)
    with broker.proxied() as proxy:

        def program(channel: Any, done: Callable[[], None]) -> None:
            wrap(channel, **LANES)

            def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                channel.basic_ack(method.delivery_tag)
                if int(body) == 100:
                    proxy.cut()

            channel.basic_consume(queue_name, on_message)

        run(proxy.parameters, program, pika.exceptions.AMQPConnectionError)
