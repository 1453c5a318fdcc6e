"""What clients note while messages flow; times are those of this machine's monotonic clock."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

clock = time.monotonic

Place = tuple[str, str]


def _times() -> array[float]:
    return array("d")


@dataclass
class Notes:
    """When everything happened.

    ``began`` is the start of the run. ``starts`` has the times at which each driver sent, and
    ``late`` those of them that were not on time; ``sent`` the times by type and routing key;
    ``received``, by queue and type, three times a message: when it was sent, when the first
    message of its interaction was, when it was received. ``waiting`` is how many messages were
    in each queue at the beginning.

    Arrays hold numbers alone, so that the garbage collector has nothing to go through.
    """

    began: float = 0.0
    starts: dict[str, array[float]] = field(default_factory=dict)
    late: dict[str, array[float]] = field(default_factory=dict)
    sent: dict[Place, array[float]] = field(default_factory=dict)
    received: dict[Place, array[float]] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)

    def starts_of(self, driver: str) -> array[float]:
        """Where a driver's starts are noted."""
        return self.starts.setdefault(driver, _times())

    def late_of(self, driver: str) -> array[float]:
        """Where a driver's late starts are noted."""
        return self.late.setdefault(driver, _times())

    def sent_to(self, place: Place) -> array[float]:
        """Where the times of sending are noted."""
        return self.sent.setdefault(place, _times())

    def received_from(self, queue: str, type_: str) -> array[float]:
        """Where the times of receiving are noted."""
        return self.received.setdefault((queue, type_), _times())

    def counts(self) -> tuple[dict[Place, int], dict[Place, int]]:
        """Messages sent and received up to now."""
        return (
            {place: len(times) for place, times in self.sent.items()},
            {place: len(times) // 3 for place, times in self.received.items()},
        )

    @staticmethod
    def together(began: float, waiting: dict[str, int], parts: Iterable[Notes]) -> Notes:
        """The notes of several processes as one."""
        whole = Notes(began=began, waiting=waiting)
        for part in parts:
            for name in ("starts", "late", "sent", "received"):
                ours = getattr(whole, name)
                for key, times in getattr(part, name).items():
                    ours.setdefault(key, _times()).extend(times)
        return whole
