"""What a Celery worker cannot do with a window, said in one sentence."""

from __future__ import annotations

from typing import Any

from click import ClickException
from kombu.transport import pyamqp

from controlmq.clients.celery.worker import early_tasks, moves_prefetch
from controlmq.clients.settings import Settings
from controlmq.clients.tested_versions import warn_if_untested
from controlmq.errors import InputError

TESTED = ("5.4", "5.6", "5.7")
"""Versions of Celery that the tests pass with."""


class WorkerRefusedError(InputError, ClickException):
    """A worker cannot be adapted; Celery's command prints the sentence alone."""

    def __init__(self, message: str) -> None:
        ClickException.__init__(self, message)


def notice_version() -> None:
    """Log once that this version of Celery was never tested."""
    warn_if_untested("celery", *TESTED)


def check(consumer: Any, settings: Settings) -> None:
    """Refuse a worker that its broker or its tasks keep from being adapted."""
    transport = consumer.conninfo.transport
    if not isinstance(transport, pyamqp.Transport):
        raise WorkerRefusedError(
            f"the broker is {transport.driver_type} by {transport.driver_name}, and adapt() is for "
            "RabbitMQ through py-amqp; use a broker URL that begins with amqp://, or leave out "
            "adapt()."
        )
    if moves_prefetch(settings):
        tasks = early_tasks(consumer.app.tasks)
        if tasks:
            raise WorkerRefusedError(
                f"task {tasks[0]} is acknowledged before it runs, and buffer_time, protect and "
                "controller need acks that can be held; set acks_late=True for it, or "
                "task_acks_late for all, or give goal or at_most alone."
            )
