"""Interactions 1 and 3 of SPECjms2007 on a real broker, against the simulator after calibration.

The scale is Schmid's: interaction 1 with one supermarket, one distribution centre and one
headquarters at 1.539 orders/s, interaction 3 with two headquarters, ten supermarkets and 6 price
updates/s. The broker's costs come from ``controlmq calibrate``. What these clients take on top
(they send persistent messages with confirms, and sleep between two of them) comes from other
interactions: 2, a chain of eight messages, and 6, an announcement to one, five and fourteen
supermarkets, sent as a price update is. Nothing of interactions 1 and 3 is used to calibrate.

All of them take turns of a few seconds, again and again: machines become faster and slower while
one looks at them. Each has a process of its own, so that nobody waits for another's core, and the
broker has the other core where there are two.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.measure import on_core
from controlmq.experiments.calibrated_scenario import broker_of, consumer_of, links_of
from controlmq.experiments.live_specjms import observed, plan_of
from controlmq.measure.calibration import Calibration, Line, calibrate
from controlmq.measure.flows import Driver, Notes, Plan, run_flows
from simulator.engine.latency_bins import quantile
from simulator.studies.specjms import Deployment, Option, Phases, Topology, Workload, workload
from simulator.studies.specjms import run as simulate
from simulator.studies.specjms.flow import base_type
from simulator.studies.specjms.message_types import GROUPS
from tests.testbed import Broker, start_broker

CALIBRATION_SECONDS = 25.0
"""Seconds."""

TURNS = 7
READY_AFTER_SECONDS = 10.0
"""Seconds until all processes are ready."""

TURN_PAUSE_SECONDS = 0.3
"""Seconds between the last start of a turn and the first of the next one."""

ALLOWED_ERROR_PERCENT = 10.0

AUTHOR = {1: 13.21, 3: 41.4}
"""Schmid's median error of interaction 1, as stated, and the error of interaction 3; percent."""

COPIES = (1, 5, 14)
"""Supermarkets that an announcement goes to, for what a copy takes."""

AS_PRICES = {"productAnnouncement": Option(GROUPS["b"], "type")}
"""Announcements are persistent and confirmed, as price updates are."""


@dataclass(frozen=True)
class Case:
    """What runs on both brokers, on the real one for ``turn`` seconds at a time."""

    topology: Topology
    turn: float
    types: Mapping[str, Option] | None = None

    def workload(self, deployment: Deployment | None = None) -> Workload:
        """Its scenario, simulated for long enough that medians are steady."""
        phases = Phases(1.0, 100.0, 10.0)
        return workload(self.topology, phases, deployment, types=self.types)


def of(interaction: int, rate: float, shops: int = 1, offices: int = 1) -> Topology:
    """One interaction alone, with one distribution centre and one supplier."""
    rates = tuple(rate if number == interaction else 0.0 for number in range(1, 8))
    return Topology(f"interaction {interaction}", shops, 1, 1, offices, 1, 1.0, rates)


ORDERS = Case(of(1, 1.53920154), 6.5)
PRICES = Case(of(3, 6.0, shops=10, offices=2), 2.5)
PURCHASES = Case(of(2, 1.6), 5.0)
ANNOUNCEMENTS = {
    copies: Case(of(6, 6.0, shops=copies, offices=2), 1.5, AS_PRICES) for copies in COPIES
}
CASES = {"orders": ORDERS, "prices": PRICES, "purchases": PURCHASES} | {
    f"announcements {copies}": case for copies, case in ANNOUNCEMENTS.items()
}

Latencies = dict[str, list[float]]


def in_turns(case: Case, begins: list[float], seconds: float) -> Plan:
    """What real clients do from each time in ``begins`` on, until all is over."""
    plan = plan_of(case.workload(), together=True)
    (locations,) = plan.processes.values()
    count = sum(len(location.drivers) for location in locations)
    number = itertools.count()

    def timed(driver: Driver, rate: float) -> Driver:
        # Drivers of one interaction take turns, too.
        first = (next(number) + 0.5) / count
        each = [(first + start) / rate for start in range(round(case.turn * rate))]
        return replace(driver, times=[begin + time for begin in begins for time in each])

    rate = max(case.topology.starts) / count
    timely = [
        replace(location, drivers=[timed(driver, rate) for driver in location.drivers])
        for location in locations
    ]
    return replace(plan, processes={case.topology.name: timely}, seconds=seconds)


def measured(url: str) -> dict[str, Latencies]:
    """Seconds of every message, by case and type."""
    begins: dict[str, list[float]] = {name: [] for name in CASES}
    end = 0.0
    for _ in range(TURNS):
        for name, case in CASES.items():
            begins[name].append(end)
            end += case.turn + TURN_PAUSE_SECONDS
    begin = time.monotonic() + READY_AFTER_SECONDS
    with ThreadPoolExecutor(len(CASES)) as pool:
        runs = {
            name: pool.submit(run_flows, url, in_turns(case, begins[name], end), begin=begin)
            for name, case in CASES.items()
        }
        notes = {name: running.result() for name, running in runs.items()}
    if any(each.began != begin for each in notes.values()):
        raise AssertionError(
            f"not everybody was ready after {READY_AFTER_SECONDS:g} seconds; give them more."
        )
    return {name: latencies(each) for name, each in notes.items()}


def latencies(notes: Notes) -> Latencies:
    found: Latencies = {}
    for (_, type_), rows in observed(notes).received.items():
        found.setdefault(base_type(type_), []).extend((rows[:, 2] - rows[:, 0]).tolist())
    return found


