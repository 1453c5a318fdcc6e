"""A Celery worker on a real broker: its prefetch changes, and nothing is lost or run twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.live.celery.conftest import ALONE, StartWorker, unacked
from tests.live.handled import assert_empty
from tests.testbed import Broker
from tests.testbed.celery_worker import Worker, celery_worker
from tests.testbed.publishing import DeclareQueue, QueueKind, declare_queue

TASKS = 300

LARGEST_PREFETCH = 20
"""Messages that the random changes ask for at most."""

PARKED = 80
"""Tasks that wait for their time: many more than the prefetch of 4."""


def in_flight(worker: Worker, queue: str) -> int:
    return int(worker.stats()["controlmq"]["queues"][queue]["in_flight"])


def random_plan(changes: int) -> list[int]:
    draw = random.Random(7)
    return [
        draw.choice([1, LARGEST_PREFETCH, draw.randint(1, LARGEST_PREFETCH)])
        for _ in range(changes)
    ]


@pytest.mark.parametrize(
    ("pool", "kind", "late"),
    [
        ("prefork", "quorum", True),
        ("prefork", "classic", False),
        ("threads", "classic", True),
        ("gevent", "classic", True),
        ("eventlet", "quorum", True),
        ("solo", "classic", True),
    ],
)
def test_whatever_changes_nothing_is_lost_or_delivered_again(
    broker: Broker, queue: DeclareQueue, start: StartWorker, pool: str, kind: QueueKind, late: bool
) -> None:
    name = queue(kind)
    plan = random_plan(40)
    worker = start(name, pool=pool, kind=kind, late=late, concurrency=4, plan=plan)
    worker.publish(range(TASKS), seconds=0.002)
    worker.wait(lambda: len(worker.done) >= TASKS and worker.changed, "all is done")
    assert_empty(broker, name)
    worker.stop()
    assert sorted(worker.begun) == list(range(TASKS))
    assert worker.redelivered == []
    # Where no ack can be held, a lane of one slot stands in while the only one is replaced.
    excess = 0 if late else 1
    assert [each for each in worker.over if each.most > each.bound + excess] == []


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_pool_that_grows_and_shrinks_takes_its_prefetch_along(
    broker: Broker, queue: DeclareQueue, start: StartWorker, kind: QueueKind
) -> None:
    name = queue(kind)
    worker = start(name, kind=kind, arguments=["--autoscale", "2,1"], late=kind == "quorum")
    assert worker.stats()["prefetch_count"] == 4
    worker.publish(range(400), seconds=0.3)
    worker.app.control.autoscale(6, 1, destination=[worker.name])
    worker.wait(lambda: unacked(broker, name) == 12, "12 messages are here")
    worker.app.control.autoscale(1, 1, destination=[worker.name])
    worker.wait(lambda: 0 < unacked(broker, name) <= 2, "2 messages are here")
    assert worker.stats()["controlmq"]["queues"][name]["prefetch"] == 2
    assert worker.redelivered == []
    assert worker.twice == {}


@pytest.mark.parametrize("late", [True, False], ids=["late", "early"])
def test_tasks_go_on_behind_many_that_wait_for_their_time(
    broker: Broker, queue: DeclareQueue, start: StartWorker, late: bool
) -> None:
    name = queue("classic")
    worker = start(name, late=late)
    worker.publish(range(1000, 1000 + PARKED), countdown=3600)
    worker.publish(range(20))
    worker.wait(lambda: len(worker.done) >= 20, "the tasks of now are done")
    assert sorted(done.number for done in worker.done) == list(range(20))
    stats = worker.stats()
    assert stats["controlmq"]["parked"] == PARKED
    assert stats["prefetch_count"] == PARKED + 4
    broker.management.wait_for_queue(
        name, lambda view: view.messages_unacknowledged == PARKED, "what is done is acknowledged"
    )
    worker.stop()
    broker.management.wait_for_queue(
        name, lambda view: view.messages_ready == PARKED, "what waited is back in its queue"
    )


def test_a_task_whose_time_has_come_counts_again(
    broker: Broker, queue: DeclareQueue, start: StartWorker
) -> None:
    name = queue("classic")
    worker = start(name)
    worker.publish(range(10), seconds=0.2, countdown=2)
    worker.publish(range(10, 40), seconds=0.05)
    worker.wait(lambda: len(worker.done) == 40, "all is done")
    stats = worker.stats()
    assert stats["controlmq"]["parked"] == 0
    assert stats["prefetch_count"] == 4
    assert worker.redelivered == []
    assert_empty(broker, name)


def test_queues_share_what_is_asked_for(
    broker: Broker, queue: DeclareQueue, start: StartWorker
) -> None:
    names = [queue("classic") for _ in range(3)]
    worker = start(*names)
    for at, name in enumerate(names):
        worker.publish(range(100 * at, 100 * at + 40), seconds=0.05, queue=name)
    worker.wait(lambda: unacked(broker, *names) == 4, "4 messages are here, of all queues")
    worker.wait(lambda: len(worker.done) == 120, "all is done")
    worker.publish(range(300, 900), seconds=0.05, queue=names[2])
    worker.wait(lambda: in_flight(worker, names[2]) == 4, "a queue that alone is busy has all")
    assert worker.redelivered == []


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_after_refused_lanes_there_is_a_single_subscription(
    broker: Broker, request: pytest.FixtureRequest, tmp_path: Path, pool: str
) -> None:
    if broker.version < (4, 0):
        pytest.skip("RabbitMQ 3.10 has no limit of consumers per channel")
    broker = request.getfixturevalue("disposable_broker")
    name = declare_queue(broker.parameters, "quorum")
    limit = "application:set_env(rabbit, consumer_max_per_channel, 1)."
    broker.control("rabbitmqctl", "eval", limit)
    plan = [12, 3] * 100
    with celery_worker(
        tmp_path, broker.url, [name], kind="quorum", pool=pool, adapt={}, plan=plan, arguments=ALONE
    ) as worker:
        worker.publish(range(TASKS), seconds=0.02)
        worker.wait(lambda: worker.changed and set(worker.begun) == set(range(TASKS)), "all ran")
        assert worker.log.count("Connection to broker lost") == 2
        assert "ends the connection when a further consumer is added" in worker.log
        assert_empty(broker, name)
        worker.stop()
