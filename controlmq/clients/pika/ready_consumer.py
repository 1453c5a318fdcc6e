"""A consumer ready to run: connects, wraps, handles messages until stopped, closes cleanly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlmq.clients.pika.connecting import check_queue, connection_to
from controlmq.clients.pika.user_handler import Handler, Handling
from controlmq.clients.pika.wrap import wrap
from controlmq.clients.stopping import Stop, signals
from controlmq.loop import Step

LOOK_EVERY_SECONDS = 0.1
"""Seconds between looks at whether to stop while no message comes."""


def consume(
    url: str,
    queue: str,
    handler: Handler,
    *,
    workers: int = 1,
    on_step: Callable[[Step], bool],
    **settings: Any,
) -> bool:
    """Consume until ``on_step`` returns False or a signal asks to stop; return if it was that.

    ``settings`` are those of :func:`controlmq.clients.pika.wrap`.
    The handler at work is finished and its message acknowledged before the connection closes.
    """
    stop = Stop()

    def step(taken: Step) -> None:
        # Only ever set: a signal may come while on_step runs.
        if not on_step(taken):
            stop.wanted = True

    with connection_to(url) as connection:
        check_queue(connection, queue)
        channel = wrap(connection.channel(), on_step=step, **settings)
        with Handling(channel, handler, workers) as handling, signals(stop):

            def on_message(*message: Any) -> None:
                handling(*message)
                if stop.wanted:
                    channel.stop_consuming()

            def look() -> None:
                if stop.wanted:
                    channel.stop_consuming()
                elif channel.is_open:
                    connection.call_later(LOOK_EVERY_SECONDS, look)

            channel.basic_consume(queue, on_message)
            connection.call_later(LOOK_EVERY_SECONDS, look)
            channel.start_consuming()
        if channel.is_open:
            channel.close()
    if handling.error is not None:
        raise handling.error
    return stop.by_signal
