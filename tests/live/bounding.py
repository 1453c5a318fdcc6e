"""A bound on a live consumer, and when its messages were handed over by the core's clock."""

from __future__ import annotations

from typing import Any

from controlmq.consumer.consumer import Consumer
from tests.known.stretches import worst_excess

RATE = 200.0
BURST = 10.0


class Bounded:
    """Bounds a consumer of ``channel`` and notes its hand-overs."""

    def __init__(self, channel: Any, tag: str, rate: float = RATE, burst: float = BURST) -> None:
        self.times: list[float] = []
        self.rate, self.burst = rate, burst
        self.consumer: Consumer = channel.adaptive_consumers[tag].plant
        channel._runner.pace(self.consumer, rate, burst)
        count = self.consumer.gate.count

        def noted(since: float, now: float) -> None:
            self.times.append(now)
            count(since, now)

        self.consumer.gate.count = noted  # type: ignore[method-assign]

    def assert_kept(self, count: int) -> None:
        """All were handed over, and no stretch had too many."""
        assert len(self.times) == count
        assert worst_excess(self.times, self.rate, self.burst) <= 0
