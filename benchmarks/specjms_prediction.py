"""Completion times of SPECjms2007 predicted for a higher BASE from those measured at a lower one.

The measurements and the author's predictions are those of Sachs for a broker on an 8-core
server with 1 Gbit/s. The service demands were never published, so ours are worked out:

- the network is known: bytes over 1 Gbit/s, in each direction, first-come-first-served;
- what a hop takes beyond it, it takes at the broker, as D / (1 - load): exponential service by
  one server, which the eight cores count as. Demands stay, and loads grow in proportion to BASE;
- each delivery group has a load of its own: persistent messages wait for the disk too, and
  subscriptions are fed by other parts of a broker than queues.

Demands come from the lower BASE of the scenario that is predicted. Loads cannot: a time alone
does not say how much of it was spent waiting. They are what the *other* scenarios show between
their two values of BASE, and assumed to be the same at the higher BASE of each. Nothing measured
at the higher BASE of a scenario is used to predict it. ``assumed_load`` says what follows when one
load is assumed for all instead.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simulator.specjms import TYPES, expected, vertical
from simulator.specjms.messages import BY_NAME, BYTES, GROUPS
from simulator.specjms.topology import Topology

BYTES_PER_MS = 125_000.0
ASSUMED = (0.5, 0.6, 0.65, 0.7, 0.8)

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


def groups_of(interaction: int) -> list[str]:
    """The delivery group of each hop on the path of an interaction."""
    return [BY_NAME[name].group for name in PATHS[interaction]]


def hop_times(times: dict[int, float]) -> dict[str, list[float]]:
    """Those of one hop, by group, of the interactions that stay within one."""
    return {
        group: [
            time / len(PATHS[number])
            for number, time in times.items()
            if set(groups_of(number)) == {group}
        ]
        for group in GROUPS
    }


def at_broker(case: Case, base: int, measured: dict[int, float]) -> dict[int, float]:
    """Milliseconds beyond those on the network."""
    return {number: time - network(case, base, number) for number, time in measured.items()}


def loads_of(case: Case) -> dict[str, list[float]]:
    """How busy each group was at the higher BASE, by every interaction that stays within it."""
    before = hop_times(at_broker(case, case.low, case.measured_low))
    after = hop_times(at_broker(case, case.high, case.measured_high))
    ratio = case.low / case.high
    return {
        # Hops grow by (1 - load * ratio) / (1 - load); this is solved for the load.
        group: [(late - early) / (late - early * ratio) for early, late in pairs]
        for group in GROUPS
        if (pairs := list(zip(before[group], after[group], strict=True)))
    }


def others_loads(case: Case) -> dict[str, float]:
    """The mean load of each group in all scenarios but this one."""
    shown: dict[str, list[float]] = {}
    for other in CASES:
        if other is not case:
            for group, loads in loads_of(other).items():
                shown.setdefault(group, []).extend(loads)
    return {group: statistics.fmean(loads) for group, loads in shown.items()}


def predicted(case: Case, loads: dict[str, float]) -> dict[int, float]:
    """Milliseconds at the higher BASE, from those measured at the lower one and the loads."""
    growth = {
        group: (1 - load * case.low / case.high) / (1 - load) for group, load in loads.items()
    }
    times = at_broker(case, case.low, case.measured_low)
    hops = hop_times(times)
    values = {}
    for number, time in times.items():
        # A path through several groups is shared out as the others' hops say.
        groups = groups_of(number)
        weights = [statistics.fmean(hops[group]) for group in groups]
        grown = statistics.fmean([growth[group] for group in groups], weights)
        values[number] = time * grown + network(case, case.high, number)
    return values


def errors(found: Iterable[dict[int, float]]) -> list[float]:
    """Percent, of all interactions of all scenarios, which ``found`` has in their order."""
    return [
        100 * abs(values[number] / time - 1)
        for case, values in zip(CASES, found, strict=True)
        for number, time in case.measured_high.items()
    ]


def assumed(load: float) -> list[dict[int, float]]:
    """The predictions if all groups of all scenarios had this load."""
    return [predicted(case, dict.fromkeys(GROUPS, load)) for case in CASES]


def run() -> dict[str, Any]:
    found = [predicted(case, others_loads(case)) for case in CASES]
    ours, author = errors(found), errors(case.author for case in CASES)
    return {
        "table_ms": [
            {
                "scenario": f"{case.name}, BASE {case.low} to {case.high}",
                "interaction": number,
                "measured_low": case.measured_low[number],
                "measured_high": time,
                "ours": values[number],
                "author": case.author[number],
            }
            for case, values in zip(CASES, found, strict=True)
            for number, time in case.measured_high.items()
        ],
        "loads": {
            case.name: {"used": others_loads(case), "shown": loads_of(case)} for case in CASES
        },
        "median_error_percent": statistics.median(ours),
        "author_median_error_percent": statistics.median(author),
        "mean_error_percent": statistics.fmean(ours),
        "author_mean_error_percent": statistics.fmean(author),
        "assumed_load": {
            f"{load:.2f}": statistics.median(errors(assumed(load))) for load in ASSUMED
        },
        "met": statistics.median(ours) <= statistics.median(author),
    }
