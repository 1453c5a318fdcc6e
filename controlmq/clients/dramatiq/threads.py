"""The worker's threads as the sensors see them: messages that wait for one, and that run in one."""

from __future__ import annotations

import threading
import time
from typing import Any

from dramatiq.middleware import Middleware, SkipMessage

from controlmq.consumer.sensors import PoolTotals

clock = time.monotonic

DEFAULT_WORKER_THREADS = 8
"""Those of Dramatiq, for a consumer that no worker has started."""


class QueueThreads:
    """What the worker's threads do for the messages of one queue; a ``HandlerPool``."""

    def __init__(self, threads: WorkerThreads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._changed_at = clock()
        self._waiting = self._running = 0
        self._waiting_seconds = self._running_seconds = 0.0

    @property
    def size(self) -> int:
        """Threads of the worker; they are shared by all its queues."""
        return self._threads.count

    def totals(self) -> PoolTotals:
        """Seconds that messages ran and waited, summed over messages."""
        with self._lock:
            self._add_up()
            return PoolTotals(self._running_seconds, self._waiting_seconds)

    def moved(self, *, waiting: int = 0, running: int = 0) -> None:
        """This many more messages wait, or run."""
        with self._lock:
            self._add_up()
            self._waiting += waiting
            self._running += running

    def _add_up(self) -> None:
        now = clock()
        elapsed, self._changed_at = now - self._changed_at, now
        self._waiting_seconds += self._waiting * elapsed
        self._running_seconds += self._running * elapsed


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
