"""What a worker refuses when it starts, and what it only logs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Queue
from kombu.transport import TRANSPORT_ALIASES, virtual

from controlmq.clients.celery.refusing import WorkerRefusedError, check
from controlmq.clients.celery.worker import AdaptiveWorker
from controlmq.clients.settings import settings_from


def celery_consumer(multiplier: int = 4, no_ack: bool = False) -> Any:
    """Celery's consumer of two queues, the second perhaps without acks."""
    app = Celery("shop", set_as_current=False)
    app.conf.task_acks_late = True
    app.conf.task_queues = [Queue("orders"), Queue("mails", no_ack=no_ack)]
    return SimpleNamespace(
        app=app,
        conninfo=Connection("amqp://"),
        prefetch_multiplier=multiplier,
        pool=SimpleNamespace(num_processes=2, is_green=False),
    )


class Redis(virtual.Transport):  # type: ignore[misc]
    """In the place of kombu's, whose library is not installed for the tests."""

    driver_type = driver_name = "redis"


@pytest.mark.parametrize(
    ("url", "broker"),
    [("redis://localhost", "redis by redis"), ("memory://", "memory by memory")],
)
def test_a_broker_that_is_not_rabbitmq_is_refused(
    url: str, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRANSPORT_ALIASES, "redis", f"{__name__}:Redis")
    consumer = celery_consumer()
    consumer.conninfo = Connection(url)
    with pytest.raises(WorkerRefusedError, match=rf"the broker is {broker}, and adapt\(\) is for"):
        check(consumer, settings_from())


@pytest.mark.parametrize(
    "goal",
    [
        {"at_most": 25},
        {"goal": 25},
        {"at_most": {"orders": 5}},
        {"buffer_time": 1},
        {"protect": True},
    ],
    ids=str,
)
def test_a_goal_without_a_prefetch_is_refused(goal: dict[str, Any]) -> None:
    settings = settings_from(**goal)
    (name,) = goal
    sentence = f"worker_prefetch_multiplier is 0, .* {name} needs one; set it to 1 or more"
    with pytest.raises(WorkerRefusedError, match=sentence):
        check(celery_consumer(multiplier=0), settings)
    check(celery_consumer(multiplier=1), settings)


def test_without_goals_a_worker_without_a_prefetch_says_that_nothing_is_adapted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check(celery_consumer(multiplier=0), settings_from())
    assert "worker_prefetch_multiplier is 0" in caplog.text
    assert "adapt() changes nothing" in caplog.text


def test_a_goal_of_a_queue_without_acks_is_refused() -> None:
    consumer = celery_consumer(no_ack=True)
    with pytest.raises(
        WorkerRefusedError, match=r"queue mails is consumed without acks \(no_ack\)"
    ):
        check(consumer, settings_from(at_most=25))
    with pytest.raises(WorkerRefusedError, match="queue mails"):
        check(consumer, settings_from(at_most={"mails": 25}))
    check(consumer, settings_from(at_most={"orders": 25}))
    check(consumer, settings_from())


def test_a_queue_that_is_not_adapted_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    worker = AdaptiveWorker(celery_consumer(), settings_from())
    for _connection in range(2):
        worker.notice_not_adapted("mails", "without acks")
    assert caplog.messages == [
        "queue mails is consumed without acks, so neither its prefetch nor its rate is bounded"
    ]
