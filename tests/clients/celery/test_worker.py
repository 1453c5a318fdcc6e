"""What an adapted worker keeps from one connection to the next."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from controlmq.clients.celery.worker import AdaptiveWorker
from controlmq.clients.channel_runner import Runner
from controlmq.clients.settings import settings_from
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
