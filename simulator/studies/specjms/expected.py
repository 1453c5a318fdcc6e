"""The message rates of a topology by arithmetic: messages sent and received a second.

With SM supermarkets, DC centres, zeta offers per call and rates l1 to l7 (Sachs, section 4.3)::

    interaction      sent a second            received a second
    1                6 l1 SM                  6 l1 SM
    2                (zeta + 7) l2 DC         (2 zeta + 6) l2 DC
    4, 5             l SM                     l SM
    3, 6, 7          l                        l SM
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.studies.specjms.message_types import TYPES, of_interaction
from simulator.studies.specjms.topology import Topology


@dataclass(frozen=True)
class Expected:
    """Messages a second by type: those sent, and those received by all subscribers."""

    sent: dict[str, float]
    received: dict[str, float]

    def of_interaction(self, number: int) -> tuple[float, float]:
        """Messages of an interaction sent and received a second."""
        return of_interaction(self.sent, number), of_interaction(self.received, number)


def expected(topology: Topology) -> Expected:
    """The rates of a topology."""
    sent = {each.name: topology.starts[each.interaction - 1] for each in TYPES}
    sent["offer"] *= topology.offers
    received = dict(sent)
    received["callForOffers"] *= topology.offers
    for name in ("priceUpdate", "productAnnouncement", "creditCardHL"):
        received[name] *= topology.supermarkets
    return Expected(sent, received)
