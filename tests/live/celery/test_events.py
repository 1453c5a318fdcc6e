"""Two workers with all that Celery's workers tell each other and those who watch them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.live.celery.conftest import StartWorker
from tests.live.handled import assert_empty
from tests.testbed import Broker, wait_until
from tests.testbed.celery_worker import Worker
from tests.testbed.publishing import DeclareQueue

TASKS = 200

Events = dict[str, list[dict[str, Any]]]


@contextmanager
def watching(worker: Worker) -> Iterator[Events]:
    """The events of all workers of the broker, by their types; they grow in a thread."""
    found: Events = defaultdict(list)
    listening = threading.Event()

    def note(event: dict[str, Any]) -> None:
        found[event["type"]].append(event)

    with worker.app.connection_for_read() as connection:
        receiver = worker.app.events.Receiver(connection, handlers={"*": note})

        receiver.on_consume_ready = lambda *_, **__: listening.set()

        def capture() -> None:
            for _ in receiver.consume(limit=None):
                pass

        thread = threading.Thread(target=capture)
        thread.start()
        try:
            assert listening.wait(60)
            yield found
        finally:
            receiver.should_stop = True
            thread.join()


def test_two_default_workers_tell_of_every_task_and_lose_none(
    broker: Broker, queue: DeclareQueue, start: StartWorker
) -> None:
    name = queue("quorum")
    workers = [
        start(name, name=each, kind="quorum", arguments=["--task-events"])
        for each in ("one", "two")
    ]
    names = {worker.name for worker in workers}
    assert "mingle: sync with" in workers[1].log
    with watching(workers[0]) as events:
        workers[0].publish(range(TASKS), seconds=0.02)

        def told() -> bool:
            ended = {event["uuid"] for event in events["task-succeeded"]}
            beating = {event["hostname"] for event in events["worker-heartbeat"]}
            return len(ended) == TASKS and names <= beating

        wait_until(told, "every task was told of, and the heart of each worker")
        for worker in workers:
            stats = worker.stats()
            assert stats["prefetch_count"] == 4
            assert stats["controlmq"]["queues"][name]["prefetch"] == 4
    for kind in ("task-received", "task-started", "task-succeeded"):
        assert len(events[kind]) == TASKS, "each is told of once"
        assert {event["hostname"] for event in events[kind]} == names
    assert_empty(broker, name)
    assert sorted(number for each in workers for number in each.begun) == list(range(TASKS))
    assert [each.redelivered for each in workers] == [[], []]
