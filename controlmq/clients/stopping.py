"""Stopping between two messages: a signal is noted, and the loop looks for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether to stop: after a signal, or because someone called :meth:`ask`, from any thread."""

    def __init__(self) -> None:
        self.since: float | None = None
        """When stopping was asked for first, in seconds of the monotonic clock."""
        self.by_signal = False

    @property
    def wanted(self) -> bool:
        """Whether anyone has asked."""
        return self.since is not None

    def ask(self) -> None:
        """Ask to stop; asking again changes nothing."""
        if self.since is None:
            self.since = time.monotonic()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """A signal's handler. A second signal interrupts whatever still runs."""
        if self.by_signal:
            raise KeyboardInterrupt
        self.by_signal = True
        self.ask()


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and a termination request go to ``stop`` for a while."""
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
