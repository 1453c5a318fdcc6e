"""The simulator against a real broker: calibrate first, then predict what is measured.

Rates of a consumer for every prefetch from 1 to 40 on a full queue (the median over spells of
whole windows, and then over turns), latencies at 30 % of what it can take, and latencies of a
message that is copied to several queues; each directly and behind 11 ms of round trip. No point
that is compared was used to calibrate: works and publish rates differ, and so do the numbers of
copies, except that both have a single one.

The broker and the network have one core and the consumer another where there are two, as if
each had a machine of its own. Work is spun: see ``controlmq.rabbitmq.calibration.consuming``.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.measure import spread
from controlmq.cli.calibrated import PUBLISHING, broker_of, consumer_of, links_of, scenario_of
from controlmq.rabbitmq.calibration import Calibration, calibrate
from controlmq.rabbitmq.calibration.consuming import Handled, consume
from controlmq.rabbitmq.calibration.pacing import paced_publisher
from controlmq.rabbitmq.calibration.queues import TemporaryQueues, temporary_queues
from controlmq.rabbitmq.connecting import connection_to
from simulator import (
    Binding,
    Duration,
    Exchange,
    Meter,
    Publishers,
    Queue,
    Scenario,
    Simulation,
)
from tests.testbed import Broker, Proxy, start_broker
from tests.testbed.proxy import ROUND_TRIP

CALIBRATION = 30.0
"""Seconds for each of the two calibrations."""

PREFETCHES = tuple(range(1, 41))
WORKS = (0.0005, 0.001, 0.003)
TURNS = 3
RUN, SETTLE = 0.25, 0.05
"""Seconds of one turn at one point, and how many of them are not counted."""

LATENCY_PREFETCHES = (1, 3, 10, 40)
LATENCY_RUN, LOAD = 1.0, 0.3
"""Seconds of messages at one point, and the share of what the consumer can take."""

COPIES = (1, 2, 5, 10)
FANOUT_RATE, FANOUT_MESSAGES = 100.0, 100

FILL_RATE = 20_000.0
PREDICTED = 5.0
"""Seconds simulated at each point."""

LEAD = 0.1
"""Seconds before the first message that is sent at a given time."""

COLOURS = ("#0072b2", "#d55e00", "#009e73")
ALLOWED = {"rate_median": 0.03, "rate_p90": 0.08, "latency": 0.10, "fan_out": 0.10}
PICTURE = Path("simulated-broker.svg")


@dataclass(frozen=True)
class Way:
    """A way to the broker: its name, a URL that takes it, about how long it is (seconds)."""

    name: str
    url: str
    round_trip: float


@dataclass
class Measured:
    """What the real broker did on one way to it."""

    calibration: Calibration
    rates: dict[tuple[float, int], list[float]] = field(default_factory=dict)
    latencies: dict[tuple[float, int], Handled] = field(default_factory=dict)
    fan_out: dict[int, list[float]] = field(default_factory=dict)


@contextmanager
def bed() -> Iterator[tuple[Way, Way]]:
    with _on_core(-1):
        started = start_broker()
        broker = started.__enter__()
        proxy = broker.proxied(delay=ROUND_TRIP / 2)
    try:
        with _on_core(0), proxy:
            yield (
                Way("direct", broker.url, 0.0003),
                Way("11 ms", _through(broker, proxy), ROUND_TRIP),
            )
    finally:
        started.__exit__(None, None, None)


@contextmanager
def _on_core(number: int) -> Iterator[None]:
    """Run on one core alone, if there are several and the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[number]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _through(broker: Broker, proxy: Proxy) -> str:
    credentials, _, address = broker.url.removeprefix("amqp://").rpartition("@")
    return f"amqp://{credentials}@127.0.0.1:{proxy.port}/{address.partition('/')[2]}"


def measure(ways: tuple[Way, ...]) -> dict[str, Measured]:
    results = {}
    for way in ways:
        print(f"  calibrating {way.name}", file=sys.stderr)
        results[way.name] = Measured(calibrate(way.url, CALIBRATION))
    with temporary_queues(ways[0].url) as queues:
        for turn in range(TURNS):
            for way in ways:
                print(f"  rates {way.name}, turn {turn + 1} of {TURNS}", file=sys.stderr)
                for work in WORKS:
                    measure_rates(way, work, queues, results[way.name])
        for way in ways:
            print(f"  latencies {way.name}", file=sys.stderr)
            measure_latencies(way, queues, results[way.name])
            measure_fan_out(way, queues, results[way.name])
    return results


