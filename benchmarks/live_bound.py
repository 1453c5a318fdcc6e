"""A live consumer with a bound on its rate, while the network stalls and its round trip changes.

The most hand-overs of any stretch are counted by the core's clock, for which the bound holds, and
by the handler's own, which starts a little later each time.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pika

import controlmq
from benchmarks.live_consumer import Bed, bed, work
from controlmq import Step, WorkerPool
from controlmq.consumer.consumer import Consumer
from tests.testbed.proxy import ROUND_TRIP
from tests.testbed.publishing import Publisher

RATE = 400.0
SECONDS = 1800.0
SHORT_SECONDS = 120.0
STRETCHES = (0.1, 1.0, 10.0, 60.0)
"""Seconds."""

DISTURBANCES = ((5.0, 0.3, 1.0), (8.0, 0.0, 4.7), (14.0, 0.0, 0.5), (20.0, 0.0, 1.0))
"""Seconds after which something happens, again and again: seconds for which the network forwards
nothing, and then how many times its usual round trip it has."""

PUBLISHED_RATE = 520.0
"""Messages/second, so that the queue never runs dry."""


@contextmanager
def disturbed(bed: Bed) -> Iterator[None]:
    """A network that stalls and changes, until the end of the block."""
    over = threading.Event()

    def disturb() -> None:
        while True:
            begun = time.monotonic()
            for after, stalled, factor in DISTURBANCES:
                if over.wait(max(0.0, begun + after - time.monotonic())):
                    return
                if stalled:
                    bed.proxy.stall()
                    over.wait(stalled)
                    bed.proxy.resume()
                bed.proxy.set_delay(factor * ROUND_TRIP / 2)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        bed.proxy.set_delay(ROUND_TRIP / 2)


def noted(consumer: Consumer, times: list[float]) -> None:
    """Add the times of a consumer's hand-overs, by the core's clock, to ``times``."""
    count = consumer.gate.count

    def counted(since: float, now: float) -> None:
        times.append(now)
        count(since, now)

    consumer.gate.count = counted  # type: ignore[method-assign]


def most_in(times: Sequence[float], stretch: float) -> int:
    """The most of these times within any stretch of this length, both ends included."""
    ordered, first, most = sorted(times), 0, 0
    for last, time_ in enumerate(ordered):
        while time_ - ordered[first] > stretch:
            first += 1
        most = max(most, last - first + 1)
    return most


def bounded(bed: Bed, seconds: float, burst: float | None, workers: int) -> dict[str, Any]:
    """Run a consumer for so long, with its handlers inline or in a pool of ``workers``."""
    starts: list[float] = []
    hand_overs: list[float] = []
    steps: list[Step] = []
    pool = WorkerPool(workers) if workers else None
    with bed.filled_queue("classic", 2000) as queue, disturbed(bed):
        connection = pika.BlockingConnection(bed.proxy.parameters)

        def handle(channel: Any, tag: int) -> None:
            starts.append(time.monotonic())
            work()
            ack = partial(channel.basic_ack, tag)
            ack() if pool is None else connection.add_callback_threadsafe(ack)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if pool is None:
                handle(channel, method.delivery_tag)
            else:
                pool.submit(handle, channel, method.delivery_tag)

        channel = controlmq.wrap(
            connection.channel(),
            at_most=RATE,
            burst=burst,
            handlers=pool,
            on_step=steps.append,
        )
        tag = channel.basic_consume(queue, on_message)
        consumer = channel.adaptive_consumers[tag].plant
        noted(consumer, hand_overs)
        bucket = consumer.gate.bucket
        with Publisher(bed.broker.url, queue, [(1.0, PUBLISHED_RATE)], size=256):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                connection.process_data_events(0.5)
        channel.stop_consuming()
        if pool is not None:
            pool.shutdown()
        connection.close()
    return {
        "rate": RATE,
        "burst": bucket.burst,
        "handlers": workers or "inline",
        "seconds": seconds,
        "mean": (len(hand_overs) - 1) / (hand_overs[-1] - hand_overs[0]),
        "waiting_mean": statistics.fmean(step.sample.gated for step in steps),
        "most_allowed": {f"{each:g}": RATE * each + bucket.burst for each in STRETCHES},
        "most_handed_over": {f"{each:g}": most_in(hand_overs, each) for each in STRETCHES},
        "most_started": {f"{each:g}": most_in(starts, each) for each in STRETCHES},
    }


def run(seconds: float = SECONDS, short: float = SHORT_SECONDS) -> dict[str, Any]:
    """A long run with the default burst, and short ones with a pool and with a burst of 1."""
    with bed() as where:
        runs: dict[str, Callable[[], dict[str, Any]]] = {
            "default": partial(bounded, where, seconds, None, 0),
            "pool": partial(bounded, where, short, None, 4),
            "burst_1": partial(bounded, where, short, 1.0, 0),
        }
        return {name: measure() for name, measure in runs.items()}
