"""Queues, exchanges and bindings for one run, deleted afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika

from controlmq.clients.pika.connecting import connection_to
from controlmq.errors import ControlmqError
from controlmq.measure.flows.plan import Plan
from controlmq.measure.temporary import QUEUE_ARGUMENTS, delete


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
    delete(url, map(plan.name, plan.queues), map(plan.name, plan.exchanges))


def _declare(connection: pika.BlockingConnection, plan: Plan) -> dict[str, int]:
    channel = connection.channel()
    waiting = {}
    for queue, durable in plan.queues.items():
        answer = channel.queue_declare(
            plan.name(queue),
            durable=True,
            auto_delete=not durable,
            arguments=QUEUE_ARGUMENTS,
        )
        waiting[queue] = int(answer.method.message_count)
    for exchange, kind in plan.exchanges.items():
        channel.exchange_declare(plan.name(exchange), kind)
    for exchange, queue, key in plan.bindings:
        channel.queue_bind(plan.name(queue), plan.name(exchange), key)
    return waiting
