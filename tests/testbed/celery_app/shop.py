"""The Celery app under test: ``celery --workdir ... -A shop worker``.

Needs nothing of this project but :mod:`controlmq` itself, so that it runs in environments with
other versions of Celery. What it is like comes as JSON in the variable ``SHOP``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

from celery import Celery, bootsteps
from celery.worker.consumer.tasks import Tasks
from kombu import Exchange, Queue

CHANGED_EVERY_SECONDS = 0.02

JOINING_SECONDS = 0.005
"""Seconds between looks for the file that a worker waits for."""

WAITS = "waits to be let in."
"""What such a worker prints."""


def make_app(
    url: str,
    queues: list[str],
    kind: str = "classic",
    late: bool = True,
    no_ack: bool = False,
    multiplier: int = 2,
    adapt: dict[str, Any] | None = None,
    notes: str = "",
    plan: Sequence[int] = (),
    joins: str = "",
    exchange_type: str = "direct",
    **options: Any,
) -> Any:
    """An app with one task, whose worker asks for the prefetches of ``plan``, one after another.

    Each queue has an exchange of its own, of the type that is given.

    Where ``joins`` names a file, its worker does not consume before the file is there.
    """
    app = Celery("shop", broker=url, set_as_current=False)
    arguments = {"x-queue-type": kind}
    app.conf.update(
        task_queues=[
            Queue(
                name, Exchange(name, exchange_type), name, queue_arguments=arguments, no_ack=no_ack
            )
            for name in queues
        ],
        task_default_queue=queues[0],
        task_default_exchange=queues[0],
        task_default_routing_key=queues[0],
        task_acks_late=late,
        task_ignore_result=True,
        task_store_eager_result=False,
        worker_prefetch_multiplier=multiplier,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        **options,
    )
    record = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if notes else None

    def note(*words: object) -> None:
        if record is not None:
            os.write(record, (" ".join(map(str, words)) + "\n").encode())

    @app.task(name="shop.work", bind=True)  # type: ignore[untyped-decorator]
    def work(self: Any, number: int, seconds: float = 0.0) -> None:
        begun = time.time()
        note("begun", number, begun, int(bool(self.request.delivery_info["redelivered"])))
        if seconds:
            time.sleep(seconds)
        note("done", number, begun, time.time())

    if adapt is not None:
        from controlmq.clients.celery import adapt as adapt_app

        adapt_app(app, **adapt)
    if joins:
        app.steps["consumer"].add(type("Joining", (Joining,), {"file": joins}))
    if plan:
        step = {"plan": plan, "note": staticmethod(note)}
        app.steps["consumer"].add(type("Restless", (Restless,), step))
    return app


class Joining(bootsteps.StartStopStep):  # type: ignore[misc]
    """Has everything ready but the subscription, and waits for a file."""

    requires = (Tasks,)
    file: str

    def start(self, c: Any) -> None:
        """Say that it waits, and do."""
        print(WAITS, flush=True)
        while not os.path.exists(self.file):
            time.sleep(JOINING_SECONDS)


class Restless(bootsteps.StartStopStep):  # type: ignore[misc]
    """Asks for another prefetch all the time, and notes where more is in flight than allowed."""

    requires = (Tasks,)
    plan: Sequence[int]
    note: Any

    def __init__(self, c: Any, **options: Any) -> None:
        super().__init__(c, **options)
        self._done = 0

    def start(self, c: Any) -> None:
        """Begin, or go on after a lost connection."""
        self._bound = c.initial_prefetch_count
        self._timer = c.timer.call_repeatedly(CHANGED_EVERY_SECONDS, self._change, (c,))

    def stop(self, c: Any) -> None:
        """End with the worker."""
        c.timer.cancel(self._timer)

    def _change(self, c: Any) -> None:
        with c.task_consumer.channel.window_lock:  # what is compared belongs to one moment
            self._look_and_change(c)

    def _look_and_change(self, c: Any) -> None:
        consumers = c.task_consumer.channel.controlled.values()
        granted = sum(each.plant.window.granted for each in consumers)
        flight = sum(each.in_flight for each in consumers)
        if max(granted, flight) > self._bound:
            self.note("over", granted, flight, self._bound)
        if self._done < len(self.plan):
            target = self.plan[self._done]
            self._done += 1
            self._bound = max(target, granted)
            c.qos.value = target
            c.qos.update()
            if self._done == len(self.plan):
                self.note("changed", self._done)


if "SHOP" in os.environ:
    app = make_app(**json.loads(os.environ["SHOP"]))
