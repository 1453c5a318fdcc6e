"""What an adapted worker keeps from one connection to the next."""

from __future__ import annotations

import threading
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from controlmq.clients.celery.channel import AdaptiveChannel
from controlmq.clients.celery.worker import LINGER_SECONDS, AdaptiveWorker
from controlmq.clients.channel_runner import Runner, clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.settings import settings_from
from controlmq.consumer.lanes import Lane
from controlmq.loop import Sample


class Uncopied:
    """A controller that cannot be copied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, sample: Sample, goal: float) -> float:
        return sample.prefetch


class NoBroker:
    """An adapter of a client whose every call does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


PREFORK = SimpleNamespace(num_processes=2, is_green=False)
IDLE_GEVENT = SimpleNamespace(num_processes=0, is_green=True, _pool=SimpleNamespace(size=20))


def celery_consumer(pool: Any = PREFORK) -> Any:
    return SimpleNamespace(
        app=SimpleNamespace(tasks={}),
        pool=pool,
        prefetch_multiplier=2,
        qos=SimpleNamespace(value=4),
        task_consumer=SimpleNamespace(queues=["orders"]),
    )


def test_a_controller_that_cannot_be_copied_goes_on_after_a_reconnect() -> None:
    controller = Uncopied()
    worker = AdaptiveWorker(celery_consumer(), settings_from(goal=10, controller=controller))
    worker.connected()
    first, _ = worker.new_consumer("a", "orders", None, Runner(NoBroker()))  # type: ignore[arg-type]
    worker.connected()
    second, _ = worker.new_consumer("b", "orders", None, Runner(NoBroker()))  # type: ignore[arg-type]
    assert second is not first
    assert second.law is first.law is controller


def test_a_pool_of_greenlets_is_as_large_as_it_may_become() -> None:
    assert AdaptiveWorker(celery_consumer(), settings_from()).load.size() == 2
    assert AdaptiveWorker(celery_consumer(IDLE_GEVENT), settings_from()).load.size() == 20


class OneLaneEach(NoBroker):
    """A client whose broker confirms one lane of each queue and answers no further one."""

    def __init__(self) -> None:
        self.asked: list[Lane] = []

    def open_lane(self, lane: Lane) -> None:
        first = lane.consumer.queue not in [each.consumer.queue for each in self.asked]
        self.asked.append(lane)
        if first:
            self.runner.lane_opened(lane)

    def connect(self, worker: AdaptiveWorker, queues: list[str]) -> list[ControlledConsumer]:
        """A new connection of the worker, with consumers of these queues."""
        self.runner = Runner(self)  # type: ignore[arg-type]
        worker.connected()
        consumers = []
        for queue in queues:
            last = worker.last_of(queue)
            consumer, _ = worker.new_consumer(queue, queue, None, self.runner)
            self.runner.subscribe(consumer.plant)
            worker.go_on(consumer, last)
            consumers.append(consumer)
        worker.split_prefetch(consumers)
        return consumers

    def grow(self, consumer: ControlledConsumer, prefetch: int) -> None:
        """Its queue has shown that it can have lanes, and Celery asks for more."""
        consumer.plant.first_message({})
        consumer.prefetch = prefetch
        self.runner.wake(clock())


def test_a_fixed_prefetch_gives_up_lanes_that_end_its_connections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = AdaptiveWorker(celery_consumer(), settings_from(interval=60))
    asked = []
    for _ in range(4):
        client = OneLaneEach()
        (consumer,) = client.connect(worker, ["orders"])
        client.grow(consumer, 8)
        asked.append(len(client.asked))
    assert asked == [2, 2, 1, 1]
    assert "ends the connection when a further consumer is added" in caplog.text


def test_queues_that_end_connections_by_turns_give_up_lanes_together() -> None:
    celery = celery_consumer()
    celery.task_consumer.queues = ["orders", "mails"]
    worker = AdaptiveWorker(celery, settings_from(interval=60))
    asked = []
    for number in range(4):
        client = OneLaneEach()
        consumers = client.connect(worker, celery.task_consumer.queues)
        client.grow(consumers[number % 2], 8)
        asked.append(len(client.asked))
    assert asked == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("at_most", "shared"), [(5, True), (MappingProxyType({"orders": 5, "mails": 5}), False)]
)
def test_queues_share_a_bound_that_was_not_given_for_each(at_most: Any, shared: bool) -> None:
    celery = celery_consumer()
    celery.task_consumer.queues = ["orders", "mails"]
    worker = AdaptiveWorker(celery, settings_from(at_most=at_most, interval=60))
    orders, mails = OneLaneEach().connect(worker, celery.task_consumer.queues)
    assert orders.plant.buckets is not None
    assert (orders.plant.buckets[0] is mails.plant.buckets[0]) == shared


