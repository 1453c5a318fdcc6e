"""Interrupts that wait until an operation is complete.

A connection that was interrupted in the middle of a frame cannot be closed: it may raise anything
or wait forever. A process whose start was interrupted keeps running without an owner. A lane that
was interrupted while it was opened or cancelled is in the books of one side only.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals whose handlers are held back, where they are Python's: Ctrl-C, and what a supervisor
sends."""


class _Holding:
    """The handler that notes a signal, to call the handler that was there before later."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.over = False
        """Whether none is held any more: a second signal has come, or the block has ended."""
        self._held: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._held or self.over:
            self.over = True
            self.let_through()
            self.before[number](number, frame)
        else:
            self._held.append((number, frame))

    def let_through(self) -> None:
        """Call the handler that was there before, if its signal has come."""
        while self._held:
            number, frame = self._held.pop()
            self.before[number](number, frame)


@contextmanager
def held_interrupts() -> Iterator[Callable[[], None]]:
    """Hold back Ctrl-C until the end of the block, or until the block calls what this yields.

    So is a request to terminate that has a handler in Python. The handler is called then. A second
    signal lets the first one through at once and follows it, in case the broker does not answer.
    Outside the main thread, which alone receives them, nothing changes.
    """
    holding = _Holding()
    if threading.current_thread() is threading.main_thread():
        for each in SIGNALS:
            handler: Any = signal.getsignal(each)
            if isinstance(handler, _Holding) and handler.over:
                handler = handler.before[each]  # an interrupt kept that block from restoring it
            if callable(handler) and not isinstance(handler, _Holding):
                holding.before[each] = handler
                signal.signal(each, holding)
    try:
        yield holding.let_through
    finally:
        holding.over = True
        for each, handler in holding.before.items():
            current = signal.signal(each, handler)
            if current is not holding:
                signal.signal(each, current)  # the block has set another
        holding.let_through()
