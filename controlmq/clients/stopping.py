"""Stopping between two messages: a signal is noted, and the loop looks for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether to stop: after a signal, or because ``wanted`` was set."""

    def __init__(self) -> None:
        self.wanted = False
        self.by_signal = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """A signal's handler. A second signal interrupts whatever still runs."""
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = self.by_signal = True


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and a termination request go to ``stop`` for a while."""
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
