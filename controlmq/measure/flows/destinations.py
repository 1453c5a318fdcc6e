"""Queues, exchanges and bindings for a run alone, gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika

from controlmq.clients.pika.connecting import connection_to
from controlmq.errors import ControlmqError
from controlmq.measure.flows.plan import Plan

QUEUE_EXPIRES_MILLISECONDS = 300_000
"""The broker removes a queue that was unused for this long, in case we die before we do."""


@contextmanager
def destinations(url: str, plan: Plan) -> Iterator[dict[str, int]]:
    """Declare everything for a ``with`` block; how many messages wait in each queue.

    A subscription that is not durable ends with its consumer, so its queue does.
    """
    with connection_to(url) as connection:
        try:
            waiting = _declare(connection, plan)
        except BaseException:
            _give_up(url, plan)
            raise
    try:
        yield waiting
    except BaseException:
        _give_up(url, plan)
        raise
    _delete(url, plan)


def _give_up(url: str, plan: Plan) -> None:
    """Delete what can be deleted; the first error is the one worth reporting."""
    with suppress(ControlmqError):
        _delete(url, plan)


def _delete(url: str, plan: Plan) -> None:
    """Delete on a new connection: an interrupt may have left the other in the middle of a frame."""
    with connection_to(url) as connection:
        channel = connection.channel()
        for queue in plan.queues:
            channel.queue_delete(plan.name(queue))
        for exchange in plan.exchanges:
            channel.exchange_delete(plan.name(exchange))


def _declare(connection: pika.BlockingConnection, plan: Plan) -> dict[str, int]:
    channel = connection.channel()
    waiting = {}
    for queue, durable in plan.queues.items():
        answer = channel.queue_declare(
            plan.name(queue),
            durable=True,
            auto_delete=not durable,
            arguments={"x-expires": QUEUE_EXPIRES_MILLISECONDS},
        )
        waiting[queue] = int(answer.method.message_count)
    for exchange, kind in plan.exchanges.items():
        channel.exchange_declare(plan.name(exchange), kind)
    for exchange, queue, key in plan.bindings:
        channel.queue_bind(plan.name(queue), plan.name(exchange), key)
    return waiting
