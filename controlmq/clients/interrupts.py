"""Interrupts that wait for what must not be left half done.

A connection that was interrupted in the middle of a frame cannot even be closed: it may raise
anything, or wait for ever. A process whose start was interrupted runs, and nobody knows of it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def held_interrupts() -> Iterator[Callable[[], None]]:
    """Hold back a Ctrl-C until what is yielded is called, or the end; it is then raised.

    A second one is not held back, for a broker that does not answer. Outside the main thread,
    which alone hears of them, nothing is changed.
    """
    held = False

    def hold(number: int, frame: Any) -> None:
        nonlocal held
        if held:
            raise KeyboardInterrupt
        held = True

    def check() -> None:
        if held:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, hold)
    try:
        yield check
        check()
    finally:
        if signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, before)
