"""The experiments of a calibration, each of which isolates one or two figures.

All of them are done in short turns, again and again, so that a passing disturbance hits a few of
the values of every figure and not all of one; the median counts.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from math import ceil, log
from typing import Any

import pika

from controlmq.measure.calibration.consuming import consume
from controlmq.measure.calibration.figures import Calibration, Points
from controlmq.measure.calibration.queues import TemporaryQueues
from controlmq.measure.calibration.stamping_publisher import STAMP, PacedPublisher, clock

SIZES_BYTES = (STAMP.size, 1024, 4096, 16384)
"""Bytes of a message, for what grows with them."""

WORKS_SECONDS = (0.0004, 0.0008, 0.0016, 0.004)
"""Seconds of work a message, for what a busy consumer takes."""

WINDOW_RUN_SECONDS, WINDOW_SETTLE_SECONDS = 0.2, 0.05
"""Seconds that a consumer runs at one prefetch, and how many of them are not counted."""

BUSY_PREFETCH = 100
"""Messages: enough to keep a consumer without work busy."""

STEPS = ("round trip", "publishing", "deliveries", "windows", "latency", "copies", "confirms")
"""What a turn measures, in this order."""

LINES = (
    *("publish", "publish_cpu", "deliver", "deliver_cpu", "busy", "cycle", "latency"),
    *("confirm", "persistent_confirm"),
)
CURVES = ("latency_at", "loaded_latency_at")
"""Figures of a calibration by what is made of their points."""

SECONDS_AT_RATE = {
    600.0: 0.2,
    280.0: 0.2,
    140.0: 0.25,
    65.0: 0.3,
    28.0: 0.3,
    11.0: 0.3,
    4.0: 0.5,
    1.4: 0.75,
}
"""Messages/second for latencies, and for how many seconds each. Latency depends on the rate because
idle processes take longer to wake up."""

SETTLE_SECONDS = 0.1
"""Seconds before those that count: the first messages after a pause take longer."""

LOADED_SHARE, LOADED_FROM_MESSAGES_PER_SECOND = 0.25, 60.0
"""Share of the time that a consumer with work is busy, and the messages/second from which on its
latencies are measured too; with fewer, a load like this takes long work."""

COPIED_TO_QUEUES = (1, 3, 7, 12)
"""Queues that a message is copied to."""

COPIED_MESSAGES_PER_SECOND, COPIES_RUN_SECONDS = 80.0, 0.2
"""Messages/second that are copied, and for how many seconds; few enough that all copies of one
are handled before the next is sent."""


class Experiments:
    """All experiments on one broker; ``scale`` stretches how long each of them takes.

    ``between`` is called before each measurement and may raise.
    """

    def __init__(
        self, queues: TemporaryQueues, publisher: PacedPublisher, between: Callable[[], None]
    ) -> None:
        self._between = between
        self.connection = queues.connection
        self.queues = queues
        self.publisher = publisher
        self.scale = 1.0
        self.queue = queues.queue()
        self.fanouts = {copies: queues.fanout(copies) for copies in COPIED_TO_QUEUES}
        self._random = random.Random(1)
        self._call: list[float] = []
        self._acknowledge: list[float] = []
        self._points = {name: Points() for name in (*LINES, *CURVES)}

    def turn(self) -> Iterator[str]:
        """Do every experiment once; yields after each what it has measured."""
        steps = (
            self._round_trip,
            self._publishing,
            self._delivering,
            self._windows,
            self._latencies,
            self._copying,
            self._confirming,
        )
        for what, measure in zip(STEPS, steps, strict=True):
            self._between()
            measure()
            yield what

    def found(self) -> Calibration:
        """The figures from all turns."""
        lines: dict[str, Any] = {name: self._points[name].line() for name in LINES}
        curves: dict[str, Any] = {name: self._points[name].curve() for name in CURVES}
        acknowledge = max(statistics.median(self._acknowledge), 0.0)
        return Calibration(call=self.call, acknowledge=acknowledge, **lines, **curves)

    @property
    def call(self) -> float:
        """Seconds that a call takes which the broker answers at once."""
        return statistics.median(self._call)

    def _round_trip(self) -> None:
        channel = self.connection.channel()
        end = clock() + 0.05 * self.scale
        while clock() < end or len(self._call) < 5:
            start = clock()
            channel.basic_qos(prefetch_count=1)
            self._call.append(clock() - start)
        channel.close()

    def _publishing(self) -> None:
        """Messages of each size in a row; seconds of one, and those of the client's CPU."""
        count = max(round(100 * self.scale), 20)
        for size in SIZES_BYTES:
            channel = self.connection.channel()
            body = bytes(size)
            start, cpu = clock(), time.process_time()
            for _ in range(count):
                channel.basic_publish("", self.queue, body)
            # Answered when everything before it has been routed.
            channel.queue_declare(self.queue, passive=True)
            taken, cpu = clock() - start - self.call, time.process_time() - cpu
            channel.close()
            self.queues.purge(self.queue)
            self._points["publish"].add(size, max(taken, cpu) / count)
            self._points["publish_cpu"].add(size, cpu / count)

    def _delivering(self) -> None:
        """A filled queue, acknowledged automatically; then what an acknowledgement adds."""
        count = max(round(300 * self.scale), 50)
        for size in SIZES_BYTES:
            taken, cpu = self._delivered(size, count, auto_ack=True)
            self._points["deliver"].add(size, taken)
            self._points["deliver_cpu"].add(size, cpu)
        with_acks, _ = self._delivered(SIZES_BYTES[0], count, auto_ack=False)
        without, _ = self._delivered(SIZES_BYTES[0], count, auto_ack=True)
        self._acknowledge.append(with_acks - without)

    def _delivered(self, size: int, count: int, auto_ack: bool) -> tuple[float, float]:
        self._between()
        self.queues.fill(self.queue, count, size)
        cpu = time.process_time()
        handled = consume(
            self.connection, [self.queue], prefetch=BUSY_PREFETCH, count=count, auto_ack=auto_ack
        )
        cpu = time.process_time() - cpu
        # From asking to the last: messages that came together are handed over together.
        taken = handled.times[-1] - handled.asked - self.call
        return max(taken, cpu) / count, cpu / count

    def _windows(self) -> None:
        """A consumer that waits for each message, and one that never waits."""
        seconds = WINDOW_RUN_SECONDS * self.scale
        for work in WORKS_SECONDS:
            busy = self._busy_prefetch(work)
            for prefetch, figure in ((1, "cycle"), (busy, "busy")):
                self._between()
                most = 1 / work if prefetch > 1 else 1 / (work + self.call / 2)
                self.queues.fill(self.queue, ceil(most * seconds) + 2 * prefetch + 20)
                handled = consume(
                    self.connection, [self.queue], prefetch=prefetch, work=work, seconds=seconds
                )
                self.queues.purge(self.queue)
                settled = handled.after(WINDOW_SETTLE_SECONDS * min(self.scale, 1.0))
                self._points[figure].add(work, *settled.spells())

    def _busy_prefetch(self, work: float) -> int:
        """A prefetch at which the next message is always there: above twice the knee."""
        return max(50, ceil(2.5 * (self.call + work) / work))

    def _latencies(self) -> None:
        for rate in self._random.sample(sorted(SECONDS_AT_RATE), len(SECONDS_AT_RATE)):
            self.at_rate(rate)
            if rate > LOADED_FROM_MESSAGES_PER_SECOND:
                self.at_rate(rate, loaded=True)

    def at_rate(self, rate: float, *, loaded: bool = False) -> None:
        """One queue, and a few messages at this rate, to an idle consumer or to one that works."""
        # A short calibration leaves out the lowest.
        if count := round(rate * (SETTLE_SECONDS + SECONDS_AT_RATE[rate]) * self.scale):
            work = LOADED_SHARE / rate if loaded else 0.0
            figure = "loaded_latency_at" if loaded else "latency_at"
            self._points[figure].add(rate, *self._sent(1, self._gaps(rate, count), work))

    def _gaps(self, rate: float, count: int) -> list[float]:
        """Times between messages that come at random, in equal shares from short to long."""
        gaps = [-log(1 - (number + 0.5) / count) / rate for number in range(count)]
        self._random.shuffle(gaps)
        return gaps

    def _copying(self) -> None:
        for copies in self._random.sample(COPIED_TO_QUEUES, len(COPIED_TO_QUEUES)):
            self.copied(copies)

    def copied(self, copies: int) -> None:
        """Several queues, and the latencies of all copies."""
        count = max(
            round(COPIED_MESSAGES_PER_SECOND * (SETTLE_SECONDS + COPIES_RUN_SECONDS) * self.scale),
            5,
        )
        self._points["latency"].add(
            copies, *self._sent(copies, [1 / COPIED_MESSAGES_PER_SECOND] * count)
        )

    def _sent(self, copies: int, gaps: list[float], work: float = 0.0) -> list[float]:
        """Latencies of messages to ``copies`` queues, all consumed on one connection."""
        self._between()
        exchange, bound = self.fanouts[copies]
        handled = consume(
            self.connection,
            bound,
            prefetch=BUSY_PREFETCH,
            work=work,
            count=copies * len(gaps),
            publish=lambda: self.publisher.send(exchange, "", gaps),
        )
        return handled.after(SETTLE_SECONDS * min(self.scale, 1.0)).latencies

    def _confirming(self) -> None:
        """Seconds from a publish to its confirm, transient and persistent."""
        for delivery_mode, figure in ((1, "confirm"), (2, "persistent_confirm")):
            channel = self.connection.channel()
            channel.confirm_delivery()
            properties = pika.BasicProperties(delivery_mode=delivery_mode)
            for size in SIZES_BYTES:
                body = bytes(size)
                for _ in range(max(round(4 * self.scale), 2)):
                    start = clock()
                    channel.basic_publish("", self.queue, body, properties)
                    self._points[figure].add(size, clock() - start)
            channel.close()
        self.queues.purge(self.queue)
