"""What a topology leads to, by arithmetic: messages and kilobytes a second, and their shares.

With SM supermarkets, DC centres, zeta offers per call and rates l1 to l7 (Sachs, section 4.3)::

    interaction      sent a second            received a second
    1                6 l1 SM                  6 l1 SM
    2                (zeta + 7) l2 DC         (2 zeta + 6) l2 DC
    4, 5             l SM                     l SM
    3, 6, 7          l                        l SM
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from simulator.studies.specjms.message_types import (
    BY_NAME,
    GROUPS,
    INTERACTIONS,
    TYPES,
    MessageType,
)
from simulator.studies.specjms.topology import Topology

Key = TypeVar("Key")


@dataclass(frozen=True)
class Expected:
    """Messages a second by type: those sent, and those received by all subscribers."""

    sent: dict[str, float]
    received: dict[str, float]

    def of_interaction(self, number: int) -> tuple[float, float]:
        """Messages of an interaction sent and received a second."""
        names = [each.name for each in TYPES if each.interaction == number]
        return sum(self.sent[name] for name in names), sum(self.received[name] for name in names)

    def group_shares(self, *, kilobytes: bool = False) -> dict[str, float]:
        """Percentage of what is received in each delivery group, of messages or kilobytes."""
        return shares(self.received, GROUPS, lambda each: each.group, kilobytes)

    def interaction_shares(
        self, *, kilobytes: bool = False
    ) -> tuple[dict[int, float], dict[int, float]]:
        """Percentage of what is sent, and of what is received, in each interaction."""
        sent = shares(self.sent, INTERACTIONS, lambda each: each.interaction, kilobytes)
        received = shares(self.received, INTERACTIONS, lambda each: each.interaction, kilobytes)
        return sent, received


def expected(topology: Topology) -> Expected:
    """The rates of a topology."""
    sent = {each.name: topology.starts[each.interaction - 1] for each in TYPES}
    sent["offer"] *= topology.offers
    received = dict(sent)
    received["callForOffers"] *= topology.offers
    for name in ("priceUpdate", "productAnnouncement", "creditCardHL"):
        received[name] *= topology.supermarkets
    return Expected(sent, received)


def shares(
    amounts: dict[str, float],
    keys: Iterable[Key],
    key_of: Callable[[MessageType], Key],
    kilobytes: bool = False,
) -> dict[Key, float]:
    """Percentages of amounts by type, summed up by a key of the type."""
    sums = dict.fromkeys(keys, 0.0)
    for name, amount in amounts.items():
        each = BY_NAME[name]
        sums[key_of(each)] += amount * (each.mean_size if kilobytes else 1.0)
    total = sum(sums.values())
    return {key: 100 * part / total for key, part in sums.items()}
