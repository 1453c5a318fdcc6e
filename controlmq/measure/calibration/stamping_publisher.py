"""A publisher in a separate process that stamps each message with the time it was sent.

Consumer and publisher run on one machine, so both use the same clock: latency is the time of
handling minus the stamp.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from controlmq.clients.pika.connecting import connection_to

STAMP = struct.Struct("d")
clock = time.monotonic

FIRST_AFTER_SECONDS = 0.05
"""Seconds from the first look at the clock to the first message."""

HEARTBEATS_EVERY_SECONDS = 5.0
"""Seconds between looks at a connection that has nothing to send, for its heartbeats."""


class PacedPublisher:
    """Publishes on request in a separate process; :func:`publishing_process` starts one."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe

    def send(self, exchange: str, routing_key: str, gaps: Sequence[float], size: int = 0) -> float:
        """Ask for messages that follow one another by ``gaps`` seconds; do not wait for them.

        Messages are transient and have at least 8 bytes. Returns in how many seconds the last
        one is sent, if those of an earlier call have been.
        """
        self._pipe.send((exchange, routing_key, list(gaps), max(size, STAMP.size)))
        return FIRST_AFTER_SECONDS + sum(gaps)


@contextmanager
def publishing_process(url: str) -> Iterator[PacedPublisher]:
    """A publisher that is connected when the ``with`` block is entered and ended after it."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_publish, args=(theirs, url), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield PacedPublisher(ours)
    finally:
        process.terminate()
        process.join()
        ours.close()


def sent_at(body: bytes) -> float:
    """When a message was sent, on this module's ``clock``."""
    (time_sent,) = STAMP.unpack_from(body)
    return float(time_sent)


def _publish(pipe: Any, url: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that measures
    _leave_the_consumers_core()
    # The pipe ends when the process that measures does.
    with suppress(EOFError), connection_to(url) as connection:
        channel = connection.channel()
        pipe.send("connected")
        while True:
            while not pipe.poll(HEARTBEATS_EVERY_SECONDS):
                connection.process_data_events(0)
            exchange, routing_key, gaps, size = pipe.recv()
            padding = bytes(size - STAMP.size)
            due = clock() + FIRST_AFTER_SECONDS
            for gap in gaps:
                due += gap
                while (wait := due - clock()) > 0:
                    time.sleep(wait)
                channel.basic_publish(exchange, routing_key, STAMP.pack(clock()) + padding)
            # Frames of the last messages may still wait in a buffer of ours.
            connection.process_data_events(0)


def _leave_the_consumers_core() -> None:
    """Run on other cores than those the consumer that started us is bound to."""
    if hasattr(os, "sched_setaffinity"):
        cores = set(range(os.cpu_count() or 1))
        # Refused where we may use no other.
        with suppress(OSError):
            os.sched_setaffinity(0, cores - os.sched_getaffinity(0) or cores)
