"""What a Celery worker leaves behind when it stops, or loses its connection."""

from __future__ import annotations

import signal

import pytest

from tests.live.celery.conftest import StartWorker
from tests.live.handled import assert_empty
from tests.testbed import Broker, wait_until
from tests.testbed.celery_worker import Worker
from tests.testbed.proxy import proxied
from tests.testbed.publishing import DeclareQueue, connected

PROCESSES = 2

HOLDING = {
    "adapt": {"window": "single"},
    "concurrency": PROCESSES,
    "multiplier": 8,
    "plan": [1],
}
"""A worker that asks for prefetch 16 and then for 1: it holds the acks of what it does."""


def ready(broker: Broker, queue: str) -> int:
    """Messages of a queue that nobody has, once its consumers are gone."""
    broker.management.wait_for_queue(queue, lambda view: not view.consumers, "nobody consumes")
    with connected(broker.parameters) as connection:
        declared = connection.channel().queue_declare(queue, passive=True)
        return int(declared.method.message_count)


def held(worker: Worker, queue: str) -> int:
    return int(worker.stats()["controlmq"]["queues"][queue]["held"])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGQUIT])
def test_a_stop_sends_held_acks(
    broker: Broker, queue: DeclareQueue, start: StartWorker, how: signal.Signals
) -> None:
    name = queue("classic")
    worker = start(name, **HOLDING)
    worker.publish(range(60), seconds=0.05)
    worker.wait(lambda: held(worker, name) > 8, "acks are held")
    worker.stop(how)
    done = {each.number for each in worker.done}
    # A process that has done a task may not have reported it yet, and then that is back too.
    allowed = range(60 - len(done), 60 - len(done) + PROCESSES + 1)
    wait_until(lambda: ready(broker, name) in allowed, f"what was not done is back: {allowed}")


def test_after_a_reconnect_no_task_runs_again_but_those_that_were_running(
    broker: Broker, queue: DeclareQueue, start: StartWorker
) -> None:
    name = queue("quorum")
    with broker.proxied() as proxy:
        worker = start(name, url=proxied(broker.url, proxy), kind="quorum", **HOLDING)
        worker.publish(range(60), seconds=0.05)
        worker.wait(lambda: held(worker, name) > 8, "acks are held")
        proxy.cut()
        worker.wait(lambda: len(set(worker.begun)) == 60, "all have run")
        assert_empty(broker, name)
        worker.stop()
    assert len(worker.twice) <= PROCESSES
    assert set(worker.twice.values()) <= {2}


def test_a_queue_that_is_deleted_and_declared_again_is_consumed_again(
    broker: Broker, queue: DeclareQueue, start: StartWorker
) -> None:
    name = queue("classic")
    worker = start(name)
    worker.publish(range(5))
    worker.wait(lambda: len(worker.done) == 5, "they are done")
    broker.management.delete_queue(name)
    worker.wait(lambda: "Connection to broker lost" in worker.log, "the worker notices")
    broker.management.wait_for_queue(name, lambda view: bool(view.consumers), "it is back")
    worker.publish(range(5, 10))
    worker.wait(lambda: len(worker.done) == 10, "they are done")
