"""The message types of SPECjms2007: their interactions, how they are sent, their sizes.

Sachs, "Performance Modeling and Benchmarking of Event-Based Systems", chapter 4. Sizes are in
kilobytes of 1000 bytes; of 100 messages 95 have the first size, 4 the second and 1 the third.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from simulator.scenario.distributions import Size

SIZES_IN_A_CYCLE = 100
"""Messages after which the sizes that a sender gives repeat."""

BYTES_PER_KILOBYTE = 1000

Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True)
class Delivery:
    """How messages of a type are sent.

    With ``topic`` they go to every subscriber, otherwise to one queue. ``persistent`` messages are
    written to disk, and ``durable`` subscriptions survive their connection. If ``transactional``,
    the driver waits for the broker's confirm before it starts the next interaction, and the
    receiver acknowledges after its work; otherwise the receiver acknowledges on receipt.
    """

    topic: bool
    persistent: bool
    transactional: bool
    durable: bool


GROUPS = {
    "a": Delivery(topic=True, persistent=False, transactional=False, durable=False),
    "b": Delivery(topic=True, persistent=True, transactional=True, durable=True),
    "c": Delivery(topic=False, persistent=False, transactional=False, durable=True),
    "d": Delivery(topic=False, persistent=True, transactional=True, durable=True),
}


@dataclass(frozen=True)
class MessageType:
    """A type of message: its interaction, its delivery group and its three sizes in KB."""

    name: str
    interaction: int
    group: str
    sizes: tuple[float, float, float]

    def drawn(self, turn: int) -> Size:
        """Sizes in bytes, with exact shares in each cycle.

        Each sender has another ``turn``, so that they do not send their large messages together.
        """
        small, medium, large = (BYTES_PER_KILOBYTE * size for size in self.sizes)
        cycle = [small] * SIZES_IN_A_CYCLE
        for place in (20, 40, 60, 80):
            cycle[place] = medium
        cycle[0] = large
        start = 37 * turn % SIZES_IN_A_CYCLE
        return Size(distribution="replay", values=cycle[start:] + cycle[:start])


def _linear(
    name: str, interaction: int, group: str, m: float, b: float, x: tuple[int, int, int]
) -> MessageType:
    """A type whose size grows with the number of items ``x`` it carries: ``m*x + b``."""
    return MessageType(name, interaction, group, (m * x[0] + b, m * x[1] + b, m * x[2] + b))


ORDER_LINES = (5, 100, 700)
PURCHASE_LINES = (3, 35, 200)
SALES = (2, 7, 13)

TYPES = (
    _linear("order", 1, "d", 0.0565, 1.4534, ORDER_LINES),
    _linear("orderConf", 1, "d", 0.0565, 1.7374, ORDER_LINES),
    _linear("shipDep", 1, "d", 0.0787, 0.7222, ORDER_LINES),
    _linear("shipInfo", 1, "d", 0.0787, 0.8912, ORDER_LINES),
    _linear("shipConf", 1, "d", 0.0202, 0.7140, ORDER_LINES),
    _linear("statInfoOrderDC", 1, "c", 0.0153, 0.1463, ORDER_LINES),
    _linear("callForOffers", 2, "b", 0.1785, 0.8094, PURCHASE_LINES),
    _linear("offer", 2, "d", 0.2489, 0.9414, PURCHASE_LINES),
    _linear("pOrder", 2, "d", 0.2498, 1.1076, PURCHASE_LINES),
    _linear("pOrderConf", 2, "d", 0.2410, 1.3494, PURCHASE_LINES),
    _linear("invoice", 2, "d", 0.1942, 1.1211, PURCHASE_LINES),
    _linear("pShipInfo", 2, "d", 0.0827, 0.7279, PURCHASE_LINES),
    _linear("pShipConf", 2, "d", 0.0827, 0.7612, PURCHASE_LINES),
    _linear("statInfoShipDC", 2, "c", 0.0831, 0.7681, PURCHASE_LINES),
    _linear("priceUpdate", 3, "b", 0.0, 0.2310, (1, 1, 1)),
    _linear("inventoryInfo", 4, "d", 0.0970, 0.5137, (10, 100, 500)),
    # The source prints slope and offset for five sales at a time.
    _linear("statInfoSM", 5, "c", 5 * 0.3650, 5 * 0.0139 + 0.9813, SALES),
    # The printed slope is too coarse for the printed sizes, so the sizes are given.
    MessageType("productAnnouncement", 6, "a", (1.21, 0.28, 10.51)),
    _linear("creditCardHL", 7, "a", 0.0166, 0.1846, (50, 500, 3000)),
)
BY_NAME = {each.name: each for each in TYPES}
INTERACTIONS = tuple(range(1, 8))


def of_interaction(amounts: Mapping[str, Amount], interaction: int) -> Amount:
    """The sum of amounts by type over the types of an interaction."""
    return sum(amounts[each.name] for each in TYPES if each.interaction == interaction)
