"""Spreading: how far apart the acks that open slots are kept.

Slots that travel in a bunch wait for each other at the handler, and the window is worth less
than its slots. So a controlled consumer spreads them over the loop that a slot goes through,
from its opening to the handler's ack::

    loop time = integral of open slots dt / acks given                    (Little's law)
    spacing   = loop time / (1 + 0.75 (prefetch - 1))

A quarter of the slots beyond the first is a reserve: a message that is late, because network,
broker or processor were busy, does not delay the next ones, whose slots wait to be opened.

The loop time wanted is one in which no message waits for a handler, and waiting makes the
measured one longer. So a shorter measurement is believed at once, a longer one only in small
steps, and never more of it than takes two hundredths off the rate just measured: handlers that
are busy all the time set the rate themselves.
"""

from __future__ import annotations

SPREAD_SHARE = 0.75
"""Share of the slots beyond the first that is spread; the rest is the reserve."""

RATE_STEP = 1.02
"""Factor by which spreading may at most lower the rate from one sample to the next."""

GROWTH_STEP = 1.05
"""Factor by which the loop time may at most grow from one sample to the next, so that a stall in
one sample hardly slows the next."""


class Spread:
    """The loop time of a consumer's slots, from one sample to the next, in seconds."""

    def __init__(self) -> None:
        self.loop_time = 0.0

    def measured(
        self, slot_seconds: float, acks: int, interval: float, prefetch: float, starved: bool
    ) -> None:
        """Take in an interval: open slots over time, and acks that handlers gave.

        A slot that waits in vain for a message makes its loop look longer, so that ``starved``
        intervals can only shorten the loop time.
        """
        if not acks or slot_seconds <= 0:
            return
        measured = slot_seconds / acks
        if starved:
            self.loop_time = min(measured, self.loop_time)
        elif not self.loop_time:
            self.loop_time = measured
        else:
            paced = RATE_STEP * self._spread_slots(prefetch) * interval / acks
            self.loop_time = min(measured, paced, GROWTH_STEP * self.loop_time)

    def spacing(self, prefetch: float) -> float:
        """Seconds between two openings; 0 where there is nothing to spread."""
        return self.loop_time / self._spread_slots(prefetch) if prefetch > 1 else 0.0

    def _spread_slots(self, prefetch: float) -> float:
        return 1 + SPREAD_SHARE * (max(prefetch, 1.0) - 1)
