"""The size of the supply chain and the rate of each interaction, scaled by BASE."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from controlmq.checks import above_zero, not_negative
from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.studies.specjms.message_types import INTERACTIONS

HORIZONTAL_RATES = (1.53920154, 2.13333333, 6.0, 3.37837837, 11.54401154, 11.38519924, 9.23076923)
"""Interactions a second: 1, 4 and 5 per supermarket, 2 per distribution centre, others in all."""

VERTICAL_RATES = (
    0.076190476,
    0.106666667,
    0.05,
    0.162162162,
    0.577200577,
    0.142314991,
    0.102564103,
)
"""The same, for each unit of BASE."""

TOPOLOGIES = ("horizontal", "vertical")


@dataclass(frozen=True)
class Topology:
    """Numbers of supermarkets, distribution centres, suppliers and headquarters, and rates.

    A supplier offers a share ``offered`` of the product ``families``. ``rates`` has the seven
    interactions a second: 1, 4 and 5 of each supermarket, 2 of each distribution centre, 3, 6
    and 7 of all headquarters together. A rate of 0 leaves an interaction out.
    """

    name: str
    supermarkets: int
    centres: int
    suppliers: int
    headquarters: int
    families: int
    offered: float
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        for key in ("supermarkets", "centres", "suppliers", "headquarters", "families"):
            checks.whole(key, getattr(self, key), 1, 10_000)
        if not 0 < above_zero("offered", self.offered) <= 1:
            raise InputError(f"offered is {self.offered}; give a share above 0 and up to 1.")
        if self.offers < 1:
            raise InputError(
                f"a call for offers reaches {self.offers:g} suppliers on average; give more "
                "suppliers or let each offer more families, so that it is at least 1."
            )
        if len(self.rates) != 7 or not any(not_negative("rates", rate) for rate in self.rates):
            raise InputError(f"rates is {self.rates}; give seven, and at least one above 0.")

    @property
    def offers(self) -> float:
        """The mean number of offers after a call for offers: Sachs' zeta."""
        return self.suppliers * self.offered

    @property
    def starts(self) -> tuple[float, ...]:
        """Interactions of each kind a second, over all locations."""
        shops, centres = self.supermarkets, self.centres
        senders = (shops, centres, 1, shops, shops, 1, 1)
        return tuple(rate * number for rate, number in zip(self.rates, senders, strict=True))

    def only(self, interactions: Collection[int]) -> Topology:
        """The same locations with only some of the interactions."""
        for number in interactions:
            checks.whole("interaction", number, 1, len(INTERACTIONS))
        rates = tuple(
            rate if number in interactions else 0.0
            for number, rate in zip(INTERACTIONS, self.rates, strict=True)
        )
        return replace(self, rates=rates)

    def suppliers_of_families(self) -> dict[tuple[tuple[int, ...], int], float]:
        """Who offers a family and which of them gets the order, with the share of such families.

        Families are dealt out to suppliers in turn, so that each has its share and the average
        number of offers is exact.
        """
        found: Counter[tuple[tuple[int, ...], int]] = Counter()
        dealt = 0
        for family in range(self.families):
            until = math.floor((family + 1) * self.offers + 1e-9)
            offering = tuple(sorted(each % self.suppliers for each in range(dealt, until)))
            found[offering, offering[family // 2 % len(offering)]] += 1
            dealt = until
        return {key: count / self.families for key, count in found.items()}


def horizontal(base: int) -> Topology:
    """More locations with every unit of BASE, each as busy as before."""
    checks.whole("base", base, 1, 2_000)
    return Topology(
        f"horizontal, BASE {base}",
        supermarkets=base,
        centres=math.ceil(base / 5),
        suppliers=math.ceil(0.4 * base),
        headquarters=math.ceil(base / 10),
        families=base,
        offered=min(5 / base, 1.0),
        rates=HORIZONTAL_RATES,
    )


def vertical(base: float) -> Topology:
    """A fixed set of locations, busier with every unit of BASE."""
    above_zero("base", base)
    return Topology(
        f"vertical, BASE {base:g}",
        supermarkets=10,
        centres=2,
        suppliers=5,
        headquarters=2,
        families=100,
        offered=0.5,
        rates=tuple(rate * base for rate in VERTICAL_RATES),
    )


def scaled(topology: str, base: float) -> Topology:
    """The horizontal or vertical topology at a BASE; a freeform one is a :class:`Topology`."""
    checks.choice("topology", topology, TOPOLOGIES)
    if topology == "vertical":
        return vertical(base)
    if base != int(base):
        raise InputError(f"base is {base:g}; a horizontal topology needs a whole number.")
    return horizontal(int(base))
