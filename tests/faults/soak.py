"""A soak: millions of messages through one process, whose window is never still.

The consumer connects again every so many messages, in turns after closing in order and after
an error that costs it its channel. All are counted, and the memory of the process is noted.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import random
import resource
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pika.exceptions

from controlmq.clients.pika.wrap import wrap
from controlmq.loop import Sample
from tests.faults.soak_publisher import publish
from tests.testbed import Broker
from tests.testbed.publishing import QueueKind, connected, declared_queue

INTERVAL_SECONDS = 0.05
LEAST_PREFETCH, MOST_PREFETCH = 0.5, 60.0

COMING_AGAIN = 2 * int(MOST_PREFETCH)
"""Deliveries of a connection among which are all that the one before gave back: the broker puts
them at the head of the queue."""

SILENCE_SECONDS = 120.0
"""Seconds without a message after which the rest counts as lost."""

LOOK_EVERY_SECONDS = 1.0

MEMORY_SAMPLES = 1000

RECORDED_EVERY = 10
"""Memory samples from one entry in the record to the next."""

UNKNOWN_TAG = 987_654_321


@dataclass
class Seen:
    """Which numbers were handled, in memory that does not grow with them.

    ``next`` is the lowest that was not; ``ahead`` are those above it that were.
    """

    next: int = 0
    duplicates: int = 0

    def __post_init__(self) -> None:
        self.ahead: set[int] = set()

    def add(self, number: int) -> None:
        """One message."""
        if number < self.next or number in self.ahead:
            self.duplicates += 1
            return
        self.ahead.add(number)
        while self.next in self.ahead:
            self.ahead.remove(self.next)
            self.next += 1

    @property
    def handled(self) -> int:
        """Different messages so far."""
        return self.next + len(self.ahead)

    @property
    def gaps(self) -> int:
        """Messages below the highest that were not handled."""
        return max(self.ahead) + 1 - self.handled if self.ahead else 0


class Soak:
    """One soak of ``count`` messages."""

    def __init__(self, count: int, reconnect_every: int, seed: int, record: Path | None) -> None:
        self.seen = Seen()
        self.connections = 0
        self.changes = 0
        """How often the prefetch was moved."""
        self.requeued = 0
        """Messages that came again although no connection had ended that could have had them."""
        self.slots_at_losses = 0
        """Messages that lost connections had in flight, and that may be handled twice."""
        self.memory: list[int] = []
        """Bytes that the process had in memory, at equal distances."""
        self._count = count
        self._reconnect_every = reconnect_every
        self._memory_every = max(1, count // MEMORY_SAMPLES)
        self._draw = random.Random(seed)
        self._deliveries = 0
        self._record = record
        self._start = self._last_message = time.monotonic()

    def run(self, parameters: Any, queue: str) -> None:
        """Until all were handled, or nothing comes any more."""
        while not self.over:
            self.connections += 1
            with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
                self._consume(connection, queue, orderly=self.connections % 2 == 1)

    @property
    def over(self) -> bool:
        """Whether to stop."""
        silent = time.monotonic() - self._last_message > SILENCE_SECONDS
        return self.seen.handled == self._count or silent

    def _consume(self, connection: Any, queue: str, orderly: bool) -> None:
        channel = wrap(
            connection.channel(),
            100,
            self._controller,
            interval=INTERVAL_SECONDS,
            prefetch=5,
        )
        first = self._deliveries
        last = first + self._reconnect_every
        failed = False

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            nonlocal failed
            self._note(int(body))
            if method.redelivered and self._deliveries > first + COMING_AGAIN:
                self.requeued += 1
            channel.basic_ack(method.delivery_tag)
            if self.seen.handled == self._count or (self._deliveries >= last and orderly):
                channel.stop_consuming()
            elif self._deliveries >= last and not failed:
                # Messages that are here already are still handled before the channel is closed.
                failed = True
                self.slots_at_losses += consumer.plant.window.granted
                channel.basic_ack(UNKNOWN_TAG)

        def look() -> None:
            if self.over:
                channel.stop_consuming()
            elif channel.is_open:
                connection.call_later(LOOK_EVERY_SECONDS, look)

        tag = channel.basic_consume(queue, on_message)
        consumer = channel.adaptive_consumers[tag]
        look()
        with contextlib.suppress(pika.exceptions.ChannelClosedByBroker):
            channel.start_consuming()

    def _controller(self, sample: Sample, goal: float) -> float:
        self.changes += 1
        return self._draw.uniform(LEAST_PREFETCH, MOST_PREFETCH)

    def _note(self, number: int) -> None:
        self.seen.add(number)
        self._deliveries += 1
        self._last_message = time.monotonic()
        if self._deliveries % self._memory_every == 0:
            self.memory.append(resident_bytes())
            if len(self.memory) % RECORDED_EVERY == 0:
                self._write_down()

    def _write_down(self) -> None:
        """Append what has been seen so far to the record."""
        seconds = time.monotonic() - self._start
        entry = {
            "deliveries": self._deliveries,
            "handled": self.seen.handled,
            "of": self._count,
            "not_yet_handled_below_the_highest": self.seen.gaps,
            "connections": self.connections,
            "changes": self.changes,
            "requeued": self.requeued,
            "duplicates": self.seen.duplicates,
            "duplicates_bound": self.slots_at_losses,
            "memory_mb": self.memory[-1] / 2**20,
            "seconds": seconds,
            "messages_per_second": self._deliveries / seconds,
        }
        if self._record is not None:
            with self._record.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        print(
            f"  {self._deliveries:,} of {self._count:,}, {self.connections} connections, "
            f"{entry['memory_mb']:.1f} MB, {entry['messages_per_second']:.0f} messages/second",
            file=sys.stderr,
            flush=True,
        )


def resident_bytes() -> int:
    """What this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def soak(
    broker: Broker,
    kind: QueueKind,
    count: int,
    reconnect_every: int,
    seed: int = 1,
    record: Path | None = None,
) -> dict[str, Any]:
    """What ``count`` messages did to one process; ``record`` tells meanwhile, a line each time."""
    start = time.monotonic()
    soaked = Soak(count, reconnect_every, seed, record)
    with declared_queue(broker.parameters, kind) as queue:
        publisher = multiprocessing.get_context("spawn").Process(
            target=publish, args=(broker.url, queue, count), daemon=True
        )
        publisher.start()
        try:
            soaked.run(broker.parameters, queue)
        finally:
            publisher.kill()
            publisher.join()
        with connected(broker.parameters) as connection:
            left = connection.channel().queue_declare(queue, passive=True).method.message_count
    tenth = max(1, len(soaked.memory) // 10)
    first, last = (
        statistics.fmean(part) for part in (soaked.memory[:tenth], soaked.memory[-tenth:])
    )
    return {
        "queue": kind,
        "messages": count,
        "connections": soaked.connections,
        "changes": soaked.changes,
        "lost": count - soaked.seen.handled,
        "requeued": soaked.requeued,
        "duplicates": soaked.seen.duplicates + left,
        "duplicates_bound": soaked.slots_at_losses,
        "memory_first_tenth_mb": first / 2**20,
        "memory_last_tenth_mb": last / 2**20,
        "memory_change_percent": 100 * (last / first - 1),
        "messages_per_second": count / (time.monotonic() - start),
        "cpu_seconds": time.process_time(),
    }
