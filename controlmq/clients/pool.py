"""A pool of threads for handlers that knows how long messages wait in it and how long they take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from controlmq.consumer.sensors import PoolTotals

clock = time.monotonic


class WorkerPool(ThreadPoolExecutor):
    """A ``ThreadPoolExecutor`` to give to ``wrap(channel, handlers=pool)``.

    ``submit`` what handles a message. The consumer then knows how many handlers there are and how
    many of them run, and tells time in the pool apart from time in the handler. Consumers may share
    a pool.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.size = workers
        self._lock = threading.Lock()
        self._changed_at = clock()
        self._waiting = self._running = 0
        self._totals = PoolTotals(0.0, 0.0)

    def submit(self, handle: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``handle`` with these arguments as soon as a thread is free."""
        self._change(waiting=1)
        try:
            future = super().submit(self._run, handle, args, kwargs)
        except RuntimeError:  # the pool is shut down
            self._change(waiting=-1)
            raise
        future.add_done_callback(self._forget_cancelled)
        return future

    def totals(self) -> PoolTotals:
        """Seconds that messages ran and waited since the pool was made, summed over messages."""
        return self._change()

    def _run(self, handle: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self._change(waiting=-1, running=1)
        try:
            return handle(*args, **kwargs)
        finally:
            self._change(running=-1)

    def _forget_cancelled(self, future: Future[Any]) -> None:
        """A future that was cancelled never ran."""
        if future.cancelled():
            self._change(waiting=-1)

    def _change(self, *, waiting: int = 0, running: int = 0) -> PoolTotals:
        """Add up the time until now, then count messages in and out."""
        with self._lock:
            now = clock()
            elapsed = now - self._changed_at
            self._changed_at = now
            self._totals = PoolTotals(
                self._totals.running + self._running * elapsed,
                self._totals.waiting + self._waiting * elapsed,
            )
            self._waiting += waiting
            self._running += running
            return self._totals
