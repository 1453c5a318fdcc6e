"""How much of a worker's pool each queue takes: the sensor of the time that tasks wait here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from controlmq.clients.channel_runner import clock
from controlmq.consumer.handler_pool import HandlerTimes, PoolTotals


class PoolLoad:
    """The tasks that a worker has taken, of all its queues.

    ``size`` says how many of them run at once; it may change. Beyond that number tasks wait, and
    start in the order in which they came.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self.size = size
        self.waiting: deque[tuple[QueueLoad, float]] = deque()
        """Tasks that have no process yet, and since when."""
        self._queues: list[QueueLoad] = []

    def queue(self) -> QueueLoad:
        """The part of one queue, with no tasks yet."""
        load = QueueLoad(self)
        self._queues.append(load)
        return load

    def forget_all(self) -> None:
        """Another connection begins: its queues start from nothing."""
        self._queues.clear()
        self.waiting.clear()

    def start(self, now: float) -> None:
        """Let those who wait have the processes that are free."""
        if not self.waiting:
            return
        free = self.size() - sum(len(each.running_since) for each in self._queues)
        while free > 0 and self.waiting:
            load, since = self.waiting.popleft()
            load.times.started(since, now)
            load.running_since.append(now)
            free -= 1


class QueueLoad:
    """The tasks of one queue; a :class:`~controlmq.consumer.handler_pool.HandlerPool`."""

    def __init__(self, pool: PoolLoad) -> None:
        self._pool = pool
        self.times = HandlerTimes(clock())
        self.running_since: deque[float] = deque()

    @property
    def size(self) -> int:
        """Tasks that the pool runs at once."""
        return max(1, self._pool.size())

    def totals(self) -> PoolTotals:
        """Seconds of all tasks up to now."""
        return self.times.totals(clock())

    def calling(self) -> None:
        """Each queue has its own load, whatever thread a task comes from."""

    def come(self) -> None:
        """One more task of the queue is here."""
        now = clock()
        self.times.came(now)
        self._pool.waiting.append((self, now))
        self._pool.start(now)

    def gone(self) -> None:
        """One of its tasks is done or put aside: of those that run the first, if any does."""
        now = clock()
        if self.running_since:
            self.times.ended(self.running_since.popleft(), now)
        else:
            waiting = self._pool.waiting
            newest = next((each for each in reversed(waiting) if each[0] is self), None)
            if newest is not None:
                waiting.remove(newest)
                self.times.left(now)
        self._pool.start(now)
