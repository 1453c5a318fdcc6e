"""Tasks that were handled, and whose acks a lost connection may have kept from the broker.

The broker delivers them again. The id of a task alone does not tell: a retry has it too, and so has
a task that takes the place of another (``Task.replace``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from controlmq.clients.handled import REDELIVERY_SECONDS, GivenAcks, LostAcks


class TaskKey(NamedTuple):
    """One attempt of one task, with a hash of its arguments."""

    id: str
    retries: int = 0
    task: str = ""
    body: int = 0


def task_key(headers: dict[str, Any], body: bytes | str) -> TaskKey | None:
    """The task of a message; None where its headers do not tell."""
    task_id, task = headers.get("id"), headers.get("task")
    if not (isinstance(task_id, str) and isinstance(task, str) and task_id):
        return None
    encoded = body.encode() if isinstance(body, str) else body
    return TaskKey(task_id, headers.get("retries") or 0, task, hash(encoded))


class HandledTasks:
    """What this worker handled lately, and which of it may be delivered again."""

    def __init__(self, longest_hold: float) -> None:
        self._longest_hold = longest_hold
        self._lost: LostAcks = {}
        """Acknowledged on the connections before the one at hand."""
        self._given = GivenAcks(self._lost, longest_hold)
        """Acknowledged on the connection at hand."""

    def acknowledged(self, key: TaskKey, now: float) -> None:
        """Celery has acknowledged a task; the ack may be held, or be on its way."""
        self._given.add(key, now)

    def connection_lost(self, now: float) -> None:
        """Note that tasks acknowledged on the lost connection may be delivered again."""
        self._given.end(now)
        self._given = GivenAcks(self._lost, self._longest_hold)

    def acknowledged_too_late(self, key: TaskKey, now: float) -> None:
        """A task ended after its connection was lost."""
        self._lost[key] = now + REDELIVERY_SECONDS

    def has(self, key: TaskKey, now: float) -> bool:
        """Whether a message that is delivered again was handled; this is answered once for each."""
        return self._lost.pop(key, -math.inf) > now
