"""What commands print: JSON for programs, tables for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from controlmq.files import json_types

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS_WITHOUT_TERMINAL = 120
"""Columns of a table where no terminal says how wide it is."""


def console(*, to_stderr: bool = False) -> Console:
    """Where people read. With ``--json`` that is standard error: standard output is data's."""
    from rich.console import Console

    view = Console(stderr=to_stderr, highlight=False, markup=False)
    if not view.is_terminal:
        view.width = COLUMNS_WITHOUT_TERMINAL
    return view


def say(view: Console, text: str) -> None:
    """Print lines as they are: a terminal may wrap them, a path in a file stays in one piece."""
    view.print(text, soft_wrap=True)


def print_json(content: Any) -> None:
    """Print strict JSON: complex numbers as [real, imaginary], what is not finite as null."""
    print(json.dumps(json_types(content), indent=2, allow_nan=False))


def complex_text(value: complex) -> str:
    """A pole as people write it."""
    if abs(value.imag) < 1e-12:
        return f"{value.real:.4f}"
    return f"{value.real:.4f}{value.imag:+.4f}j"
