"""Refuses, in one sentence, what a Celery worker cannot do with a window."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from click import ClickException
from kombu.transport import pyamqp

from controlmq.clients.celery.worker import early_tasks, given_goals, moves_prefetch
from controlmq.clients.settings import Settings
from controlmq.clients.tested_versions import warn_if_untested
from controlmq.errors import InputError
from controlmq.goals import Goals

log = logging.getLogger("controlmq")

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
    """Refuse a worker that its broker, its tasks or its queues keep from being adapted."""
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
    goals = given_goals(settings)
    if goals:
        _check_prefetch(consumer, goals)
        _check_acks(consumer, settings)
    elif not consumer.prefetch_multiplier:
        log.warning(
            "worker_prefetch_multiplier is 0, so this worker has no prefetch and adapt() changes "
            "nothing; set it to 1 or more"
        )


def check_not_shared(settings: Settings) -> None:
    """Refuse a rate that several workers share: nothing here can read the log of the members."""
    if settings.shared is not None:
        raise InputError(
            f"shared is {settings.shared!r}, and Celery's workers cannot share a rate yet; give "
            "each worker its part as at_most, without shared."
        )


def _check_prefetch(consumer: Any, goals: Sequence[str]) -> None:
    """Refuse goals where the broker may send everything at once."""
    if not consumer.prefetch_multiplier:
        raise WorkerRefusedError(
            f"worker_prefetch_multiplier is 0, which means no prefetch, and {goals[0]} needs one; "
            f"set it to 1 or more, or leave out {goals[0]}."
        )


def _check_acks(consumer: Any, settings: Settings) -> None:
    """Refuse queues that have a goal and whose messages are never acknowledged."""
    for name, queue in consumer.app.amqp.queues.consume_from.items():
        if queue.no_ack and (settings.controller or settings.goals.of(name) != Goals()):
            raise WorkerRefusedError(
                f"queue {name} is consumed without acks (no_ack), so no prefetch bounds it and "
                "its goal cannot hold; consume it with acks, or give it no goal."
            )
