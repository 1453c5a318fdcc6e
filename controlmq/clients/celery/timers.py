"""The one timer of a channel, by what drives the worker.

An event loop (prefork) and greenlets (gevent, eventlet) have timers that are on time. Celery's
timer for other pools is a thread that sleeps on when an earlier timer is set, for up to 2 s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from celery.concurrency import solo

from controlmq.clients.channel_runner import clock


class Timer(Protocol):
    """Calls back once, later; there is one call back at a time."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set the timer."""

    def cancel(self, timer: Any) -> None:
        """Unset the timer."""

    def stop(self) -> None:
        """End the timer, which is not needed any more."""


def timer_of(consumer: Any) -> Timer:
    """The timer that suits the pool of a worker's consumer."""
    if consumer.hub is not None or getattr(consumer.pool, "is_green", False):
        return CeleryTimer(consumer.timer)
    if isinstance(consumer.pool, solo.TaskPool):
        return DrainTimer(consumer.connection)
    return TimerThread()


class CeleryTimer:
    """The worker's own timer."""

    def __init__(self, timer: Any) -> None:
        self._timer = timer

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set the timer."""
        return self._timer.call_after(delay, callback)

    def cancel(self, timer: Any) -> None:
        """Unset the timer."""
        self._timer.cancel(timer)

    def stop(self) -> None:
        """Do nothing: there is nothing to end."""


class Due(NamedTuple):
    """What to call, and when on the clock."""

    when: float
    callback: Callable[[], None]


class TimerThread:
    """A thread that waits for the timer, and for another one to be set."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: Due | None = None
        self._stopped = False
        threading.Thread(target=self._run, name="controlmq-timer", daemon=True).start()

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set the timer."""
        with self._changed:
            self._due = Due(clock() + delay, callback)
            self._changed.notify()
            return self._due

    def cancel(self, timer: Any) -> None:
        """Unset the timer."""
        with self._changed:
            if self._due is timer:
                self._due = None

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (self._due is None or self._due.when > clock()):
                    self._changed.wait(None if self._due is None else self._due.when - clock())
                if self._stopped:
                    return
                due, self._due = self._due, None
            if due is not None:
                due.callback()


class DrainTimer:
    """The worker's thread itself, between two reads of its connection: tasks run in no other."""

    def __init__(self, connection: Any) -> None:
        self._drain = connection.drain_events
        self._due: Due | None = None
        connection.drain_events = self.drain_events

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set the timer."""
        self._due = Due(clock() + delay, callback)
        return self._due

    def cancel(self, timer: Any) -> None:
        """Unset the timer."""
        if self._due is timer:
            self._due = None

    def stop(self) -> None:
        """Forget what was due."""
        self._due = None

    def drain_events(self, timeout: float | None = None, **options: Any) -> Any:
        """As kombu's; returns when the timer has fired, if that is sooner."""
        before = self._due
        wait = timeout
        if before is not None:
            left = max(before.when - clock(), 0.0)
            wait = left if timeout is None else min(left, timeout)
        try:
            return self._drain(timeout=wait, **options)
        except TimeoutError:
            if before is None or (timeout is not None and timeout == wait):
                raise
        finally:
            due = self._due
            if due is not None and due.when <= clock():
                self._due = None
                due.callback()
