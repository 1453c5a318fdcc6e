"""Goals that change while a consumer runs: who puts them in force, and what follows from them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer, Controllers
from controlmq.clients.settings import settings_from
from controlmq.consumer.lanes import Lane
from controlmq.goals import Goals


class Client:
    """A client whose broker confirms every lane at once; it notes which threads it is called by."""

    def __init__(self) -> None:
        self.runner = Runner(self)  # type: ignore[arg-type]
        self.threads: set[int] = set()
        self.waiting: list[Callable[[], None]] = []
        self.logs: list[str] = []

    def __getattr__(self, name: str) -> Any:
        """Everything else of an adapter does nothing here, nor does a log."""
        self.threads.add(threading.get_ident())
        return lambda *_: None

    def open_lane(self, lane: Lane) -> None:
        self.runner.lane_opened(lane)

    def open_log(self, stream: str, _shared: object) -> Any:
        self.threads.add(threading.get_ident())
        self.logs.append(stream)
        return self

    def call_threadsafe(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)


def running(*given: Any, **settings: Any) -> tuple[Client, ControlledConsumer]:
    """A consumer that has subscribed."""
    client = Client()
    checked = settings_from(*given, **settings, interval=60)
    controller = Controllers().new(checked, "orders")
    consumer = ControlledConsumer("tag", "orders", checked, controller, 4.0, client.runner)
    client.runner.subscribe(consumer.plant)
    consumer.join()
    return client, consumer


def set_elsewhere(consumer: ControlledConsumer, goals: Goals) -> None:
    """Set the goals in a thread that is not the connection's."""
    other = threading.Thread(target=setattr, args=(consumer, "goals", goals))
    other.start()
    other.join()


def bound(consumer: ControlledConsumer) -> float | None:
    """The rate that a bucket keeps the consumer to."""
    bucket = consumer.plant.gate.bucket
    return float(bucket.rate) if bucket is not None else None


def test_another_thread_that_sets_goals_touches_nothing() -> None:
    client, consumer = running(goal=200)
    set_elsewhere(consumer, Goals(at_most=50))
    assert consumer.goals == Goals(at_most=50)
    assert client.threads == {threading.get_ident()}
    assert bound(consumer) == pytest.approx(200)
    (callback,) = client.waiting
    callback()
    assert bound(consumer) == pytest.approx(50)


def test_another_thread_that_changes_a_shared_rate_touches_neither_core_nor_log() -> None:
    client, consumer = running(at_most=200, shared="orders")
    assert len(client.logs) == 1
    assert consumer.shared is not None
    for goals, rate in ((Goals(at_most=50), 200), (Goals(goal=30), 50)):
        set_elsewhere(consumer, goals)
        assert client.threads == {threading.get_ident()}
        assert consumer.shared.member.goal == rate
        client.waiting.pop()()
    assert bound(consumer) == pytest.approx(30)


def test_goals_of_a_consumer_whose_channel_is_closed_are_kept_for_the_next() -> None:
    client, consumer = running(goal=200)
    client.runner.stop()
    set_elsewhere(consumer, Goals(goal=50))
    assert client.waiting == []
    assert consumer.goals == Goals(goal=50)
