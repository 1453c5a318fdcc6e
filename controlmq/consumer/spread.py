"""Spreading: how far apart the acks that open slots are kept.

Slots that travel in a bunch wait for each other at the handler, and the window is worth less
than its slots. So a controlled consumer spreads them over the loop that a slot goes through,
from its opening to the handler's ack::

    loop time = integral of open slots dt / acks given                    (Little's law)
    spacing   = loop time / (1 + 0.75 (prefetch - 1))

A quarter of the slots beyond the first is a reserve: a message that is late, because network,
broker or processor were busy, does not delay the next ones, whose slots wait to be opened.

The loop time wanted is one in which no message waits for a handler. Waiting makes the
measured one longer, so a shorter measurement is believed at once and a longer one slowly:
handlers that are busy all the time then set the rate themselves, and spreading costs at most
``GROWTH_PER_SAMPLE`` of it now and then, when it learns that it could.
"""

from __future__ import annotations

SPREAD_SHARE = 0.75
"""Share of the slots beyond the first that is spread; the rest is the reserve."""

GROWTH_PER_SAMPLE = 0.02
"""Share by which the loop time is believed to have grown at most in one sample."""


class Spread:
    """The loop time of a consumer's slots, from one sample to the next, in seconds."""

    def __init__(self) -> None:
        self.loop_time = 0.0

    def measured(self, slot_seconds: float, acks: int, starved: bool) -> None:
        """Take in an interval: open slots over time, and acks that handlers gave.

        A slot that waits in vain for a message makes its loop look longer; ``starved``
        intervals can only shorten it.
        """
        if not acks or slot_seconds <= 0:
            return
        measured = slot_seconds / acks
        if not self.loop_time:
            self.loop_time = 0.0 if starved else measured
        else:
            growth = 1.0 if starved else 1 + GROWTH_PER_SAMPLE
            self.loop_time = min(measured, growth * self.loop_time)

    def spacing(self, prefetch: float) -> float:
        """Seconds between two openings; 0 where there is nothing to spread."""
        if prefetch <= 1:
            return 0.0
        return self.loop_time / (1 + SPREAD_SHARE * (prefetch - 1))
