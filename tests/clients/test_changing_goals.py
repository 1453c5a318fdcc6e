"""Goals that change while a consumer runs: who puts them in force, and what follows from them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.settings import settings_from
from controlmq.consumer.lanes import Lane
from controlmq.controllers import OpenLoop
from controlmq.errors import InputError
from controlmq.goals import Goals
from controlmq.loop import Sample, Step
from controlmq.model import ArxModel

MODEL = ArxModel(a=0.1, b=45.0, c=0.0, interval=60.0, linear_range=(0.5, 9.0))
"""At prefetch 4 it expects 200 messages/second."""


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


def test_a_shared_rate_has_no_goal_beside_it_later_either() -> None:
    """Everybody would hold the goal by itself, and nobody would say that."""
    _, consumer = running(at_most=100, shared="orders")
    with pytest.raises(InputError, match=r"shared='orders' is for at_most, .* and no goal"):
        consumer.goal = 50
    assert consumer.goals == Goals(at_most=100)


def test_control_that_has_ended_takes_no_goals_and_says_why() -> None:
    _, consumer = running(goal=200)
    consumer.end_control()
    with pytest.raises(InputError, match="control of consumer tag has ended"):
        consumer.goal = 50
    _, fixed = running(prefetch=10)
    with pytest.raises(InputError, match="is fixed; wrap without prefetch="):
        fixed.goal = 50


def test_goals_of_a_consumer_whose_channel_is_closed_are_kept_for_the_next() -> None:
    client, consumer = running(goal=200)
    client.runner.stop()
    set_elsewhere(consumer, Goals(goal=50))
    assert client.waiting == []
    assert consumer.goals == Goals(goal=50)


def turned(consumer: ControlledConsumer, handler_time: float = 0.005) -> Step:
    """One turn of the loop after an interval with 200 messages/second."""
    sample = Sample(
        number=1,
        time=1.0,
        interval=1.0,
        prefetch=consumer.prefetch,
        arrivals=200,
        handler_time=handler_time,
        handlers=4,  # one alone congests nothing
    )
    with patch.object(consumer.plant, "observe", lambda: sample):
        consumer.turn()
    assert consumer.last is not None
    return consumer.last


def test_a_goal_that_is_taken_away_is_gone() -> None:
    _, consumer = running(goal=200)
    assert consumer.goal == turned(consumer).goal == 200
    consumer.goals = Goals(at_most=50)
    assert math.isnan(consumer.goal)
    assert math.isnan(turned(consumer).goal)


def test_a_controller_takes_further_goals_without_a_bump_and_gives_them_up_again() -> None:
    _, consumer = running(goal=200, model=MODEL)
    assert turned(consumer).prefetch == pytest.approx(4.0)
    consumer.goals = Goals(goal=200, buffer_time=0.1, protect=True)
    assert turned(consumer).prefetch == pytest.approx(4.0)
    for _ in range(5):  # a cut follows a reading of several samples
        turned(consumer, handler_time=0.05)
    assert turned(consumer, handler_time=0.05).prefetch < 3.9
    before = consumer.prefetch
    consumer.goals = Goals(goal=200)
    assert turned(consumer, handler_time=0.05).prefetch == pytest.approx(before)


@pytest.mark.parametrize("goals", [Goals(goal=200), Goals(goal=200, protect=True)])
def test_a_controller_needs_a_goal_later_too(goals: Goals) -> None:
    _, consumer = running(goal=200, protect=goals.protect, model=MODEL)
    for without in (Goals(), Goals(at_most=50), Goals(buffer_time=0.1)):
        with pytest.raises(InputError, match="orders has no goal; give one"):
            consumer.goals = without
    with pytest.raises(InputError, match="orders has no goal; give one"):
        consumer.goal = None
    assert consumer.goals == goals
    assert consumer.goal == turned(consumer).goal == 200


def test_a_plan_needs_no_goal() -> None:
    _, consumer = running(controller=OpenLoop([4.0, 5.0]))
    consumer.goals = Goals(at_most=50)
    assert bound(consumer) == pytest.approx(50)


def test_a_law_does_not_wind_up_above_the_slots_of_a_single_subscription() -> None:
    """As where the queue turns out to have a single active consumer."""
    _, consumer = running(700, model=MODEL)
    consumer.plant.be_single("a further consumer gets nothing")
    slots = consumer.plant.window.granted
    assert slots == 4
    consumer.loop.plant.actuate(18.0)
    assert consumer.prefetch == slots
    consumer.loop.plant.actuate(2.5)
    assert consumer.prefetch == 2.5
