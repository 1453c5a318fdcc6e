"""Gives messages to a pool of greenlets without waiting for the pool.

Celery waits for a free greenlet where it is given a message. If the reader of the connection waited
there, the messages behind that one would wait unread, where nobody can tell them from messages that
the broker has yet to send; and heartbeats would be late.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

log = logging.getLogger("controlmq")


class Waiting(NamedTuple):
    """A message that waits for the pool: its delivery tag, and what hands it over."""

    tag: int
    hand_over: Callable[[], None]


class Feeder:
    """Hands messages over in their order, in a greenlet of its own while there are any.

    ``spawn`` starts a function in a greenlet. Greenlets take turns only where one waits, so that
    no lock is needed here.
    """

    def __init__(self, spawn: Callable[[Callable[[], None]], Any]) -> None:
        self._spawn = spawn
        self._waiting: deque[Waiting] = deque()
        self._feeding = False

    def put(self, tag: int, hand_over: Callable[[], None]) -> None:
        """Hand a message over after those before it."""
        self._waiting.append(Waiting(tag, hand_over))
        if not self._feeding:
            self._feeding = True
            self._spawn(self._feed)

    def clear(self) -> list[int]:
        """Hand over no message that waits; returns their tags."""
        tags = [each.tag for each in self._waiting]
        self._waiting.clear()
        return tags

    def _feed(self) -> None:
        try:
            while self._waiting:
                try:
                    self._waiting.popleft().hand_over()
                except Exception:
                    log.exception("a message could not be handed over")
        finally:
            self._feeding = False
