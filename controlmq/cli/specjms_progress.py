"""The table of a run while it runs, for whoever sits at a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live

    from simulator.specjms.progress import Progress

REDRAW_EVERY_SECONDS = 0.9
"""Seconds between two drawings: clients that are measured run on the same machine."""


class Watch:
    """Draws how far a run is, at once and then as seldom as ``REDRAW_EVERY_SECONDS``."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._next = 0.0

    def look(self, progress: Callable[[], Progress]) -> None:
        """Draw what is asked for only now, if it is time to."""
        if time.monotonic() >= self._next:
            self.show(progress())

    def show(self, progress: Progress) -> None:
        """Draw it in any case."""
        from simulator.specjms.report import progress_table

        self._live.update(progress_table(progress), refresh=True)
        self._next = time.monotonic() + REDRAW_EVERY_SECONDS


@contextmanager
def watched() -> Iterator[Watch | None]:
    """Somebody to tell how far a run is, or nobody if there is no terminal."""
    from rich.live import Live

    from controlmq.cli.output import console

    view = console(to_stderr=True)
    if not view.is_terminal:
        yield None
        return
    # Without a thread of its own: what it would draw only changes when it is told.
    with Live(console=view, transient=True, auto_refresh=False) as live:
        yield Watch(live)
