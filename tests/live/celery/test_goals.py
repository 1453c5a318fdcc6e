"""Goals of a Celery worker, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.celery.conftest import StartWorker
from tests.live.handled import assert_empty
from tests.testbed import Broker
from tests.testbed.celery_worker import Worker
from tests.testbed.publishing import DeclareQueue

RATE = 40

LATE_SECONDS = 0.3
"""Seconds by which the begin of a task may be later than its hand-over to the pool."""


@pytest.mark.parametrize(
    ("pool", "late"), [("prefork", True), ("threads", False), ("gevent", True), ("solo", False)]
)
def test_a_ceiling_bounds_all_queues_of_a_worker_together(
    broker: Broker, queue: DeclareQueue, start: StartWorker, pool: str, late: bool
) -> None:
    names = [queue("classic"), queue("classic")]
    worker = start(*names, adapt={"at_most": RATE}, pool=pool, late=late)
    for at, name in enumerate(names):
        worker.publish(range(100 * at, 100 * at + 30), queue=name)
    worker.wait(lambda: len(worker.done) == 60, "all is done")
    begun = sorted(each.begun for each in worker.done)
    allowed = RATE * (begun[-1] - begun[0] + LATE_SECONDS) + 2  # the burst
    assert len(begun) <= allowed
    assert worker.redelivered == []
    first = [each.number // 100 for each in worker.done[:40]]
    assert min(first.count(0), first.count(1)) >= 10, "neither queue waits for the other"
    for name in names:
        assert_empty(broker, name)


def test_a_time_in_the_buffer_moves_the_prefetch(
    broker: Broker, queue: DeclareQueue, start: StartWorker
) -> None:
    name = queue("classic")
    adapt = {"buffer_time": 0.2, "interval": 0.5}
    worker = start(name, adapt=adapt, pool="threads", concurrency=4, multiplier=1)
    worker.publish(range(1500), seconds=0.05)  # 80 tasks a second: 16 wait for 0.2 s
    worker.wait(lambda: worker.stats()["prefetch_count"] > 10, "it has grown")
    assert worker.stats()["prefetch_count"] < 60
    worker.stop()
    assert worker.redelivered == []
    assert worker.twice == {}


@pytest.mark.parametrize(
    ("shop", "sentence"),
    [
        (
            {"url": "memory://"},
            "Error: the broker is memory by memory, and adapt() is for RabbitMQ",
        ),
        (
            {"adapt": {"buffer_time": 0.1}, "late": False},
            "Error: task shop.work is acknowledged before it runs",
        ),
        (
            {"adapt": {"at_most": 25}, "multiplier": 0},
            "Error: worker_prefetch_multiplier is 0, which means no prefetch, and at_most needs",
        ),
        (
            {"adapt": {"at_most": 25}, "no_ack": True},
            "Error: queue orders is consumed without acks (no_ack)",
        ),
    ],
    ids=["broker", "early acks", "no prefetch", "no acks"],
)
def test_what_cannot_work_is_refused_in_a_sentence(
    broker: Broker, tmp_path: Path, shop: dict[str, object], sentence: str
) -> None:
    options = {"url": broker.url, "adapt": {}, **shop}
    worker = Worker(tmp_path, queues=["orders"], **options)  # type: ignore[arg-type]
    try:
        assert worker.process.wait(60) == 1
        assert sentence in worker.log
        assert "Traceback" not in worker.log
    finally:
        worker.close()


def test_a_queue_without_acks_is_consumed_as_ever_and_that_is_logged_once(
    queue: DeclareQueue, start: StartWorker
) -> None:
    name = queue("classic")
    worker = start(name, no_ack=True)
    worker.publish(range(20))
    worker.wait(lambda: len(worker.done) == 20, "all is done")
    assert worker.log.count(f"queue {name} is consumed without acks") == 1
