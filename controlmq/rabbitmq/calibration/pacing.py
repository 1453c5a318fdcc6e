"""A publisher in a process of its own that stamps each message with the time it was sent.

Consumer and publisher run on one machine, so their clocks are one: what a stamp says and when
the message is handled tell the latency.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from controlmq.rabbitmq.connecting import connection_to

STAMP = struct.Struct("d")
clock = time.monotonic

LEAD = 0.05
"""Seconds from the first look at the clock to the first message."""


@contextmanager
def paced_publisher(
    url: str, exchange: str, routing_key: str, gaps: Sequence[float], size: int = 0
) -> Iterator[None]:
    """While the ``with`` block lasts, a message follows the one before by each of the ``gaps``.

    The block is entered once the publisher is connected; it is ended with the block, or by
    itself after the last message. Messages are transient and have at least 8 bytes.
    """
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    order = (url, exchange, routing_key, list(gaps), max(size, STAMP.size))
    process = spawn.Process(target=_publish, args=(theirs, *order), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield
    finally:
        process.terminate()
        process.join()
        ours.close()


def sent_at(body: bytes) -> float:
    """When a message was sent, on this module's ``clock``."""
    (time_sent,) = STAMP.unpack_from(body)
    return float(time_sent)


def _publish(
    pipe: Any, url: str, exchange: str, routing_key: str, gaps: list[float], size: int
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that measures
    if hasattr(os, "sched_setaffinity"):
        # Not on the consumer's core alone, should that be bound to one.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    padding = bytes(size - STAMP.size)
    with connection_to(url) as connection:
        channel = connection.channel()
        pipe.send("connected")
        due = clock() + LEAD
        for gap in gaps:
            due += gap
            while (wait := due - clock()) > 0:
                time.sleep(wait)
            channel.basic_publish(exchange, routing_key, STAMP.pack(clock()) + padding)
        # Frames of the last messages may still wait in a buffer of ours.
        connection.process_data_events(0)
