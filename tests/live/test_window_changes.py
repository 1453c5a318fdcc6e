"""The window on a real broker: whatever changes, nothing is lost, requeued or over-delivered."""

from __future__ import annotations

import contextlib
import math
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pika
import pytest

from controlmq.clients.controlled_consumer import ControlledConsumer as Consumer
from controlmq.clients.pika.wrap import wrap
from controlmq.loop import Sample
from tests.live.handled import Handled, assert_empty
from tests.live.restless import LANES
from tests.testbed import Broker
from tests.testbed.publishing import (
    DeclareQueue,
    Publisher,
    QueueKind,
    connected,
    fill,
    process_until,
)
from tests.testbed.wire import qos_calls

CHANGES = 1000
LARGEST_PREFETCH = 24
"""Messages that the random changes ask for at most."""

INTERVAL = 0.01
"""Seconds between two changes."""


class RandomWindow:
    """A controller that goes anywhere, and notes on its way where too much was granted.

    It only notes: what a controller raises, the loop survives.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.changes = 0
        self.consumer: Consumer | None = None
        self.granted = 0
        self.violations: list[str] = []

    def __call__(self, sample: Sample, goal: float) -> float:
        assert self.consumer is not None
        window = self.consumer.plant.window
        self.check()
        self.granted = window.granted
        self.changes += 1
        targets = [0.4, 1, LARGEST_PREFETCH, self.draw.uniform(0.2, LARGEST_PREFETCH)]
        return self.draw.choice([target for target in targets if target != window.target])

    def check(self) -> None:
        """Granted and in flight are within the target, or what was granted when it dropped.

        A lane of one slot may be open beside the only other one, which it is to replace.
        """
        assert self.consumer is not None
        window = self.consumer.plant.window
        sizes = sorted(lane.size for lane in window.subscribed)
        bound = max(math.ceil(window.target), self.granted) + (len(sizes) == 2 and sizes[0] == 1)
        for name, value in (("granted", window.granted), ("in flight", self.consumer.in_flight)):
            if value > bound:
                self.violations.append(f"{value} {name} with a bound of {bound}")


class Handlers:
    """Acknowledge at once, late and out of order, in batches, and from threads."""

    def __init__(self, channel: Any, draw: random.Random, pool: ThreadPoolExecutor) -> None:
        self.channel = channel
        self.connection = channel.connection
        self.draw = draw
        self.pool = pool
        self.waiting: list[int] = []
        self.out: set[int] = set()
        self.acked = 0

    def __call__(self, number: int, tag: int) -> None:
        self.out.add(tag)
        way = [self._at_once, self._late, self._in_a_thread, self._in_a_batch][number // 50 % 4]
        way(tag)

    def _ack(self, tag: int) -> None:
        self.out.remove(tag)
        self.acked += 1
        self.channel.basic_ack(tag)

    def _at_once(self, tag: int) -> None:
        self._ack(tag)

    def _late(self, tag: int) -> None:
        self.waiting.append(tag)
        self.connection.call_later(self.draw.uniform(0, 0.01), self._ack_any_waiting)

    def _ack_any_waiting(self) -> None:
        self._ack(self.waiting.pop(self.draw.randrange(len(self.waiting))))

    def _in_a_thread(self, tag: int) -> None:
        pause = threading.Event()
        seconds = self.draw.uniform(0, 0.005)

        def work() -> None:
            pause.wait(seconds)
            self.connection.add_callback_threadsafe(partial(self._ack, tag))

        self.pool.submit(work)

    def _in_a_batch(self, tag: int) -> None:
        self.connection.call_later(0, partial(self._ack_up_to, tag))

    def _ack_up_to(self, tag: int) -> None:
        if tag not in self.out:
            return
        older = {each for each in self.out if each <= tag}
        if older & set(self.waiting) or min(self.out) < tag - 50:
            self._ack(tag)
        elif self._all_in_batches(older):
            self.out -= older
            self.acked += len(older)
            self.channel.basic_ack(tag, multiple=True)
        else:
            self._ack(tag)

    def _all_in_batches(self, tags: set[int]) -> bool:
        return all(self._way_of(tag) is Handlers._in_a_batch for tag in tags)

    def _way_of(self, tag: int) -> Callable[..., None]:
        # Delivery tags count from 1 and numbers from 0 on a queue consumed in order.
        ways = [
            Handlers._at_once,
            Handlers._late,
            Handlers._in_a_thread,
            Handlers._in_a_batch,
        ]
        return ways[(tag - 1) // 50 % 4]


@contextmanager
def watched(broker: Broker, queue: str) -> Iterator[list[int]]:
    """The unacknowledged messages of a queue, as the broker counts them all the while."""
    seen: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            # A busy machine may fail to answer once in a while.
            with contextlib.suppress(OSError):
                view = broker.management.queue(queue)
                if view is not None:
                    seen.append(view.messages_unacknowledged)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        stop.set()
        watcher.join()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_thousand_changes_lose_requeue_and_overdeliver_nothing(
    broker: Broker, queue: DeclareQueue, kind: QueueKind
) -> None:
    name = queue(kind)
    draw = random.Random(2026)
    handled, controller = Handled(), RandomWindow(draw)
    in_flight = 0
    published: int | None = None
    publisher = Publisher(broker.url, name, phases=[(0.2, 1500), (0.1, 0), (0.02, 20000)])
    with publisher, watched(broker, name) as unacked, ThreadPoolExecutor(4) as pool:
        connection = pika.BlockingConnection(broker.parameters)
        channel = wrap(
            connection.channel(), 100, controller, interval=INTERVAL, prefetch=3, max_hold=1
        )
        handlers = Handlers(channel, draw, pool)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            nonlocal in_flight
            assert method.consumer_tag == tag
            assert controller.consumer is not None
            in_flight = max(in_flight, controller.consumer.in_flight)
            controller.check()
            handlers(handled.note(method, properties, body), method.delivery_tag)

        tag = channel.basic_consume(name, on_message)
        controller.consumer = channel.adaptive_consumers[tag]
        controller.granted = controller.consumer.plant.window.granted
        while published is None or handlers.acked < published:
            connection.process_data_events(time_limit=0.05)
            if controller.changes >= CHANGES and published is None:
                published = publisher.stop()
        connection.close()
    handled.assert_each_once_in_order(published)
    assert_empty(broker, name)
    assert controller.violations == []
    assert in_flight <= LARGEST_PREFETCH + 1
    assert unacked
    assert max(unacked) <= LARGEST_PREFETCH + 1
    assert controller.changes >= CHANGES


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_limit_is_never_set_for_all_consumers_at_once(
    broker: Broker, queue: DeclareQueue, kind: QueueKind
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 400)
    granted: list[int] = []
    with broker.proxied(record=True) as proxy, connected(proxy.parameters) as connection:
        handled = Handled()
        channel = wrap(
            connection.channel(),
            **LANES,
            on_step=lambda _step: granted.append(consumer.plant.window.granted),
        )

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            channel.basic_ack(method.delivery_tag)

        tag = channel.basic_consume(name, on_message)
        consumer = channel.adaptive_consumers[tag]
        process_until(
            connection,
            lambda: len(handled.numbers) == 400 and len(granted) >= 12 and max(granted) > 2,
            "all are handled, and the window has changed",
        )
        connection.close()
        calls = qos_calls(proxy.recorded()[0])
    handled.assert_each_once_in_order(400)
    assert len(calls) > 1
    assert not any(call.all_consumers for call in calls)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_lanes_are_what_the_window_says(
    broker: Broker, queue: DeclareQueue, kind: QueueKind
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 60)
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=2, interval=60)
        unacked: list[int] = []
        tag = channel.basic_consume(
            name, lambda _, method, *__: unacked.append(method.delivery_tag)
        )
        consumer = channel.adaptive_consumers[tag]

        def after(target: float, in_flight: int, prefetch: int) -> None:
            consumer.prefetch = target
            broker.management.wait_for_queue(
                name,
                lambda view: (
                    connection.process_data_events(time_limit=0.05) is None
                    and (view.messages_unacknowledged, view.prefetch) == (in_flight, prefetch)
                ),
                f"{in_flight} unacknowledged in windows of {prefetch}",
            )

        after(2, in_flight=2, prefetch=2)
        after(7, in_flight=7, prefetch=7)
        consumer.plant.plan.linger = 0
        # All slots are occupied by messages in handlers, so the second lane can go at once.
        after(2, in_flight=7, prefetch=2)
        for delivery_tag in unacked[:7]:
            channel.basic_ack(delivery_tag)
        after(2, in_flight=2, prefetch=2)
        after(4, in_flight=4, prefetch=4)
