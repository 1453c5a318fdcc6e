"""Sensors of a consumer whose handlers are a pool, and which sensors a new consumer gets."""

from __future__ import annotations

from controlmq.consumer.handler_pool import HandlerPool
from controlmq.consumer.sensors import HandlersSeen, Sensors


class PoolSensors(Sensors):
    """Sensors of a consumer whose handlers run in a pool that knows when each starts and ends."""

    __slots__ = ("_pool", "_pool_before")

    def __init__(self, now: float, interval: float, pool: HandlerPool) -> None:
        super().__init__(now, interval)
        self._pool = pool
        self._pool_before = pool.totals()

    def delivered(self, now: float, buffered: int, *, gated: bool = False) -> None:
        """As for any consumer; the pool is told whose message it is."""
        super().delivered(now, buffered, gated=gated)
        self._pool.calling()

    def calling(self, now: float) -> None:
        """As for any consumer; the pool is told whose message it is."""
        super().calling(now)
        self._pool.calling()

    def _handlers_seen(self, interval: float, running: float, with_user: float) -> HandlersSeen:
        """What the pool did. What the user has outside of it, such as acks to give, is work too."""
        before, self._pool_before = self._pool_before, self._pool.totals()
        after = self._pool_before
        running, waiting = after.running - before.running, after.waiting - before.waiting
        size, of_others = self._pool.size, after.at_work - before.at_work - running
        ended = after.ended - before.ended
        outside = max(with_user - running - waiting, 0.0) / max(self._handled, 1)
        return HandlersSeen(
            size,
            busy=running / max(size * interval - of_others, 1e-9),
            handler_time=(after.ran - before.ran) / ended + outside if ended else 0.0,
            waited=after.waited - before.waited,
            in_line=after.in_line,
        )


def sensors_for(now: float, interval: float, handlers: int | HandlerPool | None) -> Sensors:
    """Sensors of a new consumer; ``handlers`` is their number or their pool, if it is known."""
    if handlers is None or isinstance(handlers, int):
        return Sensors(now, interval, handlers)
    return PoolSensors(now, interval, handlers)
