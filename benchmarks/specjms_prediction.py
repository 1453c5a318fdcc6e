"""Completion times of SPECjms2007 predicted for a higher BASE from those measured at a lower one.

The measurements and the author's predictions are those of Sachs for a broker on an 8-core
server with 1 Gbit/s. The service demands were never published, so ours are worked out from the
lower BASE alone. A hop passes three stations, each first-come-first-served:

- the network in each direction, which is known: bytes over 1 Gbit/s;
- the broker, which every message passes. At the lower BASE non-persistent messages of one
  scenario take nearly the same time whatever their size and fan-out: most of it is spent waiting
  in the same line, and what they take is the time at the broker;
- the disk, which only persistent messages pass: what they take beyond the others.

In a line everybody waits alike, so that a hop grows by the same milliseconds for all, not in
proportion to its own time. Service is taken as exponential: a mean time of D / (1 - load) at one
load becomes longer by (load - before) / (1 - load) of itself at a higher one. Demands stay, loads
grow in proportion to BASE. The eight cores count as one server eight times as fast: with eight of
them apart, demands that explain the lower BASE would either overload the higher one or not be
slowed down by it at all.

One number cannot be had from a single BASE: how busy broker and disk were. It is assumed, the
same for both and for all scenarios; ``sensitivity`` says what follows from other values.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from simulator.specjms import TYPES, expected, vertical
from simulator.specjms.messages import BY_NAME, BYTES, GROUPS
from simulator.specjms.topology import Topology

LOAD = 0.7
"""Assumed share of time that both are busy at the higher BASE, a common planning limit."""

BYTES_PER_MS = 125_000.0

PATHS = {
    1: ("order", "shipDep", "shipInfo", "shipConf"),
    2: ("callForOffers", "offer", "pOrder", "pShipInfo", "pShipConf"),
    3: ("priceUpdate",),
    4: ("inventoryInfo",),
    5: ("statInfoSM",),
    6: ("productAnnouncement",),
    7: ("creditCardHL",),
}


@dataclass(frozen=True)
class Case:
    """One scenario: a lower and a higher BASE, milliseconds measured at each, and the author's."""

    name: str
    low: int
    high: int
    measured_low: dict[int, float]
    measured_high: dict[int, float]
    author: dict[int, float]


CASES = (
    Case(
        "mixed",
        300,
        550,
        {1: 10.17, 2: 15.10, 3: 3.49, 4: 2.76, 5: 1.97, 6: 1.96, 7: 2.10},
        {1: 25.19, 2: 28.27, 3: 7.20, 4: 7.35, 5: 6.52, 6: 3.26, 7: 3.67},
        {1: 20.41, 2: 30.73, 3: 7.12, 4: 7.33, 5: 4.95, 6: 4.01, 7: 4.05},
    ),
    Case("point-to-point", 600, 800, {4: 2.66, 5: 1.54}, {4: 3.75, 5: 2.62}, {4: 3.49, 5: 2.77}),
    Case(
        "publish/subscribe",
        6000,
        10000,
        {3: 3.22, 6: 0.95, 7: 1.31},
        {3: 6.75, 6: 1.44, 7: 2.22},
        {3: 4.65, 6: 1.42, 7: 1.70},
    ),
)


def topology(case: Case, base: int) -> Topology:
    """The vertical topology with the interactions of a scenario alone."""
    whole = vertical(base)
    rates = tuple(
        rate if number in case.measured_low else 0.0 for number, rate in enumerate(whole.rates, 1)
    )
    return Topology(
        case.name,
        whole.supermarkets,
        whole.centres,
        whole.suppliers,
        whole.headquarters,
        whole.families,
        whole.offered,
        rates,
    )


def network(case: Case, base: int, interaction: int) -> float:
    """Milliseconds on the network, in and out, along the path of an interaction."""
    rates = expected(topology(case, base))
    total = 0.0
    for flow in (rates.sent, rates.received):
        busy = sum(flow[each.name] * each.mean_size * BYTES for each in TYPES) / 1000 / BYTES_PER_MS
        for name in PATHS[interaction]:
            # M/D/1: half of a service time for each waiting on average, times load/(1 - load).
            service = BY_NAME[name].mean_size * BYTES / BYTES_PER_MS
            total += service * (1 + busy / (2 * (1 - busy)))
    return total


def mean_over(numbers: list[int], hops: dict[int, float], topology: Topology) -> float:
    """Milliseconds of a hop on average over all messages of these interactions."""
    weights = [topology.starts[number - 1] * len(PATHS[number]) for number in numbers]
    return statistics.fmean([hops[number] for number in numbers], weights)


def predicted(case: Case, load: float) -> dict[int, float]:
    """Milliseconds at the higher BASE, from those measured at the lower one and a load."""
    before = load * case.low / case.high
    growth = (load - before) / (1 - load)
    known = {number: network(case, case.low, number) for number in case.measured_low}
    hops = {
        number: (time - known[number]) / len(PATHS[number])
        for number, time in case.measured_low.items()
    }
    persistent = [number for number in hops if GROUPS[BY_NAME[PATHS[number][0]].group].persistent]
    others = [number for number in hops if number not in persistent]
    rates = topology(case, case.low)
    broker = mean_over(others, hops, rates)
    disk = mean_over(persistent, hops, rates) - broker
    return {
        number: time
        + network(case, case.high, number)
        - known[number]
        + len(PATHS[number]) * growth * (broker + disk * (number in persistent))
        for number, time in case.measured_low.items()
    }


def errors(values: dict[int, float], measured: dict[int, float]) -> list[float]:
    return [100 * abs(values[number] / time - 1) for number, time in measured.items()]


def median_error(load: float) -> float:
    """Percent, over all interactions of all scenarios."""
    return statistics.median(
        error for case in CASES for error in errors(predicted(case, load), case.measured_high)
    )


def run() -> dict[str, Any]:
    author = statistics.median(
        error for case in CASES for error in errors(case.author, case.measured_high)
    )
    ours = median_error(LOAD)
    return {
        "table_ms": [
            {
                "scenario": f"{case.name}, BASE {case.low} to {case.high}",
                "interaction": number,
                "measured_low": case.measured_low[number],
                "measured_high": time,
                "ours": predicted(case, LOAD)[number],
                "author": case.author[number],
            }
            for case in CASES
            for number, time in case.measured_high.items()
        ],
        "assumed_load": LOAD,
        "median_error_percent": ours,
        "author_median_error_percent": author,
        "sensitivity": {f"{load:.2f}": median_error(load) for load in (0.5, 0.6, 0.65, 0.7, 0.8)},
        "met": ours <= author,
    }
