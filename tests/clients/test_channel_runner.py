"""Who runs a core, and that its timer is always set."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from controlmq.clients.channel_runner import Runner, clock
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.lanes import Lane


class Client:
    """A client whose broker confirms every lane at once; it notes which threads it is called by."""

    def __init__(self) -> None:
        self.runner: Runner
        self.timer: Callable[[], None] | None = None
        self.threads: set[int] = set()
        self.waiting: list[Callable[[], None]] = []
        self.sent: list[Sequence[Any]] = []

    def __getattr__(self, name: str) -> Any:
        """Everything else of an adapter does nothing here."""
        return lambda *_: None

    def open_lane(self, lane: Lane) -> None:
        self.threads.add(threading.get_ident())
        self.runner.lane_opened(lane)

    def send_acks(self, acks: Sequence[Any]) -> None:
        self.threads.add(threading.get_ident())
        self.sent.append(acks)

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        self.threads.add(threading.get_ident())
        self.timer = callback
        return callback

    def cancel_timer(self, timer: object) -> None:
        self.threads.add(threading.get_ident())
        self.timer = None

    def call_threadsafe(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.runner = Runner(client)  # type: ignore[arg-type]
    return client


def consumer_of(client: Client, interval: float = 60.0) -> Consumer:
    shape = Shape(window="lanes", interval=interval)
    consumer = Consumer("tag", "queue", 4.0, shape, clock())
    client.runner.subscribe(consumer)
    return consumer


def test_another_thread_that_sets_the_prefetch_touches_nothing(client: Client) -> None:
    consumer = consumer_of(client)
    other = threading.Thread(target=client.runner.retarget, args=(consumer, 9.0))
    other.start()
    other.join()
    assert client.threads == {threading.get_ident()}
    assert consumer.window.target == 4
    (callback,) = client.waiting
    callback()
    client.runner.wake(clock())
    assert (consumer.window.target, consumer.window.granted) == (9, 9)


def test_the_thread_of_the_connection_sets_the_prefetch_at_once(client: Client) -> None:
    consumer = consumer_of(client)
    client.runner.retarget(consumer, 9.0)
    assert consumer.window.target == 9
    assert client.waiting == []


def test_a_turn_that_is_interrupted_sets_its_timer_again(client: Client) -> None:
    consumer = consumer_of(client, interval=1e-6)

    def interrupt(_consumer: Consumer) -> None:
        raise KeyboardInterrupt

    client.runner.on_sample = interrupt
    timer = client.timer
    assert timer is not None
    client.timer = None
    with pytest.raises(KeyboardInterrupt):
        timer()
    assert client.timer is not None
    assert consumer.next_sample < math.inf


def test_nothing_is_handed_over_once_the_user_has_cancelled(client: Client) -> None:
    consumer = Consumer("tag", "queue", 4.0, Shape(window="lanes", interval=60), clock())
    consumer.pace(1000.0, 4.0)
    runner = client.runner
    runner.subscribe(consumer)
    (lane,) = consumer.window.lanes
    handed_over: list[int] = []

    def deliver(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handed_over.append(method.delivery_tag)
        if len(handed_over) == 2:
            client.open_lane = lambda lane: None  # type: ignore[method-assign]
            runner.retarget(consumer, 8.0)
            runner.wake(clock())
            assert consumer.pending is not None, "the cancels wait for the answer to this lane"
            runner.cancel(consumer)

    for tag in range(1, 5):
        method = SimpleNamespace(delivery_tag=tag)
        runner.core.arrived(lane, tag, clock(), partial(deliver, None, method, None, b""))
    assert client.timer is not None
    client.timer()
    assert handed_over == [1, 2]


def test_acks_given_together_are_sent_together_however_long_handlers_take(client: Client) -> None:
    consumer = consumer_of(client)
    core, (lane,) = client.runner.core, consumer.window.lanes
    for tag in (1, 2, 3):
        core.delivered(lane, tag, clock())
    core.longest_call = 1.0
    tags = deque([1, 2, 3])
    client.runner.acknowledge_together(tags)
    assert len(client.sent) == 1
    assert not tags
    assert lane.unacked == 0
