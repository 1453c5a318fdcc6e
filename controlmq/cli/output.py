"""What commands print: JSON for programs, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from controlmq.files import json_types

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COLUMNS_WITHOUT_TERMINAL = 120
"""Columns of a table where no terminal says how wide it is."""


def console(*, to_stderr: bool = False) -> Console:
    """The console for people: standard error if standard output carries data (``--json``)."""
    from rich.console import Console

    view = Console(stderr=to_stderr, highlight=False, markup=False)
    if not view.is_terminal:
        view.width = COLUMNS_WITHOUT_TERMINAL
    return view


def say(view: Console, text: str) -> None:
    """Print lines as they are: a terminal may wrap them, a path in a file stays in one piece."""
    view.print(text, soft_wrap=True)


def table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], left: str = ""
) -> Table:
    """A table of figures, aligned to the right; the column ``left`` holds words."""
    from rich.table import Table

    made = Table(title=title)
    for column in columns:
        made.add_column(column, justify="left" if column == left else "right")
    for row in rows:
        made.add_row(*row)
    return made


@contextmanager
def progress_bar(doing: str, total: float | None) -> Iterator[Callable[..., None]]:
    """A bar on standard error; call it with what rich's ``Progress.update`` takes."""
    from rich.progress import Progress

    with Progress(console=console(to_stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task(doing, total=total))


@contextmanager
def spark_bar(view: Console) -> Iterator[Callable[..., None]]:
    """A bar for work on Spark; call it with what is being done and what ``Progress.update`` takes.

    Where no terminal shows the bar, a line says what is being done.
    """
    from rich import progress as rich

    columns = (rich.TextColumn("{task.description:<36}"), rich.BarColumn())
    counted = (rich.MofNCompleteColumn(), rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
    shown = ""
    with rich.Progress(*columns, *counted, console=view, transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def update(doing: str, **how: Any) -> None:
            nonlocal shown
            bar.update(task, description=doing, **how)
            if doing != shown and not view.is_terminal:
                say(view, doing)
            shown = doing

        yield update


def print_json(content: Any) -> None:
    """Print strict JSON: complex numbers as [real, imaginary], what is not finite as null."""
    print(json.dumps(json_types(content), indent=2, allow_nan=False))


def fail(sentence: str, code: int) -> int:
    """Say on standard error why a command failed; its exit code."""
    print(f"controlmq: {sentence}", file=sys.stderr)
    return code


def complex_text(value: complex) -> str:
    """A pole as people write it."""
    if abs(value.imag) < 1e-12:
        return f"{value.real:.4f}"
    return f"{value.real:.4f}{value.imag:+.4f}j"
