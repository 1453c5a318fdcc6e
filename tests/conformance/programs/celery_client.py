"""Celery: a worker with any of its pools, as its command line runs it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from celery import Celery, bootsteps, signals
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


CHANGED_EVERY_SECONDS = 0.02

SESSION = "session"
"""What the connection that brought a message is called in the request of its task."""


class Restless(bootsteps.StartStopStep):  # type: ignore[misc]
    """Lets Celery ask for another prefetch all the time, as its pools and timers may do."""

    requires = (Tasks,)
    program: Program

    def start(self, c: Any) -> None:
        """Begin, or go on after a lost connection."""
        self._timer = c.timer.call_repeatedly(CHANGED_EVERY_SECONDS, self._change, (c.qos,))

    def stop(self, c: Any) -> None:
        """End with the connection."""
        c.timer.cancel(self._timer)

    def _change(self, qos: Any) -> None:
        qos.value = math.ceil(self.program.draw_prefetch())
        qos.update()
        self.program.changed()


def run(program: Program) -> None:
    """A worker until it is time to stop."""
    settings = dict(program.settings)
    multiplier = 4
    restless = program.early and "controller" in settings
    if restless:
        # No law moves the prefetch where acks are early: it is what Celery asks for.
        for name in ("controller", "goal", "prefetch", "on_step"):
            del settings[name]
    if "controller" not in settings and "prefetch" in settings:
        # Without a law the prefetch is what Celery asks for, in multiples of its pool.
        multiplier = math.ceil(settings.pop("prefetch") / program.handlers)
    app = Celery("conformance", broker=program.url)
    app.conf.update(
        # Messages come by the default exchange, to a queue that is there already.
        task_queues=[Queue(program.queue, Exchange(""), program.queue, no_declare=True)],
        task_acks_late=not program.early,
        task_ignore_result=True,
        worker_prefetch_multiplier=multiplier,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
    )
    app.task(name="handle", bind=True)(_handler(program))
    signals.task_received.connect(_noting_session(program), weak=False)
    for step in (Stopping, Restless) if restless else (Stopping,):
        app.steps["consumer"].add(type(step.__name__, (step,), {"program": program}))
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


def _noting_session(program: Program) -> Callable[..., None]:
    """Notes in each request which connection has brought its message."""

    def note(request: Any, **_: Any) -> None:
        request.request_dict[SESSION] = program.session

    return note


def _handler(program: Program) -> Callable[..., None]:
    """The task; its connection may be lost before it begins.

    When a connection is lost, the prefork pool takes all its processes to be idle. So a message of
    the next one may wait behind a task that is still running, and begin when that next connection
    is lost, too.
    """

    def handle(task: Any, number: int) -> None:
        brought_by = task.request.get(SESSION)
        program.handle(number, lambda: bool(brought_by != program.session))

    return handle
