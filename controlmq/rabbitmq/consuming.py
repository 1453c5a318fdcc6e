"""A ready consumer: connects, wraps, handles messages until told to stop, leaves cleanly."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from controlmq.loop import Step
from controlmq.rabbitmq.connecting import check_queue, connection_to
from controlmq.rabbitmq.handling import Handler, Handling
from controlmq.rabbitmq.wrap import wrap

LOOK = 0.1
"""Seconds between looks at whether to stop while no message comes."""


class Stop:
    """Whether to stop, and why; set by a signal, by ``on_step`` or by a failed handler."""

    def __init__(self) -> None:
        self.wanted = False
        self.by_signal = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """A signal's handler. A second signal interrupts whatever still runs."""
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = self.by_signal = True


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

    ``settings`` are those of :func:`controlmq.rabbitmq.wrap`.
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
        with Handling(channel, handler, workers) as handling, _signals(stop):

            def on_message(*message: Any) -> None:
                handling(*message)
                if stop.wanted:
                    channel.stop_consuming()

            def look() -> None:
                if stop.wanted:
                    channel.stop_consuming()
                elif channel.is_open:
                    connection.call_later(LOOK, look)

            channel.basic_consume(queue, on_message)
            connection.call_later(LOOK, look)
            channel.start_consuming()
        if channel.is_open:
            channel.close()
    if handling.error is not None:
        raise handling.error
    return stop.by_signal


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
