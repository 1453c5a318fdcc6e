"""A bound on a rate goes on when one consumer ends and the next begins, and after the kill switch.

At 5 messages a minute a token is not back within any test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlmq.clients.celery.worker import AdaptiveWorker
from controlmq.clients.channel_runner import Runner, clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.kept_bounds import KeptBounds
from controlmq.clients.new_consumer import new_consumer
from controlmq.clients.settings import settings_from
from controlmq.goals import Goals
from tests.clients.celery.test_worker import OneLaneEach, celery_consumer


def connected() -> Runner:
    client = OneLaneEach()
    client.runner = Runner(client)  # type: ignore[arg-type]
    return client.runner


def subscribed(
    bounds: KeptBounds,
    runner: Runner,
    queue: str = "calls",
    tag: str = "mine",
    last: ControlledConsumer | None = None,
    **words: Any,
) -> ControlledConsumer:
    settings = settings_from(**({"at_most": "5/minute"} | words), interval=60)
    consumer = new_consumer(
        tag,
        queue,
        settings,
        Controllers(),
        bounds,
        runner,
        asked=None,
        arguments=None,
        last=last,
    )
    runner.subscribe(consumer.plant)
    if last is not None:
        consumer.go_on_from(last)
    return consumer


def start_all(*consumers: ControlledConsumer) -> int:
    """Messages that may start at once, taken in turn; at most 10 are tried."""
    started = 0
    for _ in range(10):
        for consumer in consumers:
            gate, now = consumer.plant.gate, clock()
            if gate.is_open(now):
                gate.count(now, now)
                started += 1
    return started


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("words", [{}, {"prefetch": 4}, {"goal": "2/minute"}], ids=str)
def test_no_reconnect_starts_a_burst_again(words: dict[str, Any], burst: int) -> None:
    bounds, last = KeptBounds(), None
    started = []
    for _ in range(4):
        last = subscribed(bounds, connected(), last=last, burst=burst, **words)
        started.append(start_all(last))
        bounds = KeptBounds(bounds)
    assert started == [burst, 0, 0, 0]


def test_a_consumer_that_is_cancelled_and_begins_again_has_no_burst_again() -> None:
    bounds, runner = KeptBounds(), connected()
    first = subscribed(bounds, runner)
    assert start_all(first) == 1
    runner.cancel(first.plant)
    assert start_all(subscribed(bounds, runner, tag="another")) == 0


def test_every_consumer_of_a_queue_has_a_bound_of_its_own_which_goes_on() -> None:
    bounds, runner = KeptBounds(), connected()
    both = [subscribed(bounds, runner, tag=tag) for tag in ("a", "b")]
    assert [start_all(each) for each in both] == [1, 1]
    bounds, runner = KeptBounds(bounds), connected()
    again = [subscribed(bounds, runner, tag=tag) for tag in ("b", "a", "c")]
    assert again[0].plant.buckets == both[1].plant.buckets
    assert [start_all(each) for each in again] == [0, 0, 1]


def test_another_queue_has_a_bound_of_its_own() -> None:
    bounds = KeptBounds()
    assert start_all(subscribed(bounds, connected())) == 1
    assert start_all(subscribed(KeptBounds(bounds), connected(), queue="mails")) == 1


def test_another_rate_and_burst_add_no_tokens_to_what_was_used() -> None:
    bounds = KeptBounds()
    first = subscribed(bounds, connected(), burst=3)
    assert start_all(first) == 3
    second = subscribed(KeptBounds(bounds), connected(), at_most="6/minute", burst=3)
    assert start_all(second) == 0
    assert second.plant.gate.bucket is not None
    assert second.plant.gate.bucket.rate == pytest.approx(0.1)


def test_goals_that_were_set_while_it_ran_are_those_of_the_bucket_after_a_reconnect() -> None:
    bounds = KeptBounds()
    first = subscribed(bounds, connected())
    first.goals = Goals(at_most="20/minute", burst=2)
    assert start_all(first) == 2
    second = subscribed(KeptBounds(bounds), connected(), last=first)
    assert start_all(second) == 0
    assert second.plant.gate.bucket is not None
    assert second.plant.gate.bucket.rate == pytest.approx(1 / 3)


def test_a_bound_that_is_set_on_a_running_consumer_begins_without_a_burst() -> None:
    consumer = subscribed(KeptBounds(), connected(), at_most=None)
    consumer.goals = Goals(at_most="5/minute", burst=5)
    assert start_all(consumer) == 0


def test_what_has_all_its_tokens_again_is_not_remembered() -> None:
    bounds, runner = KeptBounds(), connected()
    for number in range(5):
        queue = f"replies-{number}"
        runner.cancel(subscribed(bounds, runner, queue=queue, tag=queue).plant)
    assert [each.queue for each in bounds._begun] == ["replies-4"]


@pytest.mark.parametrize("starts_off", [False, True])
def test_a_bound_begins_without_a_burst_when_the_kill_switch_is_off_again(
    switch: Path, starts_off: bool
) -> None:
    if starts_off:
        switch.touch()
    consumer = subscribed(KeptBounds(), connected(), burst=5)
    switch.touch()
    consumer.turn()
    assert start_all(consumer) == 10
    switch.unlink()
    consumer.turn()
    assert start_all(consumer) == 0


def test_nor_has_it_one_where_the_connection_was_lost_meanwhile(switch: Path) -> None:
    bounds = KeptBounds()
    first = subscribed(bounds, connected(), burst=5)
    switch.touch()
    first.turn()
    assert start_all(first) == 10
    switch.unlink()
    second = subscribed(KeptBounds(bounds), connected(), last=first, burst=5)
    assert start_all(second) == 0


QUEUES = ["orders", "mails"]


def worker_of(**words: Any) -> AdaptiveWorker:
    celery = celery_consumer()
    celery.task_consumer.queues = QUEUES
    return AdaptiveWorker(celery, settings_from(interval=60, burst=2, **words))


@pytest.mark.parametrize(
    ("at_most", "burst"),
    [("5/minute", 2), (dict.fromkeys(QUEUES, "5/minute"), 4)],
    ids=["together", "each"],
)
@pytest.mark.parametrize("more", [{}, {"buffer_time": 1.0}], ids=str)
def test_a_worker_of_celery_keeps_its_bound_over_a_reconnect(
    at_most: Any, burst: int, more: dict[str, Any]
) -> None:
    worker = worker_of(at_most=at_most, **more)
    assert start_all(*OneLaneEach().connect(worker, QUEUES)) == burst
    assert start_all(*OneLaneEach().connect(worker, QUEUES[::-1])) == 0


def test_a_rate_for_all_queues_of_a_worker_has_no_burst_after_the_kill_switch(switch: Path) -> None:
    consumers = OneLaneEach().connect(worker_of(at_most="5/minute"), QUEUES)
    switch.touch()
    for consumer in consumers:
        consumer.turn()
    assert start_all(*consumers) == 20
    switch.unlink()
    for consumer in consumers:
        consumer.turn()
    assert start_all(*consumers) == 0
