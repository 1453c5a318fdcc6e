"""The rest of a channel beside consuming, on asynchronous connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pika
import pytest
from opentelemetry.instrumentation.pika import PikaInstrumentor

from controlmq.clients.pika.wrap import wrap
from tests.live.handled import Handled, assert_empty, left_in
from tests.live.restless import LANES
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, connected, fill


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


def test_what_was_fetched_before_a_recover_is_acknowledged_by_nobody(
    broker: Broker, queue: DeclareQueue, run: Any
) -> None:
    name, other = queue("classic"), queue("classic")
    fill(broker.parameters, name, 6)
    fill(broker.parameters, other, 1)
    handled = Handled()

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=3)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            if len(handled.numbers) == 3:
                channel.basic_recover(requeue=True)
            elif len(handled.numbers) in (6, 9):
                channel.basic_ack(method.delivery_tag, multiple=True)
            if len(handled.numbers) == 9:
                # Answered only where the broker has not closed the channel.
                channel.queue_declare(name, passive=True, callback=lambda _: done())

        channel.basic_get(other, lambda *_: channel.basic_consume(name, on_message))

    run(broker.parameters, program)
    assert handled.numbers == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert left_in(broker, other) == [0]
    assert_empty(broker, name)


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


@pytest.mark.parametrize("ending", ["cancel", "close", "retarget"])
def test_nothing_is_sent_while_a_commit_is_unanswered(
    broker: Broker, queue: DeclareQueue, run: Any, ending: str
) -> None:
    # The broker closes the connection with 504 otherwise. It answers once all is stored.
    source, results = queue("classic"), queue("quorum")
    fill(broker.parameters, source, 12)
    tags: list[int] = []

    def program(channel: Any, done: Callable[[], None]) -> None:
        wrap(channel, prefetch=6, window="lanes", interval=60, max_held=1)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            tags.append(method.delivery_tag)
            if len(tags) == 6:
                channel.adaptive_consumers["mine"].prefetch = 10
            elif len(tags) == 10:
                channel.basic_publish("", results, body, pika.BasicProperties(delivery_mode=2))
                if ending == "cancel":
                    channel.tx_commit()
                    channel.basic_cancel("mine", callback=lambda _frame: done())
                elif ending == "close":
                    channel.tx_commit()
                    done()
                else:
                    channel.tx_commit(callback=lambda _frame: done())
                    # Every slot is occupied, so that a lane would be cancelled at once.
                    channel.adaptive_consumers["mine"].prefetch = 6

        def on_selected(_frame: Any) -> None:
            channel.basic_consume(source, on_message, consumer_tag="mine")

        channel.tx_select(callback=on_selected)

    run(broker.parameters, program)
    broker.management.wait_for_queue(
        results, lambda view: view.messages_ready == 1, "it is committed"
    )
    broker.management.wait_for_queue(source, lambda view: view.messages_ready == 12, "all are back")


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
    "wrapped_first", [False, True], ids=["instrumented first", "wrapped first"]
)
def test_an_instrumented_channel_has_a_window(
    broker: Broker, queue: DeclareQueue, run: Any, wrapped_first: bool
) -> None:
    name = queue("classic")
    fill(broker.parameters, name, 100)
    handled = Handled()
    most_in_flight = 0

    def program(channel: Any, done: Callable[[], None]) -> None:
        if wrapped_first:
            wrap(channel, prefetch=4, interval=60)
        PikaInstrumentor.instrument_channel(channel)
        if not wrapped_first:
            wrap(channel, prefetch=4, interval=60)
        unacked: deque[int] = deque()

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            nonlocal most_in_flight
            handled.note(method, properties, body)
            unacked.append(method.delivery_tag)
            most_in_flight = max(most_in_flight, len(unacked))
            if len(unacked) == 1:
                # What the broker sends meanwhile without a window comes before this timer.
                channel.connection._adapter_call_later(0.02, acknowledge)

        def acknowledge() -> None:
            while unacked:
                channel.basic_ack(unacked.popleft())
            if len(handled.numbers) == 100:
                done()

        channel.basic_consume(name, on_message)

    run(broker.parameters, program)
    handled.assert_each_once_in_order(100)
    assert most_in_flight == 4
