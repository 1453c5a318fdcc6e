"""Celery: a worker with any of its pools, as its command line runs it."""

from __future__ import annotations

import math
import os
from typing import Any

from celery import Celery, bootsteps
from celery.platforms import EX_OK
from celery.worker import state
from celery.worker.consumer.tasks import Tasks
from kombu import Exchange, Queue

from controlmq.clients.celery import adapt
from tests.conformance.program import LOOK_EVERY_SECONDS, Program


class Stopping(bootsteps.StartStopStep):  # type: ignore[misc]
    """Ends the worker when the program is to stop; SIGTERM is Celery's own."""

    requires = (Tasks,)
    program: Program

    def start(self, c: Any) -> None:
        """Look from now on."""
        self._timer = c.timer.call_repeatedly(LOOK_EVERY_SECONDS, self._look)

    def stop(self, c: Any) -> None:
        """Look no more."""
        c.timer.cancel(self._timer)

    def _look(self) -> None:
        if self.program.stopping:
            state.should_stop = EX_OK


def run(program: Program) -> None:
    """A worker until it is time to stop."""
    settings = dict(program.settings)
    multiplier = 4
    if "controller" not in settings and "prefetch" in settings:
        # Without a law the prefetch is what Celery asks for, in multiples of its pool.
        multiplier = math.ceil(settings.pop("prefetch") / program.handlers)
    app = Celery("conformance", broker=program.url)
    app.conf.update(
        # Messages come by the default exchange, to a queue that is there already.
        task_queues=[Queue(program.queue, Exchange(""), program.queue, no_declare=True)],
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=multiplier,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
    )
    app.task(name="handle")(program.handle)
    app.steps["consumer"].add(type("Stopping", (Stopping,), {"program": program}))
    adapt(app, **settings)
    worker = app.Worker(
        hostname=f"conformance@{os.getpid()}",
        pool_cls=program.pool,
        concurrency=program.handlers,
        loglevel="WARNING",
        quiet=True,
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
    )
    worker.start()
    raise SystemExit(worker.exitcode)