def measure_rates(way: Way, work: float, queues: TemporaryQueues, found: Measured) -> None:
    """One turn of every prefetch."""
    queue = queues.queue()
    count = sum(capacity(way, work, prefetch) * RUN + prefetch for prefetch in PREFETCHES)
    queues.fill(queue, round(1.1 * count))
    with connection_to(way.url) as connection:
        for prefetch in PREFETCHES:
            handled = consume(connection, [queue], prefetch=prefetch, work=work, seconds=RUN)
            spells = handled.after(SETTLE).spells(prefetch)
            found.rates.setdefault((work, prefetch), []).append(1 / statistics.median(spells))
    queues.purge(queue)


def capacity(way: Way, work: float, prefetch: int) -> float:
    """Messages/second that a consumer can take, at most."""
    return min(1 / (work + 0.0001), prefetch / (way.round_trip + work))


def measure_latencies(way: Way, queues: TemporaryQueues, found: Measured) -> None:
    """At random times, on average a part of what the consumer could take."""
    draw = random.Random(1)
    with connection_to(way.url) as connection:
        for work in WORKS:
            for prefetch in LATENCY_PREFETCHES:
                rate = LOAD * capacity(way, work + 0.0002, prefetch)
                gaps = [draw.expovariate(rate) for _ in range(round(rate * LATENCY_RUN))]
                queue = queues.queue()
                with paced_publisher(way.url, "", queue, gaps):
                    found.latencies[work, prefetch] = consume(
                        connection, [queue], prefetch=prefetch, work=work, count=len(gaps)
                    )


def measure_fan_out(way: Way, queues: TemporaryQueues, found: Measured) -> None:
    gaps = [1 / FANOUT_RATE] * FANOUT_MESSAGES
    with connection_to(way.url) as connection:
        for _ in range(TURNS):
            for copies in COPIES:
                exchange, bound = queues.fanout(copies)
                with paced_publisher(way.url, exchange, "", gaps):
                    handled = consume(connection, bound, prefetch=100, count=copies * len(gaps))
                values = found.fan_out.setdefault(copies, [])
                values.append(statistics.median(handled.latencies))


def predicted_rate(found: Calibration, work: float, prefetch: int) -> float:
    """Arrivals/second of the simulated consumer on a queue that was filled before."""
    scenario = scenario_of(found, work=work, prefetch=prefetch, rate=FILL_RATE)
    # Nothing is published while it is measured, so publishing may as well cost nothing.
    quickly_filled = replace(broker_of(found), publish=0.0, copy=0.0, enqueue=0.0)
    simulation = Simulation(replace(scenario, broker=quickly_filled))
    simulation.run_until(1.0)
    simulation.pause_publishers()
    simulation.run_until(1.5)
    before = simulation.totals("consumer").arrivals
    simulation.run_until(1.5 + PREDICTED)
    if simulation.counts.queued == 0:
        raise AssertionError("the simulated queue ran dry; fill it with more.")
    return (simulation.totals("consumer").arrivals - before) / PREDICTED


def predicted_latency(found: Calibration, work: float, prefetch: int, sent: list[float]) -> float:
    """The median latency of messages sent at the same times, seconds."""
    scenario = scenario_of(found, work=work, prefetch=prefetch, rate=1.0)
    gaps = [LEAD, *(after - before for before, after in pairwise(sorted(sent)))]
    every = Duration(distribution="replay", values=gaps)
    publisher = replace(scenario.publishers[0], every=every)
    simulation = Simulation(replace(scenario, publishers=[publisher]))
    meter = Meter(simulation)
    simulation.run_until(sum(gaps) + LEAD / 2)
    simulation.pause_publishers()
    simulation.run_until(sum(gaps) + 10.0)
    return meter.read().queues["queue"].latency.p50


