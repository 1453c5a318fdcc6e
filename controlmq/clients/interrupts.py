"""Interrupts that wait until an operation is complete.

A connection that was interrupted in the middle of a frame cannot be closed: it may raise anything
or wait forever. A process whose start was interrupted keeps running without an owner.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def held_interrupts() -> Iterator[Callable[[], None]]:
    """Hold back a Ctrl-C until what is yielded is called, or the end; it is then raised.

    A second one is raised at once, in case the broker does not answer. Outside the main thread,
    which alone receives them, nothing changes.
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
