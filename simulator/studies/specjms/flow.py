"""The seven interactions as flows: who sends what to whom, and what follows from it.

Every supermarket is supplied by one distribution centre and reports to one headquarters. If the
answer to a message depends on a location, that is part of the type: ``order@SM3`` is answered to
``SM3``. After a call for offers the order goes to one of the suppliers that make an offer, as soon
as its own offer has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.studies.specjms.topology import Topology

LAST_TYPES = {1: "shipConf", 2: "pShipConf"}
"""The message that ends the longest path of an interaction of several messages."""


@dataclass(frozen=True)
class Start:
    """How an interaction starts: its sender, its rate per second, its type and its receivers."""

    sender: str
    interaction: int
    rate: float
    type: str
    to: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """A message that a location sends when it has worked on one of type ``on``."""

    location: str
    on: str
    type: str
    to: str


def base_type(type_: str) -> str:
    """The type under its name in SPECjms2007."""
    return type_.split("@")[0]


class Flow:
    """All starts and answers of a topology."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.shops = [f"SM{n + 1}" for n in range(topology.supermarkets)]
        self.centres = [f"DC{n + 1}" for n in range(topology.centres)]
        self.suppliers = [f"SP{n + 1}" for n in range(topology.suppliers)]
        self.headquarters = [f"HQ{n + 1}" for n in range(topology.headquarters)]
        self.starts: list[Start] = []
        self.answers: list[Answer] = []
        self._supply_shops()
        self._buy()
        self._inside_shops()
        self._inform_shops()

    def _office(self, number: int) -> str:
        return self.headquarters[number % len(self.headquarters)]

    def _supply_shops(self) -> None:
        """1: a supermarket orders from its distribution centre, which ships."""
        rate = self.topology.rates[0]
        for number, shop in enumerate(self.shops):
            if rate == 0:
                return
            place = number % len(self.centres)
            centre = self.centres[place]
            order, departure = f"order@{shop}", f"shipDep@{shop}"
            self.starts.append(Start(shop, 1, rate, order, (centre,)))
            self.answers += [
                Answer(centre, order, "orderConf", shop),
                Answer(centre, order, "statInfoOrderDC", self._office(place)),
                Answer(centre, order, departure, centre),
                Answer(centre, departure, "shipInfo", shop),
                Answer(shop, "shipInfo", "shipConf", centre),
            ]

    def _buy(self) -> None:
        """2: a distribution centre calls for offers and orders from a supplier."""
        rate = self.topology.rates[1]
        for place, centre in enumerate(self.centres):
            if rate == 0:
                return
            families = self.topology.suppliers_of_families()
            for (offering, chosen), share in families.items():
                names = tuple(self.suppliers[number] for number in offering)
                call = f"callForOffers@{centre}@{'+'.join(names)}@{self.suppliers[chosen]}"
                self.starts.append(Start(centre, 2, rate * share, call, names))
                for number, supplier in zip(offering, names, strict=True):
                    offer = f"offer@{supplier}" if number == chosen else "offer"
                    self.answers.append(Answer(supplier, call, offer, centre))
            for supplier in sorted({self.suppliers[chosen] for _, chosen in families}):
                offer, order = f"offer@{supplier}", f"pOrder@{centre}"
                shipped = f"pShipInfo@{supplier}"
                self.answers += [
                    Answer(centre, offer, order, supplier),
                    Answer(supplier, order, "pOrderConf", centre),
                    Answer(supplier, order, "invoice", centre),
                    Answer(supplier, order, shipped, centre),
                    Answer(centre, shipped, "pShipConf", supplier),
                    Answer(centre, shipped, "statInfoShipDC", self._office(place)),
                ]

    def _inside_shops(self) -> None:
        """4 and 5: a supermarket counts its goods, and reports its sales."""
        for number, shop in enumerate(self.shops):
            receivers = ((4, "inventoryInfo", shop), (5, "statInfoSM", self._office(number)))
            for interaction, type_, to in receivers:
                rate = self.topology.rates[interaction - 1]
                if rate > 0:
                    self.starts.append(Start(shop, interaction, rate, type_, (to,)))

    def _inform_shops(self) -> None:
        """3, 6 and 7: headquarters inform all supermarkets."""
        types = {3: "priceUpdate", 6: "productAnnouncement", 7: "creditCardHL"}
        for interaction, type_ in types.items():
            rate = self.topology.rates[interaction - 1] / len(self.headquarters)
            for office in self.headquarters if rate > 0 else ():
                self.starts.append(Start(office, interaction, rate, type_, tuple(self.shops)))

    def destinations(self) -> list[tuple[str, str]]:
        """The locations with the base types that they receive, each once."""
        found = [(to, base_type(start.type)) for start in self.starts for to in start.to]
        found += [(answer.to, base_type(answer.type)) for answer in self.answers]
        return list(dict.fromkeys(found))
