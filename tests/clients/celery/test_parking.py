"""A task that waits for its time in a worker takes no process meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from controlmq.clients.celery import pool_load
from controlmq.clients.celery.channel import AdaptiveChannel
from controlmq.clients.celery.worker import AdaptiveWorker
from controlmq.clients.settings import settings_from
from tests.clients.celery.test_blocked import NoTimer
from tests.clients.celery.test_worker import celery_consumer

TAG = "mine"


class UnconnectedChannel(AdaptiveChannel):
    """A channel with a window whose frames go nowhere."""

    def __init__(self) -> None:
        self.connection = SimpleNamespace(on_blocked=None, on_unblocked=None)
        self.callbacks: dict[str, Any] = {}
        self.cancel_callbacks: dict[str, Any] = {}
        self.number = 0
        worker = AdaptiveWorker(celery_consumer(), settings_from(interval=60))
        worker.connected()
        self.adapt(worker, NoTimer())  # type: ignore[arg-type]
        self.basic_consume("orders", TAG, nowait=True, callback=lambda _message: None)

    def send_method(self, *_: Any, **__: Any) -> None:
        """Nobody reads it."""

    def deliver(self, eta: datetime | None = None) -> int:
        """The broker sends a task; its delivery tag."""
        self.number += 1
        tag = self.number
        headers = {"id": f"task-{tag}", "task": "sleep", "eta": eta and eta.isoformat()}
        info = {"consumer_tag": TAG, "delivery_tag": tag, "redelivered": False}
        properties = {"application_headers": headers}
        self.callbacks[TAG](SimpleNamespace(delivery_info=info, properties=properties, body=b""))
        return tag


def test_a_parked_task_ends_none_of_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(pool_load, "clock", lambda: now)
    channel = UnconnectedChannel()
    running = [channel.deliver() for _ in range(2)]
    load = channel.subscriptions[TAG].load
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    for second in range(60):
        now = float(second)
        channel.deliver(in_an_hour)
    assert channel.parked == 60
    assert (load.totals().ended, load.totals().in_line) == (0, 0)
    now = 60.0
    for tag in running:
        channel.basic_ack(tag)
    assert (load.totals().ran, load.totals().ended) == (120.0, 2)
