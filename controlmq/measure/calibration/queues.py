"""Queues for one measurement, deleted afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pika

from controlmq.clients.pika.connecting import connection_to
from controlmq.measure.calibration.stamping_publisher import STAMP
from controlmq.measure.temporary import QUEUE_ARGUMENTS, delete


class TemporaryQueues:
    """Declares durable queues and remembers their names."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self.connection = connection
        self.names: list[str] = []
        self.exchanges: list[str] = []

    def queue(self) -> str:
        """A new queue."""
        name = _new_name()
        self.names.append(name)
        channel = self.connection.channel()
        channel.queue_declare(name, durable=True, arguments=QUEUE_ARGUMENTS)
        channel.close()
        return name

    def fanout(self, queues: int) -> tuple[str, list[str]]:
        """A new fanout exchange and as many new queues bound to it."""
        exchange = _new_name()
        self.exchanges.append(exchange)
        channel = self.connection.channel()
        channel.exchange_declare(exchange, "fanout", auto_delete=True)
        bound = [self.queue() for _ in range(queues)]
        for queue in bound:
            channel.queue_bind(queue, exchange)
        channel.close()
        return exchange, bound

    def fill(self, queue: str, count: int, size: int = 0) -> None:
        """Publish transient messages to a queue, and return when they are there."""
        channel = self.connection.channel()
        body = bytes(max(size, STAMP.size))
        wanted = count + channel.queue_declare(queue, passive=True).method.message_count
        for _ in range(count):
            channel.basic_publish("", queue, body)
        while channel.queue_declare(queue, passive=True).method.message_count < wanted:
            self.connection.process_data_events(0.001)
        channel.close()

    def purge(self, queue: str) -> None:
        """Leave nothing in a queue."""
        channel = self.connection.channel()
        channel.queue_purge(queue)
        channel.close()


@contextmanager
def temporary_queues(url: str) -> Iterator[TemporaryQueues]:
    """Queues on a connection of their own, deleted at the end of the ``with`` block."""
    with connection_to(url) as connection:
        queues = TemporaryQueues(connection)
        try:
            yield queues
        finally:
            delete(url, queues.names, queues.exchanges)


def _new_name() -> str:
    return f"controlmq-calibrate-{uuid.uuid4().hex[:12]}"
