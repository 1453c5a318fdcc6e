"""jms2009-PS: where each type of message goes, and how it is sent.

SPECjms2007 sends each type as its delivery group says: point-to-point types to a queue of each
location, publish/subscribe types to a topic of each type. In jms2009-PS both can be chosen. A
destination that several locations share is a topic, on which each location subscribes to the
messages addressed to it. In AMQP that is a topic exchange with the type and the location in the
routing key, or a fanout exchange if every location gets every message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.studies.specjms.message_types import BY_NAME, GROUPS, TYPES, Delivery

DESTINATIONS = ("location-and-type", "type", "interaction", "location-type", "location", "central")
"""One destination for each location and type, for each type, for each interaction, for each kind of
location, for each location, or for everything."""

BROADCASTS = ("callForOffers", "priceUpdate", "productAnnouncement", "creditCardHL")
"""Types that go to several locations at once."""


@dataclass(frozen=True)
class Option:
    """How a type is sent: its ``delivery`` flags and its ``destination``."""

    delivery: Delivery
    destination: str

    def __post_init__(self) -> None:
        checks.choice("destination", self.destination, DESTINATIONS)
        for field in fields(self.delivery):
            checks.flag(field.name, getattr(self.delivery, field.name))


SPECJMS2007 = {
    each.name: Option(
        GROUPS[each.group], "type" if each.name in BROADCASTS else "location-and-type"
    )
    for each in TYPES
}
"""The benchmark as it was published."""


def options(changes: Mapping[str, Option] | None = None) -> dict[str, Option]:
    """The published options, with ``changes`` for some types."""
    for name, option in (changes or {}).items():
        checks.known("type", name, list(BY_NAME), "options")
        own = option.destination in ("location-and-type", "location")
        if name in BROADCASTS and (own or not option.delivery.topic):
            raise InputError(
                f"{name!r} goes to several locations at once; make it a topic whose destination "
                "is one of type, interaction, location-type, central."
            )
        if not option.delivery.topic and option.destination != "location-and-type":
            raise InputError(
                f"{name!r} goes to a queue, which locations cannot share: each would take what "
                "is meant for others; make it a topic or its destination location-and-type."
            )
    return SPECJMS2007 | dict(changes or {})


def central() -> dict[str, Option]:
    """Everything on one topic, with the flags of the published groups."""
    return {
        name: Option(replace(option.delivery, topic=True), "central")
        for name, option in SPECJMS2007.items()
    }