def simulated(case: Case, deployment: Deployment) -> dict[str, float]:
    """The median of each type, seconds."""
    done = simulate(case.workload(deployment))
    counts: dict[str, Any] = {}
    for queue, latency in done.deliveries.items():
        name = queue.partition(".")[2]
        counts[name] = counts.get(name, 0) + np.asarray(latency.counts)
    return {name: quantile(each, 0.5) for name, each in counts.items()}


def plain(found: Calibration, rate: float) -> Deployment:
    """As ``controlmq calibrate`` has it, at a rate of messages."""
    driving, link = links_of(found, 0.0, found.latency_at(rate))
    overhead = consumer_of(found, "queue", 0.0, 20.0).overhead
    return Deployment(
        broker_of(found), link, driving, write_first=False, work=0.0, overhead=overhead
    )


def fitted(
    found: Calibration, chain: dict[str, float], copies: dict[int, float]
) -> tuple[Deployment, Deployment]:
    """The deployments of interactions 1 and 3, from medians of 2 and 6.

    A copy takes what each supermarket adds to an announcement. What the simulated messages of
    a chain are short of on average is the link's of those who answer, and the rest of the first
    message's the driver's.
    """
    line = Line.through((float(number), taken) for number, taken in copies.items())
    start = plain(found, PURCHASES.topology.starts[1])
    assert start.broker is not None
    assert start.driving is not None
    each = max(line.slope - start.broker.deliver / 2, 0.0)
    broker = replace(start.broker, copy=each / 2, enqueue=each / 2)
    answering = replace(start, broker=broker)
    short = _short(PURCHASES, answering, chain)
    first = short.pop("callForOffers")
    link = replace(
        start.link, round_trip=_longer(start.link.round_trip, statistics.mean(short.values()))
    )
    # Half of the link is on the way of the first message too.
    first -= (link.round_trip - start.link.round_trip) / 2
    driving = replace(start.driving, round_trip=_longer(start.driving.round_trip, 2 * first))
    orders = replace(answering, link=link, driving=driving)
    telling = [
        _short(ANNOUNCEMENTS[number], orders, {"productAnnouncement": taken})
        for number, taken in copies.items()
    ]
    more = statistics.mean(each["productAnnouncement"] for each in telling)
    prices = replace(
        orders, driving=replace(driving, round_trip=_longer(driving.round_trip, 2 * more))
    )
    return orders, prices


def _short(case: Case, deployment: Deployment, medians: dict[str, float]) -> dict[str, float]:
    """What simulated messages are short of, seconds."""
    found = simulated(case, deployment)
    return {name: taken - found[name] for name, taken in medians.items()}


def _longer(round_trip: float, by: float) -> float:
    return max(round_trip + by, 0.0)


@contextmanager
def bed() -> Iterator[Broker]:
    """The broker has one core and the clients another where there are two."""
    with on_core(-1):
        started = start_broker()
        broker = started.__enter__()
    try:
        with on_core(0):
            yield broker
    finally:
        started.__exit__(None, None, None)


def run() -> dict[str, Any]:
    with bed() as broker:
        print("  calibrating", file=sys.stderr)
        found = calibrate(broker.url, CALIBRATION_SECONDS)
        print(f"  {', '.join(CASES)}, {TURNS} turns", file=sys.stderr)
        return compared(found, measured(broker.url))


def compared(found: Calibration, results: dict[str, Latencies]) -> dict[str, Any]:
    medians = {
        name: {type_: statistics.median(values) for type_, values in types.items()}
        for name, types in results.items()
    }
    copies = {
        number: medians[f"announcements {number}"]["productAnnouncement"] for number in COPIES
    }
    orders, prices = fitted(found, medians["purchases"], copies)
    interactions = {
        1: judged(ORDERS, results["orders"], orders, plain(found, ORDERS.topology.starts[0])),
        3: judged(PRICES, results["prices"], prices, plain(found, PRICES.topology.starts[2])),
    }
    errors = {
        number: statistics.median(row["error_percent"] for row in rows.values())
        for number, rows in interactions.items()
    }
    return {
        "peer": "a real RabbitMQ broker",
        "milliseconds": {f"interaction {number}": rows for number, rows in interactions.items()},
        "median_error_percent": {f"interaction {n}": error for n, error in errors.items()},
        "author_percent": {f"interaction {n}": error for n, error in AUTHOR.items()},
        "allowed_percent": ALLOWED_ERROR_PERCENT,
        "met": {f"interaction {n}": error <= ALLOWED_ERROR_PERCENT for n, error in errors.items()},
        "calibrated_on_ms": {
            name: {type_: 1000 * taken for type_, taken in types.items()}
            for name, types in medians.items()
            if name not in ("orders", "prices")
        },
        "calibration": asdict(found),
        "deployments": {"interaction 1": asdict(orders), "interaction 3": asdict(prices)},
    }


def judged(
    case: Case, values: Latencies, deployment: Deployment, without_clients: Deployment
) -> dict[str, dict[str, float]]:
    predicted, less = simulated(case, deployment), simulated(case, without_clients)
    rows = {}
    for name, each in values.items():
        taken = statistics.median(each)
        rows[name] = {
            "count": len(each),
            "measured": 1000 * taken,
            "simulated": 1000 * predicted[name],
            "error_percent": 100 * abs(predicted[name] / taken - 1),
            "calibrate_alone": 1000 * less[name],
            "calibrate_alone_error_percent": 100 * abs(less[name] / taken - 1),
        }
    return rows
