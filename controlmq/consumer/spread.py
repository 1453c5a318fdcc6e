"""Spreading: how far apart the acks that open slots are kept.

Slots that travel in a bunch wait for each other at the handler, and the window is worth less
than its slots. So a controlled consumer spreads them over the loop that a slot goes through,
from its opening to the handler's ack::

    loop time = integral of open slots dt / acks given                    (Little's law)
    spacing   = loop time / (1 + 0.75 (prefetch - 1))

A quarter of the slots beyond the first is a reserve: a message that is late, because network,
broker or processor were busy, does not delay the next ones, whose slots wait to be opened.

The spacing needs the loop time without waiting for handlers. Waiting lengthens the measured time,
so the shortest of the last samples counts; that also keeps the spacing steady. Where the loop time
has grown, spreading lowers the rate by at most 2 % from one sample to the next, because handlers
that are busy all the time set the rate themselves.
"""

from __future__ import annotations

from collections import deque

SPREAD_SHARE = 0.75
"""Share of the slots beyond the first that is spread; the rest is the reserve."""

SAMPLES_REMEMBERED = 10
"""Samples of which the shortest loop time counts."""

SPREAD_SLOWER_AT_MOST_FACTOR = 1.02
"""Factor by which spreading may lengthen the time between messages from one sample to the next."""


class Spread:
    """The loop time of a consumer's slots, from one sample to the next, in seconds."""

    def __init__(self) -> None:
        self.loop_time = 0.0
        self._recent: deque[float] = deque(maxlen=SAMPLES_REMEMBERED)

    def measured(
        self, slot_seconds: float, acks: int, interval: float, prefetch: float, starved: bool
    ) -> None:
        """Take in an interval: open slots over time, and acks that handlers gave.

        A slot that waits in vain for a message makes its loop look longer, so that a ``starved``
        interval can only shorten the loop time.
        """
        if not acks or slot_seconds <= 0:
            return
        measured = slot_seconds / acks
        if starved:
            self.loop_time = min(measured, self.loop_time)
            return
        self._recent.append(measured)
        loop_time = min(self._recent)
        if self.loop_time:
            paced = SPREAD_SLOWER_AT_MOST_FACTOR * self._spread_slots(prefetch) * interval / acks
            loop_time = min(loop_time, max(paced, self.loop_time))
        self.loop_time = loop_time

    def spacing(self, prefetch: float) -> float:
        """Seconds between two openings; 0 where there is nothing to spread."""
        return self.loop_time / self._spread_slots(prefetch) if prefetch > 1 else 0.0

    def _spread_slots(self, prefetch: float) -> float:
        return 1 + SPREAD_SHARE * (max(prefetch, 1.0) - 1)
