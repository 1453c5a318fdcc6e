"""How much of a worker's pool each queue takes: the sensor of the time that tasks wait here."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from controlmq.clients.channel_runner import clock
from controlmq.consumer.handler_pool import HandlerTimes, PoolTotals


class PoolLoad:
    """The tasks that a worker has taken, of all its queues.

    ``size`` says how many of them run at once; it may change. Beyond that number tasks wait, and
    start in the order in which they came.

    It outlives the worker's connections, while each channel has a lock of its own: a task of a lost
    connection may end in another thread while the next connection brings one. So it has a lock,
    held for its own books only. A signal handler of Celery may answer tasks in the midst of them.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self.size = size
        self.lock = threading.RLock()
        self.waiting: deque[tuple[QueueLoad, float]] = deque()
        """Tasks that have no process yet, and since when."""
        self._queues: list[QueueLoad] = []

    def queue(self) -> QueueLoad:
        """The part of one queue, with no tasks yet."""
        load = QueueLoad(self)
        with self.lock:
            self._queues.append(load)
        return load

    def has(self, load: QueueLoad) -> bool:
        """Whether these are tasks of the connection at hand."""
        return load in self._queues

    def forget_all(self) -> None:
        """Another connection begins: its queues start from nothing."""
        with self.lock:
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
    """The tasks of one queue; a :class:`~controlmq.consumer.handler_pool.HandlerPool`.

    It counts nothing any more once its connection is lost.
    """

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
        with self._pool.lock:
            return self.times.totals(clock())

    def calling(self) -> None:
        """Each queue has its own load, whatever thread a task comes from."""

    def come(self) -> None:
        """One more task of the queue is here."""
        pool = self._pool
        with pool.lock:
            if pool.has(self):
                now = clock()
                self.times.came(now)
                pool.waiting.append((self, now))
                pool.start(now)

    def gone(self) -> None:
        """One of its tasks is done: of those that run the first, if any does."""
        pool = self._pool
        with pool.lock:
            if pool.has(self):
                now = clock()
                if self.running_since:
                    self.times.ended(self.running_since.popleft(), now)
                else:
                    self._waits_no_longer(now)
                pool.start(now)

    def put_aside(self) -> None:
        """Its newest task is kept for later: it has not ended, whether it has a process or not."""
        pool = self._pool
        with pool.lock:
            if pool.has(self):
                now = clock()
                if not self._waits_no_longer(now) and self.running_since:
                    self.running_since.pop()
                    self.times.put_aside(now)
                pool.start(now)

    def _waits_no_longer(self, now: float) -> bool:
        """Take out the newest of its tasks that wait; whether there was one."""
        waiting = self._pool.waiting
        for at in range(len(waiting) - 1, -1, -1):
            if waiting[at][0] is self:
                del waiting[at]
                self.times.left(now)
                return True
        return False
