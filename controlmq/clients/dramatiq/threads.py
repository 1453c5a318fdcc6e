"""The worker's threads as the sensors see them: messages that wait for one, and that run in one."""

from __future__ import annotations

import threading
import time
from typing import Any

from dramatiq.middleware import Middleware, SkipMessage

from controlmq.consumer.handler_pool import HandlerTimes, PoolTotals

clock = time.monotonic

DEFAULT_WORKER_THREADS = 8
"""Those of Dramatiq, for a consumer that no worker has started."""


class QueueThreads:
    """What the worker's threads do for the messages of one queue; a ``HandlerPool``."""

    def __init__(self, threads: WorkerThreads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._times = HandlerTimes(clock())

    @property
    def size(self) -> int:
        """Threads of the worker; they are shared by all its queues."""
        return self._threads.count

    def totals(self) -> PoolTotals:
        """What they did up to now."""
        with self._lock:
            return self._times.totals(clock())

    def calling(self) -> None:
        """Each queue has its own, whatever thread a message goes to."""

    def came(self) -> float:
        """Count a message that waits from now on; returns the time."""
        with self._lock:
            now = clock()
            self._times.came(now)
        return now

    def left(self) -> None:
        """A message that waited will not run."""
        with self._lock:
            self._times.left(clock())

    def started(self, since: float) -> float:
        """Count a message that waited since then and runs now; returns the time."""
        with self._lock:
            now = clock()
            self._times.started(since, now)
        return now

    def ended(self, since: float) -> None:
        """A message that had run since then has ended."""
        with self._lock:
            self._times.ended(since, clock())


class WorkerThreads(Middleware):  # type: ignore[misc]
    """Middleware that notes when a message goes to a thread and when it is done.

    Only messages of adaptive consumers have a ``delivery``.
    """

    def __init__(self) -> None:
        self.count = DEFAULT_WORKER_THREADS

    def before_worker_boot(self, broker: Any, worker: Any) -> None:
        """Note how many threads there are."""
        self.count = worker.worker_threads

    def before_process_message(self, broker: Any, message: Any) -> None:
        """A thread takes the message; not if its connection is lost, as it will come again."""
        delivery = getattr(message, "delivery", None)
        if delivery is None:
            return
        if delivery.lost:
            delivery.give_up()
            raise SkipMessage("the connection that brought it is lost; it is delivered again")
        delivery.started()

    def after_process_message(
        self, broker: Any, message: Any, *, result: Any = None, exception: Any = None
    ) -> None:
        """The thread is done with the message."""
        delivery = getattr(message, "delivery", None)
        if delivery is not None:
            delivery.ended()

    def after_skip_message(self, broker: Any, message: Any) -> None:
        """The message is not going to run."""
        delivery = getattr(message, "delivery", None)
        if delivery is not None:
            delivery.ended()
