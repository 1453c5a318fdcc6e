"""A plain consumer at a fixed prefetch, and when each message reached its handler."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import pika

from controlmq.errors import ControlmqError
from controlmq.measure.calibration.stamping_publisher import clock, sent_at

FAILED_AFTER_SECONDS = 5.0
"""A run that has not ended this long after its planned end has failed."""

RATE_OVER_MESSAGES = 20
"""Messages over which a rate is computed; fewer when few were handled."""

FEWEST_MESSAGES = 5
"""Messages needed for a rate; a run in seconds lasts until there are twice as many."""


@dataclass(frozen=True)
class Handled:
    """When messages were handed to the handler, and when each had been sent (0 if unstamped).

    ``asked`` is when the broker was asked for them.
    """

    asked: float
    times: Sequence[float]
    sent: Sequence[float]

    def after(self, seconds: float) -> Handled:
        """Without those of the first ``seconds``, while the window filled."""
        first = sum(at <= self.times[0] + seconds for at in self.times)
        first = max(min(first, len(self.times) - FEWEST_MESSAGES), 0)
        return Handled(self.asked, self.times[first:], self.sent[first:])

    def spells(self, window: int = 1) -> list[float]:
        """Seconds a message over spells of whole windows, one spell from each message on.

        While the window is the limit, messages come in groups of up to ``window``; only the time
        of whole windows says how fast they come. A short disturbance by another process
        moves the mean of the spells but hardly their median.
        """
        length = window * ceil(min(RATE_OVER_MESSAGES, len(self.times) / 4) / window)
        length = min(length, len(self.times) - 1)
        return [
            (after - before) / length
            for before, after in zip(self.times, self.times[length:], strict=False)
        ]

    @property
    def latencies(self) -> list[float]:
        """Seconds from publisher to handler."""
        return [at - sent for at, sent in zip(self.times, self.sent, strict=True)]


def spin(seconds: float) -> None:
    """Work for exactly this long. Sleeping would end up to 0.1 ms late, and unevenly."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def consume(
    connection: pika.BlockingConnection,
    queues: Sequence[str],
    *,
    prefetch: int = 0,
    work: float = 0.0,
    seconds: float | None = None,
    count: int | None = None,
    auto_ack: bool = False,
    publish: Callable[[], float] | None = None,
) -> Handled:
    """Handle messages for ``seconds`` after the first, or ``count`` of them.

    Every message takes ``work`` seconds and is acknowledged on its own, unless ``auto_ack``.
    ``publish`` is called once all queues are subscribed to, and returns in how many seconds
    the last message is there.
    """
    times: list[float] = []
    sent: list[float] = []
    end = float("inf")
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)

    def handle(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal end
        now = clock()
        if not times and seconds is not None:
            end = now + seconds
        times.append(now)
        sent.append(sent_at(body))
        if work:
            spin(work)
        if not auto_ack:
            channel.basic_ack(method.delivery_tag)
        if len(times) == count or (now >= end and len(times) >= 2 * FEWEST_MESSAGES):
            channel.stop_consuming()

    asked = clock()
    for queue in queues:
        channel.basic_consume(queue, handle, auto_ack=auto_ack)
    longest = FAILED_AFTER_SECONDS + (
        seconds if seconds is not None else (count or 0) * (work + 0.1)
    )
    longest += publish() if publish else 0.0
    timer = connection.call_later(longest, channel.stop_consuming)
    channel.start_consuming()
    connection.remove_timeout(timer)
    channel.close()
    if len(times) < (FEWEST_MESSAGES if count is None else count):
        raise ControlmqError(
            f"only {len(times)} messages came in {longest:.0f} seconds; is the broker blocked "
            "by an alarm, or busy?"
        )
    return Handled(asked, times, sent)
