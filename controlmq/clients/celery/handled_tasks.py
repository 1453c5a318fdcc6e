"""Tasks that were handled, and whose acks a lost connection may have kept from the broker.

The broker delivers them again. They are known by the id of the task and the number of its retries,
because a retry has the id of the first attempt.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

REMEMBERED_SECONDS = 60.0
"""Seconds for which an ack counts as perhaps not received; longer than any heartbeat takes to
notice a lost connection. What is held for longer than this comes on top."""

MOST_REMEMBERED = 20_000
"""Tasks that are remembered at most."""

REDELIVERY_SECONDS = 600.0
"""Seconds after the loss of a connection within which what it left is delivered again: the broker
notices by missing heartbeats, and puts messages back to the head of their queue. Not longer, for
ids that a user gives to one task after another."""


class TaskKey(NamedTuple):
    """One attempt of one task."""

    id: str
    retries: int


def task_key(headers: dict[str, Any]) -> TaskKey | None:
    """The task of a message; None where its headers do not tell."""
    task_id = headers.get("id")
    return None if task_id is None else TaskKey(task_id, headers.get("retries") or 0)


class HandledTasks:
    """What this worker handled lately, and which of it may be delivered again."""

    def __init__(self, longest_hold: float) -> None:
        self._remember = REMEMBERED_SECONDS + longest_hold
        self._acknowledged: OrderedDict[TaskKey, float] = OrderedDict()
        """On the connection at hand, and when."""
        self._lost: dict[TaskKey, float] = {}
        """On connections before it, and until when that matters."""

    def acknowledged(self, key: TaskKey, now: float) -> None:
        """Celery has acknowledged a task; the ack may be held, or be on its way."""
        tasks = self._acknowledged
        tasks.pop(key, None)
        tasks[key] = now
        while tasks:
            oldest = next(iter(tasks))
            if len(tasks) <= MOST_REMEMBERED and tasks[oldest] > now - self._remember:
                break
            del tasks[oldest]

    def connection_lost(self, now: float) -> None:
        """What was acknowledged on it may be delivered again."""
        self._lost = {key: until for key, until in self._lost.items() if until > now}
        for key in self._acknowledged:
            self._lost[key] = now + REDELIVERY_SECONDS
        self._acknowledged.clear()

    def acknowledged_too_late(self, key: TaskKey, now: float) -> None:
        """A task ended after its connection was lost."""
        self._lost[key] = now + REDELIVERY_SECONDS

    def has(self, key: TaskKey, now: float) -> bool:
        """Whether a message that is delivered again was handled; this is answered once for each."""
        return self._lost.pop(key, -1.0) > now
