"""The experiments of a calibration, each of which isolates one or two figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

from controlmq.rabbitmq.calibration.consuming import Handled, consume
from controlmq.rabbitmq.calibration.figures import Line
from controlmq.rabbitmq.calibration.pacing import STAMP, clock, paced_publisher
from controlmq.rabbitmq.calibration.queues import TemporaryQueues

SIZES = (STAMP.size, 1024, 4096, 16384)
"""Bytes of a message, for what grows with them."""

WORKS = (0.0004, 0.0008, 0.0016, 0.004)
"""Seconds of work a message, for what a busy consumer takes."""

COPIES = (1, 3, 8)
"""Queues that a message is copied to."""

LATENCY_RATE = 150.0
"""Messages/second for latencies: few enough that each is handled before the next is sent, enough
that nobody has fallen asleep. At a few messages/second latencies are up to twice as long."""

SETTLE = 0.15
"""Share of a run that is not counted, while the window fills."""

TURNS = 3
"""Times that each point is measured, by turns, so that a passing disturbance hits one of them."""

PREFETCH = 100
"""Enough to keep a consumer without work busy."""


@dataclass
class Experiments:
    """All experiments on one broker; ``scale`` stretches how long they take, 1 being a minute."""

    url: str
    queues: TemporaryQueues
    scale: float = 1.0

    def __post_init__(self) -> None:
        self.connection = self.queues.connection
        self.queue = self.queues.queue()
        self.call = 0.0

    def round_trip(self) -> float:
        """Seconds that a call takes which the broker answers at once."""
        channel = self.connection.channel()
        taken: list[float] = []
        end = clock() + 1.0 * self.scale
        while clock() < end or len(taken) < 5:
            start = clock()
            channel.basic_qos(prefetch_count=1)
            taken.append(clock() - start)
        channel.close()
        self.call = statistics.median(taken)
        return self.call

    def publishing(self) -> tuple[Line, Line]:
        """Seconds a message that publishing takes, and those of the client's CPU."""
        count = max(round(400 * self.scale), 20)
        return self._lines(lambda size: self._published(size, count))

    def _published(self, size: int, count: int) -> tuple[float, float]:
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
        return max(taken, cpu) / count, cpu / count

    def delivering(self) -> tuple[Line, Line]:
        """Seconds a message that deliveries take, and those of the client's CPU."""
        count = max(round(1000 * self.scale), 20)
        return self._lines(lambda size: self._delivered(size, count, auto_ack=True))

    def acknowledging(self) -> float:
        """Seconds a message that an acknowledgement adds to a delivery."""
        count = max(round(1500 * self.scale), 50)
        size = SIZES[0]
        differences = []
        for _ in range(TURNS):
            with_acks = self._delivered(size, count, auto_ack=False)[0]
            without = self._delivered(size, count, auto_ack=True)[0]
            differences.append(with_acks - without)
        return max(statistics.median(differences), 0.0)

    def _delivered(self, size: int, count: int, auto_ack: bool) -> tuple[float, float]:
        self.queues.fill(self.queue, count, size)
        cpu = time.process_time()
        handled = consume(
            self.connection, [self.queue], prefetch=PREFETCH, count=count, auto_ack=auto_ack
        )
        cpu = time.process_time() - cpu
        # From asking to the last: messages that came together are handed over together.
        taken = handled.times[-1] - handled.asked - self.call
        return max(taken, cpu) / count, cpu / count

    def _lines(self, measure: Callable[[int], tuple[float, float]]) -> tuple[Line, Line]:
        taken: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
        for _ in range(TURNS):
            for size, values in taken.items():
                values.append(measure(size))
        medians = {
            size: tuple(map(statistics.median, zip(*values, strict=True)))
            for size, values in taken.items()
        }
        walls = Line.through((size, wall) for size, (wall, _) in medians.items())
        return walls, Line.through((size, cpu) for size, (_, cpu) in medians.items())

    def windows(self) -> Iterator[tuple[int, float, Handled]]:
        """Prefetch, work and what was handled: waiting for each message, and never waiting."""
        seconds = 0.7 * self.scale
        for _ in range(TURNS):
            for work in WORKS:
                busy = self.busy_prefetch(work)
                for prefetch in (1, busy):
                    most = 1 / work if prefetch > 1 else 1 / (work + self.call / 2)
                    self.queues.fill(self.queue, ceil(most * seconds) + 2 * prefetch + 20)
                    handled = consume(
                        self.connection,
                        [self.queue],
                        prefetch=prefetch,
                        work=work,
                        seconds=seconds,
                    )
                    self.queues.purge(self.queue)
                    yield prefetch, work, handled.after(SETTLE * seconds)

    def busy_prefetch(self, work: float) -> int:
        """A prefetch at which the next message is always there: above twice the knee."""
        return max(50, ceil(2.5 * (self.call + work) / work))

    def latencies(self) -> Iterator[tuple[int, list[float]]]:
        """Copies, and the latencies of all of them when little else goes on."""
        count = max(round(200 * self.scale), 10)
        for _ in range(TURNS):
            for copies in COPIES:
                yield copies, self.latency(copies, LATENCY_RATE, count)

    def latency(self, copies: int, rate: float, count: int) -> list[float]:
        """Latencies of ``count`` messages to as many queues, all of one consumer's connection."""
        exchange, bound = self.queues.fanout(copies)
        with paced_publisher(self.url, exchange, "", [1 / rate] * count):
            handled = consume(self.connection, bound, prefetch=PREFETCH, count=copies * count)
        return handled.latencies

    def confirms(self, persistent: bool) -> Line:
        """Seconds from a publish to its confirm, against bytes."""
        import pika

        channel = self.connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2 if persistent else 1)
        points = []
        for size in SIZES:
            body, taken = bytes(size), []
            for _ in range(max(round(40 * self.scale), 5)):
                start = clock()
                channel.basic_publish("", self.queue, body, properties)
                taken.append(clock() - start)
            points.append((float(size), statistics.median(taken)))
        channel.close()
        self.queues.purge(self.queue)
        return Line.through(points)