def predicted_fan_out(found: Calibration, copies: int) -> float:
    """The median latency over all copies, seconds."""
    names = [f"queue {number}" for number in range(copies)]
    every = Duration(1 / FANOUT_RATE)
    scenario = Scenario(
        "fan-out",
        1.0,
        [Publishers("publisher", every=every, exchange="all", link=PUBLISHING)],
        [Queue(name) for name in names],
        [consumer_of(found, name, 0.0, 100, f"of {name}") for name in names],
        links_of(found, 0.0),
        [Exchange("all", "fanout")],
        [Binding("all", name) for name in names],
        broker_of(found),
    )
    simulation = Simulation(scenario)
    meter = Meter(simulation)
    simulation.run_until(20.0)
    return meter.read().types["publisher"].p50


def run() -> dict[str, Any]:
    with bed() as ways:
        measured = measure(ways)
    return compared(measured)


def compared(measured: dict[str, Measured]) -> dict[str, Any]:
    rates, latencies, fan_out = [], [], []
    for name, found in measured.items():
        known = found.calibration
        for (work, prefetch), values in found.rates.items():
            predicted = predicted_rate(known, work, prefetch)
            point = {"way": name, "work": work, "prefetch": prefetch}
            rates.append(judged(point, statistics.median(values), predicted, spread(values)))
        for (work, prefetch), handled in found.latencies.items():
            predicted = predicted_latency(known, work, prefetch, list(handled.sent))
            point = {"way": name, "work": work, "prefetch": prefetch, "count": len(handled.sent)}
            latencies.append(judged(point, statistics.median(handled.latencies), predicted))
        for copies, values in found.fan_out.items():
            predicted = predicted_fan_out(known, copies)
            point = {"way": name, "copies": copies}
            fan_out.append(judged(point, statistics.median(values), predicted, spread(values)))
    draw(rates, latencies, fan_out)
    errors = sorted(point["error"] for point in rates)
    found_errors = {
        "rate_median": statistics.median(errors),
        "rate_p90": errors[ceil(0.9 * len(errors)) - 1],
        "latency": max(point["error"] for point in latencies),
        "fan_out": max(point["error"] for point in fan_out),
    }
    return {
        "peer": "a real RabbitMQ broker and a plain pika consumer",
        "errors": found_errors,
        "latency_errors": spread([point["error"] for point in latencies]),
        "allowed": ALLOWED,
        "met": {name: found_errors[name] <= most for name, most in ALLOWED.items()},
        "calibrations": {name: asdict(found.calibration) for name, found in measured.items()},
        "rates": rates,
        "latencies": latencies,
        "fan_out": fan_out,
        "picture": str(PICTURE),
    }


def judged(
    point: dict[str, Any],
    measured: float,
    predicted: float,
    turns: dict[str, float] | None = None,
) -> dict[str, Any]:
    error = abs(predicted - measured) / measured
    return {**point, "measured": measured, "simulated": predicted, "error": error, "turns": turns}


def draw(*groups: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    grid = figure.subplots(2, 2)
    rates, latencies, fan_out = groups
    for axes, way in zip(grid[0], ("direct", "11 ms"), strict=True):
        for work, colour in zip(WORKS, COLOURS, strict=True):
            points = [p for p in rates if (p["way"], p["work"]) == (way, work)]
            x = [p["prefetch"] for p in points]
            label = f"{1000 * work:g} ms of work"
            axes.plot(x, [p["measured"] for p in points], ".", color=colour, label=label)
            axes.plot(x, [p["simulated"] for p in points], color=colour, linewidth=1)
        axes.set_title(f"{way}: dots measured, lines simulated")
        axes.set_xlabel("prefetch")
        axes.set_ylabel("arrivals (msg/s)")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8, frameon=False)
    for axes, points, title in (
        (grid[1][0], latencies, "median latency at a load of 30 %"),
        (grid[1][1], fan_out, "median latency of copies"),
    ):
        for way, colour in zip(("direct", "11 ms"), COLOURS, strict=False):
            chosen = [p for p in points if p["way"] == way]
            x, y = [[1000 * p[key] for p in chosen] for key in ("measured", "simulated")]
            axes.loglog(x, y, ".", color=colour, label=way)
        both = [1000 * p["measured"] for p in points]
        ends = [min(both), max(both)]
        axes.loglog(ends, ends, color="black", linewidth=1)
        axes.fill_between(
            ends, [0.9 * e for e in ends], [1.1 * e for e in ends], color="black", alpha=0.1
        )
        axes.set_title(f"{title}, band 10 %")
        axes.set_xlabel("measured (ms)")
        axes.set_ylabel("simulated (ms)")
        axes.legend(fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
