"""What tasks in greenlets spend on a result backend."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from celery import Celery
from celery.backends.base import DisabledBackend
from kombu import Connection

from controlmq.clients.celery.step import WindowStep
from controlmq.clients.settings import settings_from


def adapted(app: Celery, green: bool) -> Celery:
    """The app of a worker whose consumer has a window."""
    consumer = SimpleNamespace(
        app=app,
        pool=SimpleNamespace(is_green=green),
        conninfo=Connection("amqp://"),
        hub=None,
        call_soon=None,
        prefetch_multiplier=4,
    )
    step: Any = type("Step", (WindowStep,), {"settings": settings_from()})
    step(consumer)
    return app


def backends_of_tasks(app: Celery) -> list[Any]:
    """The result backends that three tasks use, each in a thread of its own."""
    found: list[Any] = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: found.append(app.backend))
        thread.start()
        thread.join()
    return found


def test_tasks_in_greenlets_share_the_backend_that_stores_nothing() -> None:
    first, *others = backends_of_tasks(adapted(Celery("shop", set_as_current=False), green=True))
    assert type(first) is DisabledBackend
    assert [backend is first for backend in others] == [True, True]


def test_a_backend_that_stores_results_stays_as_its_user_has_it() -> None:
    app = adapted(Celery("shop", backend="cache+memory://", set_as_current=False), green=True)
    first, *others = backends_of_tasks(app)
    assert type(first) is not DisabledBackend
    assert [backend is first for backend in others] == [False, False]


def test_other_pools_stay_as_they_are() -> None:
    app = adapted(Celery("shop", set_as_current=False), green=False)
    first, *others = backends_of_tasks(app)
    assert [backend is first for backend in others] == [False, False]
