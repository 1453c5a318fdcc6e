"""Publishing a load to a queue, on time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika

from controlmq.clients.stopping import Stop
from controlmq.measure.load import Load

BEHIND_AFTER_SECONDS = 0.25
"""A publisher that is this far behind its plan does not keep up."""

LOOK_EVERY_SECONDS = 0.01
"""Seconds between looks at the connection, which must answer heartbeats and flow control."""


def publish(
    connection: pika.BlockingConnection,
    queue: str,
    load: Load,
    *,
    duration: float | None,
    count: int | None,
    persistent: bool = False,
    seed: int = 0,
    stop: Stop,
    progress: Callable[[int, float, float], None] = lambda sent, elapsed, behind: None,
) -> int:
    """Publish for ``duration`` seconds, or ``count`` messages, or until ``stop`` is wanted.

    Returns how many were published; it stops between two messages, so the number is exact.
    ``progress`` gets the messages sent, the seconds passed and the seconds behind the plan.
    """
    channel = connection.channel()
    properties = pika.BasicProperties(delivery_mode=2 if persistent else 1)
    body = bytes(load.size)
    sent = 0
    start = next_turn = time.monotonic()
    for due in load.times(seed):
        if (duration is not None and due >= duration) or sent == count:
            break
        while not stop.wanted:
            elapsed = time.monotonic() - start
            if elapsed + start >= next_turn:
                progress(sent, elapsed, max(0.0, elapsed - due))
                connection.process_data_events(0)
                next_turn = time.monotonic() + LOOK_EVERY_SECONDS
            if elapsed >= due:
                break
            connection.process_data_events(min(LOOK_EVERY_SECONDS, due - elapsed))
        if stop.wanted:
            break
        channel.basic_publish("", queue, body, properties)
        sent += 1
    channel.close()
    return sent
