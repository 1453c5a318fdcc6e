"""A live consumer with a bound on its rate, while the network stalls and its round trip changes.

The most hand-overs of any stretch are counted by the core's clock, for which the bound holds, and
by the handler's own, which starts a little later each time.

What is judged is the share of the rate while the network forwards. While it stands still nothing
can come, so the smaller of bound and capacity is nothing, and a ceiling must not make up for it
beyond its burst: the stalls here take 2 % of all time by themselves. ``share_of_bound`` has their
time in it, too. The time in which the law follows a changed round trip counts in both.

Parts: ``default`` (half an hour), ``pool``, ``asynchronous`` and ``burst_1`` (five minutes each, in
which everything happens once).

Nothing keeps the processors awake here. Where the handlers are threads, loops that do so kept the
broker from reading for up to 0.16 s, again and again: it had unread acks of every slot then. A
ceiling must not make up for that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pika

import controlmq
from benchmarks.live_consumer import Bed, bed, work
from benchmarks.live_goals import Stolen
from benchmarks.measure import at_least, at_most, beside, chosen, verdict
from controlmq import WorkerPool
from controlmq.consumer.consumer import Consumer
from tests.testbed.proxy import ROUND_TRIP, Proxy
from tests.testbed.publishing import Publisher

RATE = 400.0
SECONDS = 1800.0
SHORT_SECONDS = 300.0
POOL_WORKERS = 4
STRETCHES = (0.1, 1.0, 10.0, 60.0)
"""Seconds."""

LEAST_SHARE, MOST_WAITING = 0.98, 2.0
"""Asked for: of the smaller of rate and capacity, with the default burst; messages."""

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


def noted(consumer: Consumer, times: list[float], waits: list[float]) -> None:
    """Add when a consumer hands messages over, by the core's clock, to ``times``.

    And to ``waits`` the seconds for which each was here before.
    """
    count = consumer.gate.count

    def counted(since: float, now: float) -> None:
        times.append(now)
        waits.append(now - since)
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


@dataclass(frozen=True)
class Run:
    """How a consumer runs: handlers inline or in a pool of ``workers``, which channel it has."""

    seconds: float = SHORT_SECONDS
    burst: float | None = None
    workers: int = 0
    asynchronous: bool = False


Threadsafe = Callable[[Callable[[], None]], Any]
Program = Callable[[Any, Threadsafe], None]
"""Called with a channel, and with what has a call made by the thread of its connection."""


def on_a_blocking_channel(
    parameters: Any, seconds: float, program: Program, finish: Callable[[], None]
) -> None:
    """Run a program for so long; ``finish`` when nothing comes any more."""
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    program(channel, connection.add_callback_threadsafe)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.process_data_events(0.5)
    channel.stop_consuming()
    finish()
    connection.close()


def on_an_asynchronous_channel(
    parameters: Any, seconds: float, program: Program, finish: Callable[[], None]
) -> None:
    """The same with pika's ``SelectConnection``."""

    def begin(channel: Any) -> None:
        program(channel, connection.ioloop.add_callback_threadsafe)
        connection.ioloop.call_later(seconds, end)

    def end() -> None:
        finish()
        connection.close()

    connection = pika.SelectConnection(
        parameters,
        on_open_callback=lambda connection: connection.channel(on_open_callback=begin),
        on_close_callback=lambda connection, reason: connection.ioloop.stop(),
    )
    connection.ioloop.start()


def bounded(bed: Bed, how: Run) -> dict[str, Any]:
    """Run a consumer, and count what it handed over."""
    starts: list[float] = []
    hand_overs: list[float] = []
    waits: list[float] = []
    pool = WorkerPool(how.workers) if how.workers else None
    consumers: list[Consumer] = []

    def program(channel: Any, threadsafe: Threadsafe) -> None:
        def handle(channel: Any, tag: int) -> None:
            starts.append(time.monotonic())
            work()
            ack = partial(channel.basic_ack, tag)
            ack() if pool is None else threadsafe(ack)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if pool is None:
                handle(channel, method.delivery_tag)
            else:
                pool.submit(handle, channel, method.delivery_tag)

        controlmq.wrap(channel, at_most=RATE, burst=how.burst, handlers=pool)
        tag = channel.basic_consume(queue, on_message)
        consumers.append(channel.adaptive_consumers[tag].plant)
        noted(consumers[0], hand_overs, waits)

    runs = on_an_asynchronous_channel if how.asynchronous else on_a_blocking_channel
    stolen = Stolen()
    with (
        bed.filled_queue("classic", 2000) as queue,
        Publisher(bed.broker.url, queue, [(1.0, PUBLISHED_RATE)], size=256),
        Disturbed(bed.proxy) as network,
    ):
        finish = pool.shutdown if pool is not None else lambda: None
        stolen.note()
        runs(bed.proxy.parameters, how.seconds, program, finish)
        stolen.note()
    return judged(how, hand_overs, waits, starts, network.stalled_seconds, consumers[0]) | {
        "stolen_percent": stolen.percent()[0]
    }


def judged(
    how: Run,
    hand_overs: Sequence[float],
    waits: Sequence[float],
    starts: Sequence[float],
    stalled_seconds: float,
    consumer: Consumer,
) -> dict[str, Any]:
    """What a run handed over, beside what it may and what it must."""
    elapsed = hand_overs[-1] - hand_overs[0]
    handed_over = len(hand_overs) - 1
    bucket = consumer.gate.bucket
    assert bucket is not None
    share = handed_over / (RATE * (elapsed - stalled_seconds))
    # Little's law: seconds waited for every second are the mean number that waits.
    waiting = sum(waits) / elapsed
    most = {f"{each:g}": most_in(hand_overs, each) for each in STRETCHES}
    of_rate = "% of the rate while the network forwards"
    return {
        "rate": RATE,
        "burst": bucket.burst,
        "handlers": how.workers or ("asynchronous" if how.asynchronous else "inline"),
        "seconds": how.seconds,
        "stalled_seconds": stalled_seconds,
        "mean": handed_over / elapsed,
        "share_of_bound": handed_over / (RATE * elapsed),
        "share_of_bound_and_capacity": share,
        "waiting_mean": waiting,
        "most_allowed": {f"{each:g}": RATE * each + bucket.burst for each in STRETCHES},
        "most_handed_over": most,
        "most_started": {f"{each:g}": most_in(starts, each) for each in STRETCHES},
        **verdict(
            *(
                at_most(
                    f"most hand-overs in {each:g} s", most[f"{each:g}"], RATE * each + bucket.burst
                )
                for each in STRETCHES
            ),
            # A burst of 1 loses a token whenever the network is late, so nothing is asked of it.
            beside(of_rate, 100 * share)
            if how.burst is not None
            else at_least(of_rate, 100 * share, 100 * LEAST_SHARE),
            at_most("messages that wait, mean", waiting, MOST_WAITING),
        ),
    }


def run(*parts: str) -> dict[str, Any]:
    """A long run with the default burst, and short ones of other kinds."""
    runs = {
        "default": Run(SECONDS),
        "pool": Run(workers=POOL_WORKERS),
        "asynchronous": Run(asynchronous=True),
        "burst_1": Run(burst=1.0),
    }
    with bed(keep_awake=False) as where:
        return {name: bounded(where, how) for name, how in chosen(runs, parts).items()}
