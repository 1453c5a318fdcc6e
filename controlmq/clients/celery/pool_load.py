"""How much of a worker's pool each queue takes: the sensor of the time that tasks wait here."""

from __future__ import annotations

from collections.abc import Callable

from controlmq.clients.channel_runner import clock
from controlmq.consumer.sensors import PoolTotals


class PoolLoad:
    """The tasks that a worker has taken, of all its queues.

    ``size`` says how many of them run at once; it may change. Beyond that number tasks wait, of
    each queue the same share.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self.size = size
        self._queues: list[QueueLoad] = []
        self._at = clock()

    def queue(self) -> QueueLoad:
        """The part of one queue, with no tasks yet."""
        load = QueueLoad(self)
        self._queues.append(load)
        return load

    def forget_all(self) -> None:
        """Another connection begins: its queues start from nothing."""
        self._queues.clear()

    def advance(self) -> None:
        """Add up running and waiting until now."""
        now = clock()
        elapsed, self._at = now - self._at, now
        tasks = sum(each.tasks for each in self._queues)
        running = min(1.0, self.size() / tasks) if tasks else 0.0
        for each in self._queues:
            each.running += each.tasks * running * elapsed
            each.waiting += each.tasks * (1 - running) * elapsed


class QueueLoad:
    """The tasks of one queue; a :class:`~controlmq.consumer.sensors.HandlerPool`."""

    def __init__(self, pool: PoolLoad) -> None:
        self._pool = pool
        self.tasks = 0
        self.running = 0.0
        self.waiting = 0.0

    @property
    def size(self) -> int:
        """Tasks that the pool runs at once."""
        return max(1, self._pool.size())

    def totals(self) -> PoolTotals:
        """Seconds of all tasks up to now."""
        self._pool.advance()
        return PoolTotals(self.running, self.waiting)

    def change(self, tasks: int) -> None:
        """This many more tasks of the queue are here, or fewer."""
        self._pool.advance()
        self.tasks += tasks
