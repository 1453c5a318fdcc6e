"""Interrupts that wait until an operation is complete.

A connection that was interrupted in the middle of a frame cannot be closed: it may raise anything
or wait forever. A process whose start was interrupted keeps running without an owner. A lane that
was interrupted while it was opened or cancelled is in the books of one side only.
"""

from __future__ import annotations

import signal
import threading
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_signal
from collections.abc import Callable
from types import FrameType
from typing import Any

# Those of the module signal look up enums, which takes ten times as long as all the rest here. This
# is done with every batch of acks.

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals whose handlers are held back, where they are Python's: Ctrl-C, and what a supervisor
sends."""


class held_interrupts:  # noqa: N801 # it is used as a function
    """Hold back Ctrl-C until the end of the block, or until the block calls what it is given.

    So is a request to terminate that has a handler in Python. The handler is called then. A second
    signal lets the first one through at once and follows it, in case the broker does not answer.
    Outside the main thread, which alone receives them, nothing changes.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        """The handlers that were there before."""
        self._held: list[tuple[int, FrameType | None]] = []
        self._over = False
        """Whether none is held any more: a second signal has come, or the block has ended."""

    def __enter__(self) -> Callable[[], None]:
        if threading.current_thread() is threading.main_thread():
            try:
                self._hold()
            except BaseException:
                self._over = True
                raise
        return self._let_through

    def _hold(self) -> None:
        for each in SIGNALS:
            handler = getsignal(each)
            if type(handler) is held_interrupts and handler._over:
                handler = handler._before[each]  # an interrupt kept that one from putting it back
            if callable(handler) and type(handler) is not held_interrupts:
                self._before[each] = handler
                set_signal(each, self)

    def __exit__(self, *_: object) -> None:
        self._over = True
        for each, handler in self._before.items():
            current = set_signal(each, handler)
            if current is not self:
                set_signal(each, current)  # the block has set another
        self._let_through()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler for the length of the block: it notes the signal."""
        if self._held or self._over:
            self._over = True
            self._let_through()
            self._before[number](number, frame)
        else:
            self._held.append((number, frame))

    def _let_through(self) -> None:
        """Call the handler that was there before, if its signal has come."""
        while self._held:
            number, frame = self._held.pop()
            self._before[number](number, frame)
