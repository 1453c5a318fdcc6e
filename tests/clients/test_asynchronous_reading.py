"""pika's asynchronous connections read many messages at once: what those behind wait is sensed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from controlmq.clients import channel_runner
from controlmq.clients.channel_runner import Runner
from controlmq.clients.pika import asynchronous
from controlmq.clients.pika.asynchronous import AsynchronousAdapter
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.lanes import Lane

WORK_SECONDS = 0.005
ROUND_TRIP_SECONDS = 0.002
AT_ONCE = 10
"""Messages of one read."""


class Unconnected(AsynchronousAdapter):
    """An adapter whose loop is a list of what is to be called when the read is over."""

    def __init__(self) -> None:
        self.after_read: list[Callable[[], None]] = []
        self._cycle_end_due, self._cycle_from = False, 0.0
        self.runner = Runner(self)
        self.runner.waited = self.waited
        self._channel: Any = SimpleNamespace(_runner=self.runner, is_open=True)

    def send_acks(self, acks: Sequence[Any]) -> None:
        pass

    def open_lane(self, lane: Lane) -> None:
        self.runner.lane_opened(lane)

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        if delay == 0:
            self.after_read.append(callback)
        return callback

    def cancel_timer(self, timer: object) -> None:
        pass


class World:
    """A consumer that gets its window full of messages with each read, and handles them inline."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: float) -> None:
        self.now, self.work, self.tag = 100.0, work, 0
        for module in (channel_runner, asynchronous):
            monkeypatch.setattr(module, "clock", lambda: self.now)
        self.adapter = Unconnected()
        shape = Shape(window="lanes", interval=1000.0)
        self.consumer = Consumer("mine", "orders", float(AT_ONCE), shape, self.now)
        self.adapter.runner.subscribe(self.consumer)
        (lane,) = self.consumer.window.lanes
        self._receive = self.adapter.runner.receiver(lane, self._handle)

    def _handle(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self.now += self.work
        self.adapter.runner.acknowledge(method.delivery_tag, False)

    def read(self, count: int) -> None:
        """One turn of the loop: these messages come, and what was left for its end is done."""
        self.now += ROUND_TRIP_SECONDS
        for _ in range(count):
            self.tag += 1
            method = SimpleNamespace(
                consumer_tag=self.consumer.window.lanes[0].tag,
                delivery_tag=self.tag,
                redelivered=False,
            )
            self._receive(None, method, SimpleNamespace(headers=None, message_id=None), b"")
        due, self.adapter.after_read[:] = list(self.adapter.after_read), []
        for callback in due:
            callback()

    def buffer_time(self) -> float:
        """What the sample that ends now has."""
        self.consumer.now = self.now
        return self.consumer.observe().buffer_time


def test_a_message_waits_for_the_handlers_of_those_read_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, WORK_SECONDS)
    for _ in range(5):
        world.read(AT_ONCE)
    assert world.buffer_time() == pytest.approx((AT_ONCE - 1) / 2 * WORK_SECONDS)


def test_a_message_that_is_read_alone_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, WORK_SECONDS)
    for _ in range(20):
        world.read(1)
    assert world.buffer_time() == 0.0


def test_quick_handlers_need_no_further_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.00001)
    for _ in range(1000):
        world.read(1)  # the first guess of how long a call takes is forgotten
    world.now += ROUND_TRIP_SECONDS
    assert world.adapter.waited(world.now) == 0.0
    assert world.adapter.after_read == []
