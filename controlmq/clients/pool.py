"""A pool of threads for handlers that knows how long messages wait in it and how long they take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from controlmq.consumer.handler_pool import HandlerTimes, PoolTotals

clock = time.monotonic

_called: ContextVar[PoolPart | None] = ContextVar("called", default=None)
"""The part of the consumer whose message this thread or task got last."""


class WorkerPool(ThreadPoolExecutor):
    """A ``ThreadPoolExecutor`` to give to ``wrap(channel, handlers=pool)``.

    ``submit`` what handles a message. The consumer then knows how many handlers there are and how
    many of them run, and tells time in the pool apart from time in the handler. Consumers may share
    a pool: a message is of the consumer in whose callback it is submitted, or in a task that the
    callback has made.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.size = workers
        self._lock = threading.Lock()
        self._all = HandlerTimes(clock())
        self._newest: PoolPart | None = None

    def submit(self, handle: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``handle`` with these arguments as soon as a thread is free."""
        part = self._called_part()
        with self._lock:
            now = clock()
            for times in part:
                times.came(now)
        try:
            future = super().submit(self._run, part, now, handle, args, kwargs)
        except RuntimeError:  # the pool is shut down
            self._left(part)
            raise
        future.add_done_callback(lambda future: self._left(part) if future.cancelled() else None)
        return future

    def totals(self) -> PoolTotals:
        """What it did since it was made, for all consumers."""
        with self._lock:
            return self._all.totals(clock())

    def part(self) -> PoolPart:
        """What it does for a new consumer."""
        self._newest = PoolPart(self)
        return self._newest

    def _called_part(self) -> tuple[HandlerTimes, ...]:
        """What counts the message that is submitted now, and what counts all."""
        part = _called.get()
        if part is None or part.pool is not self:
            part = self._newest
        return (self._all,) if part is None else (self._all, part.times)

    def _run(
        self,
        counted: tuple[HandlerTimes, ...],
        since: float,
        handle: Callable[..., Any],
        args: Any,
        kwargs: Any,
    ) -> Any:
        with self._lock:
            start = clock()
            for times in counted:
                times.started(since, start)
        try:
            return handle(*args, **kwargs)
        finally:
            with self._lock:
                now = clock()
                for times in counted:
                    times.ended(start, now)

    def _left(self, counted: tuple[HandlerTimes, ...]) -> None:
        """Note that a message was cancelled and never ran."""
        with self._lock:
            now = clock()
            for times in counted:
                times.left(now)


class PoolPart:
    """What a pool does for one consumer; a ``HandlerPool``."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.times = HandlerTimes(clock())

    @property
    def size(self) -> int:
        """Threads of the pool; its other consumers have some of them."""
        return self.pool.size

    def totals(self) -> PoolTotals:
        """What it did up to now."""
        with self.pool._lock:
            now = clock()
            return self.times.totals(now, self.pool._all.totals(now).running)

    def calling(self) -> None:
        """A message that is submitted next in this thread or task is of this consumer."""
        _called.set(self)
