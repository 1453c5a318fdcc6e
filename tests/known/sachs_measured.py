"""Completion times of SPECjms2007 that Sachs measured and predicted, and what leads to them.

A broker on an 8-core server with 1 Gbit/s; three scenarios, each at two values of BASE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulator.studies.specjms import TYPES, MessageType, expected, vertical
from simulator.studies.specjms.message_types import BY_NAME, BYTES_PER_KILOBYTE
from simulator.studies.specjms.topology import Topology

BYTES_PER_MS = 125_000.0

SIZE_SHARES = (0.95, 0.04, 0.01)
"""Shares of messages that have the first, the second and the third size of their type."""

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
        busy = (
            sum(flow[each.name] * mean_size(each) * BYTES_PER_KILOBYTE for each in TYPES)
            / 1000
            / BYTES_PER_MS
        )
        for name in PATHS[interaction]:
            # M/D/1: half of a service time for each waiting on average, times load/(1 - load).
            service = mean_size(BY_NAME[name]) * BYTES_PER_KILOBYTE / BYTES_PER_MS
            total += service * (1 + busy / (2 * (1 - busy)))
    return total


def errors(found: Iterable[dict[int, float]], cases: Sequence[Case] = CASES) -> list[float]:
    """Percent, of all interactions of some scenarios, which ``found`` has in their order."""
    return [
        100 * abs(values[number] / time - 1)
        for case, values in zip(cases, found, strict=True)
        for number, time in case.measured_high.items()
    ]


def mean_size(kind: MessageType) -> float:
    """The mean size of a type's messages in kilobytes."""
    return sum(share * size for share, size in zip(SIZE_SHARES, kind.sizes, strict=True))
