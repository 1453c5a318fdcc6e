"""What clients note while messages flow; times are those of this machine's monotonic clock."""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

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
    starts: dict[str, array[float]] = field(default_factory=partial(defaultdict, _times))
    late: dict[str, array[float]] = field(default_factory=partial(defaultdict, _times))
    sent: dict[Place, array[float]] = field(default_factory=partial(defaultdict, _times))
    received: dict[Place, array[float]] = field(default_factory=partial(defaultdict, _times))
    waiting: dict[str, int] = field(default_factory=dict)

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
                for key, times in getattr(part, name).items():
                    getattr(whole, name)[key].extend(times)
        return whole
