"""The table that a terminal shows while a SPECjms2007 run is under way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live

    from simulator.studies.specjms.progress import Progress

REDRAW_EVERY_SECONDS = 0.9
"""Seconds between two drawings, few because measured clients share the machine."""


class Watch:
    """Draws how far a run is, at most once every ``REDRAW_EVERY_SECONDS``."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._next = 0.0

    def look(self, progress: Callable[[], Progress]) -> None:
        """Draw what ``progress`` returns, which is called only if it is time to draw."""
        if time.monotonic() >= self._next:
            self.show(progress())

    def show(self, progress: Progress) -> None:
        """Draw now."""
        from simulator.studies.specjms.report import progress_table

        self._live.update(progress_table(progress), refresh=True)
        self._next = time.monotonic() + REDRAW_EVERY_SECONDS


@contextmanager
def watched() -> Iterator[Watch | None]:
    """What draws the progress of a run, None if there is no terminal."""
    from rich.live import Live

    from controlmq.cli.output import console

    view = console(to_stderr=True)
    if not view.is_terminal:
        yield None
        return
    # No refresh thread: the table changes only when it is updated.
    with Live(console=view, transient=True, auto_refresh=False) as live:
        yield Watch(live)