def test_the_only_subscription_has_room_for_all_that_celery_will_ask_for() -> None:
    celery = celery_consumer()
    worker = AdaptiveWorker(celery, settings_from(interval=60))
    for _ in range(2):
        client = OneLaneEach()
        (consumer,) = client.connect(worker, ["orders"])
        client.grow(consumer, 8)
    celery.qos.value = 2  # Celery asks for less after a connection was lost
    client = OneLaneEach()
    (consumer,) = client.connect(worker, ["orders"])
    (lane,) = client.asked
    assert lane.size == 4  # 2 processes times a multiplier of 2
    assert consumer.prefetch == 2


def rates(consumers: list[ControlledConsumer]) -> list[float | None]:
    """What each queue is bounded to, in tasks per second."""
    buckets = [each.plant.gate.bucket for each in consumers]
    return [None if bucket is None else float(bucket.rate) for bucket in buckets]


def share_one_rate(consumers: list[ControlledConsumer]) -> bool:
    """Whether there is one rate for all of them together."""
    gates = {id(each.plant.gate.bucket) for each in consumers}
    openings = {id(each.plant.window.bucket) for each in consumers}
    return len(gates) == len(openings) == 1


@pytest.mark.parametrize("goals", [{"at_most": 25}, {"at_most": 25, "buffer_time": 0.5}], ids=str)
@pytest.mark.parametrize("starts_off", [False, True])
def test_queues_share_one_ceiling_again_after_the_kill_switch(
    switch: Path, goals: dict[str, float], starts_off: bool
) -> None:
    if starts_off:
        switch.touch()
    worker = AdaptiveWorker(celery_consumer(), settings_from(**goals, interval=60))
    consumers = OneLaneEach().connect(worker, ["orders", "mails"])
    if not starts_off:
        assert rates(consumers) == [25, 25]
        assert share_one_rate(consumers)
    switch.touch()
    for consumer in consumers:
        consumer.turn()
    assert rates(consumers) == [None, None]
    switch.unlink()
    for consumer in consumers:
        consumer.turn()
    assert rates(consumers) == [25, 25]
    assert share_one_rate(consumers)


def test_each_queue_has_a_ceiling_of_its_own_again_after_the_kill_switch(switch: Path) -> None:
    settings = settings_from(at_most={"orders": 5, "mails": 10}, interval=60)
    worker = AdaptiveWorker(celery_consumer(), settings)
    consumers = OneLaneEach().connect(worker, ["orders", "mails", "logs"])
    assert rates(consumers) == [5, 10, None]
    for turned in (switch.touch, switch.unlink):
        turned()
        for consumer in consumers:
            consumer.turn()
    assert rates(consumers) == [5, 10, None]


def test_what_celery_asked_for_under_the_kill_switch_is_in_force_when_it_is_off(
    switch: Path,
) -> None:
    worker = AdaptiveWorker(celery_consumer(), settings_from(interval=60))
    client = OneLaneEach()
    (consumer,) = client.connect(worker, ["orders"])
    channel: Any = AdaptiveChannel.__new__(AdaptiveChannel)
    channel.worker, channel.runner = worker, client.runner
    channel.controlled = {"orders": consumer}
    switch.touch()
    channel._turn(consumer.plant)
    worker.asked = 12
    channel._turn(consumer.plant)
    assert consumer.prefetch == 4
    switch.unlink()
    channel._turn(consumer.plant)
    assert consumer.prefetch == 12


@pytest.mark.parametrize(("late", "linger"), [(True, LINGER_SECONDS), (False, 0.0)])
@pytest.mark.parametrize("starts_off", [False, True])
def test_held_acks_make_up_for_lanes_again_after_the_kill_switch(
    switch: Path, late: bool, linger: float, starts_off: bool
) -> None:
    if starts_off:
        switch.touch()
    celery = celery_consumer()
    celery.app.tasks = {"mail": SimpleNamespace(acks_late=late)}
    (consumer,) = OneLaneEach().connect(
        AdaptiveWorker(celery, settings_from(interval=60)), ["orders"]
    )
    for turned in (switch.touch, switch.unlink):
        turned()
        consumer.turn()
    plan = consumer.plant.plan
    assert (plan.exact, plan.linger) == (True, linger)
