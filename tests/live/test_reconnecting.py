"""A program that connects again: what it had handled is not handled again, and it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

from controlmq.clients.backoff import Backoff
from controlmq.clients.channel_runner import clock
from controlmq.clients.pika.service import Service
from controlmq.clients.pika.wrap import unwrap, wrap
from controlmq.clients.stopping import Stop
from controlmq.controllers import Limits
from controlmq.errors import InputError
from controlmq.loop import Sample
from tests.conformance.drivers import plain_message
from tests.live.handled import assert_empty
from tests.testbed import Broker, wait_until
from tests.testbed.management import DEADLINE
from tests.testbed.proxy import Proxy, proxied
from tests.testbed.publishing import connected, fill, message_body

COUNT, CUT_AFTER = 60, 25
HOLDING: dict[str, Any] = {"prefetch": 3, "window": "single", "limits": Limits(1, 20)}
"""A window that holds the acks of messages that were handled."""

Consume = Callable[[Any, Callable[[Any], None], Callable[[], bool]], None]
"""Consumes until told to stop or the connection is lost: connection parameters, what subscribes a
channel, and whether to stop."""


def blocking(parameters: Any, subscribe: Callable[[Any], None], over: Callable[[], bool]) -> None:
    connection = pika.BlockingConnection(parameters)
    with contextlib.closing(connection):
        subscribe(connection.channel())
        while not over():
            connection.process_data_events(0.1)


def asynchronous(
    kind: Any, parameters: Any, subscribe: Callable[[Any], None], over: Callable[[], bool]
) -> None:
    ends: list[BaseException] = []

    def on_closed(connection: Any, reason: BaseException) -> None:
        ends.append(reason)
        connection.ioloop.stop()

    def look() -> None:
        if connection.is_open and over():
            connection.close()
        else:
            connection.ioloop.call_later(0.02, look)

    def on_open(connection: Any) -> None:
        connection.channel(on_open_callback=subscribe)
        look()

    connection = kind(
        parameters,
        on_open_callback=on_open,
        on_open_error_callback=on_closed,
        on_close_callback=on_closed,
    )
    loop = connection.ioloop
    loop.run_forever() if hasattr(loop, "run_forever") else loop.start()
    if not isinstance(ends[0], pika.exceptions.ConnectionClosedByClient):
        raise ends[0]


def select(parameters: Any, subscribe: Callable[[Any], None], over: Callable[[], bool]) -> None:
    asynchronous(pika.SelectConnection, parameters, subscribe, over)


def with_asyncio(
    parameters: Any, subscribe: Callable[[Any], None], over: Callable[[], bool]
) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        asynchronous(AsyncioConnection, parameters, subscribe, over)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class Program:
    """Handles messages, connects again when a connection is lost, and goes on from it."""

    def __init__(self, consume: Consume, proxy: Proxy, queue: str, **settings: Any) -> None:
        self.handled: list[int] = []
        self.channels: list[Any] = []
        self._consume, self._proxy, self._queue = consume, proxy, queue
        self._settings = settings
        self._deadline = time.monotonic() + DEADLINE
        self.goes_on = True

    def subscribe(self, channel: Any) -> None:
        last = self.channels[-1] if self.channels and self.goes_on else None
        wrap(channel, go_on_from=last, **self._settings)
        self.channels.append(channel)
        channel.basic_consume(self._queue, self._on_message)

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.handled.append(int(body))
        if len(self.handled) == CUT_AFTER:
            self._proxy.cut()
        channel.basic_ack(method.delivery_tag)

    def run(self) -> None:
        """Until every message is handled and acknowledged."""
        for _ in range(3):
            with contextlib.suppress(pika.exceptions.AMQPError, OSError):
                self._consume(self._proxy.parameters, self.subscribe, self._over)
                return
        raise AssertionError("the connection was lost more than once")

    def _over(self) -> bool:
        assert time.monotonic() < self._deadline, "some are handled by nobody"
        return len(set(self.handled)) == COUNT


@pytest.mark.parametrize("consume", [blocking, select, with_asyncio])
def test_what_was_handled_on_a_lost_connection_is_not_handled_again(
    broker: Broker, queue_name: str, consume: Consume
) -> None:
    fill(broker.parameters, queue_name, COUNT, make=plain_message)
    with broker.proxied() as proxy:
        program = Program(consume, proxy, queue_name, **HOLDING)
        program.run()
    again = Counter(program.handled)
    assert [number for number, times in again.items() if times > 1] == []
    assert_empty(broker, queue_name)


def test_an_ack_that_is_tried_while_its_channel_closes_counts(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 2, make=plain_message)
    handled: list[int] = []
    channels: list[Any] = []

    def subscribe(channel: Any) -> None:
        wrap(channel, go_on_from=channels[-1] if channels else None, **HOLDING)
        channels.append(channel)
        channel.basic_consume(queue_name, on_message)

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        if len(channels) == 1:
            channel.add_on_close_callback(
                lambda closed, _: closed.connection.channel(on_open_callback=subscribe)
            )
            channel.close()
            with pytest.raises(pika.exceptions.ChannelWrongStateError):
                channel.basic_ack(method.delivery_tag)
        else:
            channel.basic_ack(method.delivery_tag)

    select(broker.parameters, subscribe, lambda: 1 in handled)
    assert handled == [0, 1]
    assert_empty(broker, queue_name)


def test_without_going_on_what_was_held_is_handled_again(broker: Broker, queue_name: str) -> None:
    """Else the test above would prove nothing."""
    fill(broker.parameters, queue_name, COUNT, make=plain_message)
    with broker.proxied() as proxy:
        program = Program(blocking, proxy, queue_name, **HOLDING)
        program.goes_on = False
        program.run()
    assert len(program.handled) > COUNT


def test_messages_without_an_id_are_handled_again(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, COUNT)
    with broker.proxied() as proxy:
        program = Program(blocking, proxy, queue_name, **HOLDING)
        program.run()
    assert len(program.handled) > COUNT
    assert program.channels[-1]._acks.out == {}


def test_parts_with_the_id_of_their_whole_are_all_handled(broker: Broker, queue_name: str) -> None:
    def part(number: int) -> tuple[bytes, Any]:
        return message_body(number), pika.BasicProperties(message_id="job-42")

    fill(broker.parameters, queue_name, COUNT, make=part)
    with broker.proxied() as proxy:
        program = Program(blocking, proxy, queue_name, **HOLDING)
        program.run()
    assert sorted(program.handled) == list(range(COUNT))
    assert_empty(broker, queue_name)


def test_acks_that_other_threads_leave_meanwhile_wait_for_the_next_time(
    broker: Broker, connection: Any, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.parameters, queue_name, 2, make=plain_message)
    channel = wrap(connection.channel(), prefetch=2)
    tags: list[int] = []
    channel.basic_consume(queue_name, lambda _c, method, *_: tags.append(method.delivery_tag))
    wait_until(lambda: connection.process_data_events(0.1) or len(tags) == 2, "both are here")
    left, acknowledged = deque(tags[:1]), channel._acks.acknowledged

    def another_thread_too(*given: Any) -> None:
        acknowledged(*given)
        left.append(tags[1])

    monkeypatch.setattr(channel._acks, "acknowledged", another_thread_too)
    channel.acknowledge_together(left)
    assert list(left) == tags[1:]
    assert list(channel._acks.out) == tags[1:]


def test_a_message_that_was_given_back_is_handled_again(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 20, make=plain_message)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        if int(body) % 5 or method.redelivered:
            channel.basic_ack(method.delivery_tag)
        else:
            channel.basic_nack(method.delivery_tag, requeue=True)

    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), **HOLDING)
        channel.basic_consume(queue_name, on_message)
        wait_until(
            lambda: connection.process_data_events(0.1) or len(handled) == 24, "all are handled"
        )
        assert channel._acks.out == {}
        channel.close()
    assert Counter(handled) == Counter(range(20)) + Counter(range(0, 20, 5))
    assert_empty(broker, queue_name)


def test_a_service_handles_nothing_again_that_it_had_handled(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, COUNT, make=plain_message)
    handled: list[int] = []
    stop = Stop()

    with broker.proxied() as proxy:

        def handle(body: bytes, properties: Any) -> None:
            handled.append(int(body))
            if len(handled) == CUT_AFTER:
                proxy.cut()

        url = proxied(broker.url, proxy)
        service = Service([url], queue_name, handle, stop=stop, **HOLDING)
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            wait_until(lambda: len(set(handled)) == COUNT, "all are handled")
        finally:
            stop.ask()
            thread.join()
    assert sorted(handled) == list(range(COUNT))
    assert_empty(broker, queue_name)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(
    "outlasts_seconds", [0.2, 2.0], ids=["until the pause", "until the next connection"]
)
def test_a_handler_that_outlasts_its_connection_is_not_called_again(
    broker: Broker, queue_name: str, workers: int, outlasts_seconds: float
) -> None:
    fill(broker.parameters, queue_name, 2 * workers + 8, make=plain_message)
    handled: list[int] = []
    stop = Stop()

    with broker.proxied() as proxy:
        all_at_work = threading.Barrier(workers, proxy.cut)

        def handle(body: bytes, properties: Any) -> None:
            handled.append(int(body))
            if handled.count(int(body)) == 1 and int(body) < workers:
                all_at_work.wait(10)
                time.sleep(outlasts_seconds)

        url = proxied(broker.url, proxy)
        service = Service([url], queue_name, handle, stop=stop, workers=workers, prefetch=workers)
        service._pause = Backoff(1.0, 1.0)
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            broker.management.wait_for_queue(
                queue_name,
                lambda view: view.messages_ready == view.messages_unacknowledged == 0,
                "all are handled",
            )
        finally:
            stop.ask()
            thread.join()
    assert sorted(handled) == list(range(2 * workers + 8))
    assert not service._dispatcher._abandoned


def test_a_handler_that_fails_after_its_connection_is_called_again(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 1, make=plain_message)
    handled: list[int] = []
    stop = Stop()

    with broker.proxied() as proxy:

        def handle(body: bytes, properties: Any) -> None:
            handled.append(int(body))
            if len(handled) == 1:
                proxy.cut()
                time.sleep(1.0)
                raise ValueError("it was for nothing")
            stop.ask()

        url = proxied(broker.url, proxy)
        Service([url], queue_name, handle, stop=stop, on_error="requeue", prefetch=1).run()
    assert handled == [0, 0]
    assert_empty(broker, queue_name)


class Counting:
    """A controller that remembers how often it was asked."""

    def __init__(self) -> None:
        self.prefetch: list[float] = []

    def __call__(self, sample: Sample, goal: float) -> float:
        self.prefetch.append(sample.prefetch)
        return 3 + len(self.prefetch) % 8


def test_prefetch_controller_and_goal_go_on_where_they_were(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 20_000)
    law = Counting()
    words: dict[str, Any] = {"goal": 100, "prefetch": 1, "interval": 0.05}
    channels: list[Any] = []
    for asked in (5, 10):
        with broker.proxied() as proxy, connected(proxy.parameters) as connection:
            last = channels[-1] if channels else None
            channel = wrap(connection.channel(), controller=law, go_on_from=last, **words)
            channels.append(channel)
            tag = channel.basic_consume(queue_name, lambda c, m, *_: c.basic_ack(m.delivery_tag))
            consumer = channel.adaptive_consumers[tag]
            wait_until(
                lambda: connection.process_data_events(0.05) or len(law.prefetch) >= asked,  # noqa: B023
                "the law was asked",
            )
            if len(channels) == 1:
                consumer.goal = 250
                proxy.cut()
                with contextlib.suppress(pika.exceptions.AMQPError):
                    while True:
                        connection.process_data_events(0.1)
    assert law.prefetch[0] == 1
    # Every sample has what the law wanted in the one before, whatever the connection.
    assert law.prefetch[1:] == [3 + call % 8 for call in range(1, len(law.prefetch))]
    assert consumer.goal == 250


def test_what_is_no_wrapped_channel_is_refused(broker: Broker) -> None:
    with connected(broker.parameters) as connection:
        first, second = connection.channel(), connection.channel()
        with pytest.raises(InputError, match="cannot go on from a BlockingChannel"):
            wrap(first, go_on_from=second)
        assert type(first) is type(second)


def test_a_channel_that_is_open_and_consumes_is_not_gone_on_from(
    broker: Broker, queue_name: str
) -> None:
    with connected(broker.parameters) as connection:
        first = wrap(connection.channel(), **HOLDING)
        first.basic_consume(queue_name, print)
        with pytest.raises(InputError, match="open and consumes"):
            wrap(connection.channel(), go_on_from=first)
        first.stop_consuming()
        wrap(connection.channel(), go_on_from=first)


@pytest.mark.parametrize("lanes", [1, 2])
def test_an_unwrapped_channel_has_nothing_to_go_on_from(
    broker: Broker, queue_name: str, lanes: int
) -> None:
    with connected(broker.parameters) as connection:
        first = wrap(connection.channel(), prefetch=2, window="lanes")
        tag = first.basic_consume(queue_name, print)
        if lanes > 1:
            consumer = first.adaptive_consumers[tag]
            consumer.prefetch = 8
            wait_until(
                lambda: (
                    connection.process_data_events(0.05)
                    or len(consumer.plant.window.subscribed) == lanes
                ),
                "it has lanes",
            )
        unwrap(first)
        first.close()
        again = wrap(connection.channel(), go_on_from=first, prefetch=3, goal=100)
        tag = again.basic_consume(queue_name, print)
        assert again.adaptive_consumers[tag].prefetch == 3
        assert again.adaptive_consumers[tag].adapts


def acknowledge(channel: Any, method: Any, properties: Any, body: bytes) -> None:
    channel.basic_ack(method.delivery_tag)


def test_channels_before_the_last_are_forgotten(broker: Broker, queue_name: str) -> None:
    channels: list[weakref.ref[Any]] = []
    channel = None
    for _ in range(5):
        with connected(broker.parameters) as connection:
            channel = wrap(connection.channel(), go_on_from=channel, **HOLDING)
            channels.append(weakref.ref(channel))
            mine = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", mine, b"1", pika.BasicProperties(message_id="m1"))
            channel.basic_publish("", queue_name, b"1", pika.BasicProperties(message_id="m1"))
            for queue in (mine, queue_name):
                channel.basic_consume(queue, acknowledge)
            connection.process_data_events(0.2)
            # As when the connection is lost: nothing is known to have arrived.
            channel._acks.end(clock(), have_arrived=False)
    assert channel is not None
    del connection
    gc.collect()
    alive = [each() for each in channels]
    assert alive[:-1] == [None] * 4
    assert channel._before == []
    assert [key[0] for key in channel._acks.lost] == [queue_name]  # type: ignore[index]


def test_a_channel_that_subscribes_again_and_again_does_not_grow(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 10, make=plain_message)
    channel = wrap(connection.channel(), **HOLDING)

    def entries() -> int:
        books = (vars(channel), vars(channel._acks), vars(channel._runner))
        return sum(len(each) for own in books for each in own.values() if type(each) is dict)

    sizes = []
    for _ in range(20):
        for method, _properties, _body in channel.consume(queue_name, inactivity_timeout=0.02):
            if method is None:
                break
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
        sizes.append(entries())
    assert sizes[-1] == sizes[1]


def test_a_subscription_that_was_interrupted_leaves_nothing_behind(
    broker: Broker, connection: Any, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_queue: str) -> None:
        raise KeyboardInterrupt

    channel = wrap(connection.channel(), **HOLDING)
    monkeypatch.setattr(channel, "_known_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        channel.basic_consume(queue_name, acknowledge)
    monkeypatch.undo()
    assert channel._consumers_by_tag == {}
    channel.basic_consume(queue_name, acknowledge)
    channel.close()
