"""Pools of handlers, as the sensors of one consumer see them."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable


class PoolTotals(NamedTuple):
    """What a pool of handlers did for one consumer since it was made.

    ``running`` and ``waiting`` are seconds up to now, summed over messages; ``at_work`` is the same
    as ``running``, but for messages of all consumers. ``ran`` is summed over the ``ended`` messages
    and ``waited`` over those that have started: each counts in the instant in which it ends or
    starts. ``in_line`` messages wait now.
    """

    running: float
    waiting: float
    at_work: float
    ran: float
    ended: int
    waited: float
    in_line: int


@runtime_checkable
class HandlerPool(Protocol):
    """A pool of handlers that knows when each message of one consumer starts and ends in it."""

    @property
    def size(self) -> int:
        """Handlers that may run at once."""

    def totals(self) -> PoolTotals:
        """What they did up to now."""

    def calling(self) -> None:
        """The user's code is about to get a message of this consumer, in this thread or task."""


@runtime_checkable
class SharedPool(Protocol):
    """A pool of handlers that several consumers may share."""

    def part(self) -> HandlerPool:
        """What it does for a new consumer."""


class HandlerTimes:
    """Adds up how long messages wait for a handler and run; times are in seconds."""

    def __init__(self, now: float) -> None:
        self._changed_at = now
        self._waiting = self._running = 0
        self._waiting_seconds = self._running_seconds = 0.0
        self._ran, self._ended, self._waited = 0.0, 0, 0.0

    def came(self, now: float) -> None:
        """A message waits from now on."""
        self._add_up(now)
        self._waiting += 1

    def left(self, now: float) -> None:
        """A message that waited will not run."""
        self._add_up(now)
        self._waiting -= 1

    def started(self, since: float, now: float) -> None:
        """A message that had waited since then runs."""
        self._add_up(now)
        self._waiting -= 1
        self._running += 1
        self._waited += now - since

    def ended(self, since: float, now: float) -> None:
        """A message that had run since then has ended."""
        self._add_up(now)
        self._running -= 1
        self._ran += now - since
        self._ended += 1

    def put_aside(self, now: float) -> None:
        """A message that ran is kept for later: it has not ended."""
        self._add_up(now)
        self._running -= 1

    def totals(self, now: float, at_work: float | None = None) -> PoolTotals:
        """Everything up to now; ``at_work`` if the handlers had other messages as well."""
        self._add_up(now)
        return PoolTotals(
            running=self._running_seconds,
            waiting=self._waiting_seconds,
            at_work=self._running_seconds if at_work is None else at_work,
            ran=self._ran,
            ended=self._ended,
            waited=self._waited,
            in_line=self._waiting,
        )

    def _add_up(self, now: float) -> None:
        elapsed, self._changed_at = now - self._changed_at, now
        self._waiting_seconds += self._waiting * elapsed
        self._running_seconds += self._running * elapsed
