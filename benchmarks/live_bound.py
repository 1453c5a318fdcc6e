"""A live consumer with a bound on its rate, while the network stalls and its round trip changes.

The most hand-overs of any stretch are counted by the core's clock, for which the bound holds, and
by the handler's own, which starts a little later each time. What is handed over is compared with
the smaller of bound and capacity, which is nothing while the network stands still.

Parts: ``default`` (half an hour), ``pool`` and ``burst_1`` (two minutes each).
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pika

import controlmq
from benchmarks.live_consumer import Bed, bed, work
from benchmarks.measure import chosen
from controlmq import Step, WorkerPool
from controlmq.consumer.consumer import Consumer
from tests.testbed.proxy import ROUND_TRIP, Proxy
from tests.testbed.publishing import Publisher

RATE = 400.0
SECONDS = 1800.0
SHORT_SECONDS = 120.0
POOL_WORKERS = 4
STRETCHES = (0.1, 1.0, 10.0, 60.0)
"""Seconds."""

STALL_SECONDS, STALLS_EVERY_SECONDS = 0.3, 15.0
"""For so long the network forwards nothing, again and again."""

ROUND_TRIPS = {100.0: 4.7, 130.0: 0.5, 160.0: 1.0}
"""Seconds after which the network has so many times its usual round trip."""

CYCLE_SECONDS = 300.0
"""Seconds after which the round trips begin again."""

PUBLISHED_RATE = 520.0
"""Messages/second, so that the queue never runs dry."""


class Disturbed:
    """A network that stalls and changes, for the length of a ``with`` block."""

    def __init__(self, proxy: Proxy) -> None:
        self.stalled_seconds = 0.0
        self._proxy = proxy
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._disturb)

    def _disturb(self) -> None:
        stalls = CYCLE_SECONDS / STALLS_EVERY_SECONDS
        plan: list[tuple[float, float | None]] = [
            ((number + 0.5) * STALLS_EVERY_SECONDS, None) for number in range(round(stalls))
        ]
        plan += ROUND_TRIPS.items()
        plan.sort(key=lambda at: at[0])
        begun = time.monotonic()
        while True:
            for after, factor in plan:
                if self._over.wait(max(0.0, begun + after - time.monotonic())):
                    return
                if factor is None:
                    self._stall()
                else:
                    self._proxy.set_delay(factor * ROUND_TRIP / 2)
            begun += CYCLE_SECONDS

    def _stall(self) -> None:
        since = time.monotonic()
        self._proxy.stall()
        self._over.wait(STALL_SECONDS)
        self._proxy.resume()
        self.stalled_seconds += time.monotonic() - since

    def __enter__(self) -> Disturbed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._proxy.set_delay(ROUND_TRIP / 2)


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
    with bed.filled_queue("classic", 2000) as queue, Disturbed(bed.proxy) as network:
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
    elapsed = hand_overs[-1] - hand_overs[0]
    return {
        "rate": RATE,
        "burst": bucket.burst,
        "handlers": workers or "inline",
        "seconds": seconds,
        "stalled_seconds": network.stalled_seconds,
        "mean": (len(hand_overs) - 1) / elapsed,
        "share_of_bound_and_capacity": (len(hand_overs) - 1)
        / (RATE * (elapsed - network.stalled_seconds)),
        "waiting_mean": statistics.fmean(step.sample.gated for step in steps),
        "most_allowed": {f"{each:g}": RATE * each + bucket.burst for each in STRETCHES},
        "most_handed_over": {f"{each:g}": most_in(hand_overs, each) for each in STRETCHES},
        "most_started": {f"{each:g}": most_in(starts, each) for each in STRETCHES},
        "allowed": "no stretch above its bound; share at least 0.98; at most 2 waiting",
    }


def run(*parts: str) -> dict[str, Any]:
    """A long run with the default burst, and short ones with a pool and with a burst of 1."""
    runs: dict[str, tuple[float, float | None, int]] = {
        "default": (SECONDS, None, 0),
        "pool": (SHORT_SECONDS, None, POOL_WORKERS),
        "burst_1": (SHORT_SECONDS, 1.0, 0),
    }
    with bed() as where:
        return {name: bounded(where, *how) for name, how in chosen(runs, parts).items()}
