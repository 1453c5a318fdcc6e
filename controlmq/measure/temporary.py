"""Queues and exchanges for one measurement: when they expire, and how they are deleted."""

from __future__ import annotations

from collections.abc import Iterable

from controlmq.clients.pika.connecting import connection_to

QUEUE_ARGUMENTS = {"x-expires": 300_000}
"""The broker removes a queue that was unused for this many milliseconds, in case we die before
we do."""


def delete(url: str, queues: Iterable[str], exchanges: Iterable[str]) -> None:
    """Delete on a new connection: an interrupt may have left the other in the middle of a frame."""
    with connection_to(url) as connection:
        channel = connection.channel()
        for name in queues:
            channel.queue_delete(name)
        for name in exchanges:
            channel.exchange_delete(name)
