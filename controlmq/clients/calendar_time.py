"""A consumer as a plant whose samples have calendar time."""

from __future__ import annotations

import time
from dataclasses import replace

from controlmq.clients.channel_runner import clock
from controlmq.consumer.consumer import Consumer
from controlmq.loop import Sample


class InCalendarTime:
    """A plant whose samples have calendar time, so that traces can be compared.

    ``consumer`` knows only the time of the last event, on a clock that starts anywhere.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._since_1970 = time.time() - clock()

    def observe(self) -> Sample:
        """Close the interval."""
        sample = self._consumer.observe()
        return replace(sample, time=sample.time + self._since_1970)

    def actuate(self, prefetch: float) -> None:
        """Aim the window at ``prefetch``."""
        self._consumer.actuate(prefetch)
