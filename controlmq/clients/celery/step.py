"""The step of a Celery worker that gives the channel of its tasks a window."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import bootsteps
from celery.worker.consumer.tasks import Tasks
from kombu.transport import pyamqp

from controlmq.clients.celery.channel import AdaptiveChannel
from controlmq.clients.celery.lost_connection import raise_when_lost
from controlmq.clients.celery.refusing import check
from controlmq.clients.celery.result_backend import share_disabled_backend
from controlmq.clients.celery.timers import timer_of
from controlmq.clients.celery.worker import AdaptiveWorker
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.settings import Settings

log = logging.getLogger("controlmq")

TIMED = ("apply_eta_task", "_limit_post_eta")
"""Methods of Celery's consumer that its timer calls when the time of a task has come; the second
where the task has a rate limit."""

ACK = "ack_log_error"
ANSWERS = (ACK, "reject_log_error")
"""Methods of a message with which Celery answers it."""


class WindowStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Runs after the consumer of tasks is made and before it consumes, and at each reconnect."""

    requires = (Tasks,)
    settings: Settings

    def __init__(self, c: Any, **options: Any) -> None:
        super().__init__(c, **options)
        check(c, self.settings)
        self.worker = AdaptiveWorker(c, self.settings)
        if getattr(c.pool, "is_green", False):
            share_disabled_backend(c.app)
        self._channel: AdaptiveChannel | None = None
        for name in TIMED:
            if hasattr(c, name):
                setattr(c, name, _noting_due(getattr(c, name)))
        if hasattr(c, "call_soon_ack"):
            c.call_soon_ack = _noting_acks(c.call_soon_ack)
        else:
            soon = c.call_soon if c.hub is not None else _answering_at_once(c.call_soon)
            c.call_soon = _noting_acks(soon)

    def start(self, c: Any) -> None:
        """Adapt the channel of a new connection."""
        channel = c.task_consumer.channel
        if not isinstance(channel, AdaptiveChannel):
            kind = type(channel)
            bases = (AdaptiveChannel,) if kind is pyamqp.Channel else (AdaptiveChannel, kind)
            channel.__class__ = type("AdaptiveChannel", bases, {})
            self.worker.connected()
            channel.adapt(self.worker, timer_of(c))
            if c.hub is None:
                raise_when_lost(c.connection, channel)
        self._channel = channel

    def stop(self, c: Any) -> None:
        """Give back what is held, before Celery cancels its consumers."""
        if self._channel is not None:
            self._channel.give_back_all()

    terminate = shutdown = stop

    def info(self, c: Any) -> dict[str, Any]:
        """What ``celery inspect stats`` shows: the prefetch in force in place of Celery's own."""
        channel = self._channel
        if channel is None or not channel.controlled:
            return {}
        consumers = [each for each in channel.controlled.values() if each.running]
        parked = channel.parked
        return {
            "prefetch_count": sum(each.prefetch for each in consumers) + parked,
            "controlmq": {
                "parked": parked,
                "queues": {
                    each.queue: {
                        "prefetch": each.prefetch,
                        "in_flight": each.in_flight - _parked(each),
                        "held": each.held,
                        "lanes": [lane.size for lane in each.plant.window.subscribed],
                    }
                    for each in consumers
                },
            },
        }


def _parked(consumer: ControlledConsumer) -> int:
    return sum(lane.parked for lane in consumer.plant.window.lanes)


def _noting_due(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def due(request: Any, *args: Any) -> Any:
        message = request.message
        if isinstance(message.channel, AdaptiveChannel):
            message.channel.due(message.delivery_tag)
        return method(request, *args)

    return due


def _noting_acks(call_soon: Callable[..., Any]) -> Callable[..., Any]:
    """Let the channel know of acks that Celery puts off.

    When a connection is lost, an event loop drops the acks that it has not sent yet.
    """

    @wraps(call_soon)
    def soon(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if getattr(function, "__name__", "") == ACK:
            message: Any = getattr(function, "__self__", None)
            channel = getattr(message, "channel", None)
            if isinstance(channel, AdaptiveChannel):
                channel.is_done(message.delivery_tag)
        return call_soon(function, *args, **kwargs)

    return soon


def _answering_at_once(call_soon: Callable[..., Any]) -> Callable[..., Any]:
    """Let pools without an event loop answer messages when their tasks end.

    Celery does so from 5.7 on. Before, it waited until something else came from the broker, for up
    to two seconds, in which a window that is full stays full.
    """

    @wraps(call_soon)
    def soon(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if getattr(function, "__name__", "") not in ANSWERS:
            return call_soon(function, *args, **kwargs)
        try:
            return function(*args, **kwargs)
        except Exception:
            log.exception("a message could not be answered")

    return soon
