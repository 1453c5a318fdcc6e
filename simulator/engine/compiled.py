"""Compiles the engine with numba, and makes sure that stale machine code never runs.

Compiled code neither makes nor keeps arrays: it gets the addresses of the arrays of a run
(:mod:`simulator.engine.tables`). So numba's reference counting is switched off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

from controlmq import checks, errors, goals

OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Decorates a function that is compiled into the compiled functions that call it."""
    return cast(Function, njit(**OPTIONS, forceinline=True)(function))


def called(function: Function) -> Function:
    """Decorates a function that is too large, or used too rarely, to be inlined."""
    return cast(Function, njit(**OPTIONS)(function))


def entry_point(function: Function) -> Function:
    """Decorates a compiled function that Python calls; its machine code is kept on disk.

    numba looks only at the file of this function to see whether its cache is stale. The function
    must therefore close over :func:`source_stamp`, which becomes part of the cache's key.
    """
    try:
        return cast(Function, njit(**OPTIONS, cache=True)(function))
    except RuntimeError:  # neither this folder nor the user's cache folder can be written
        return cast(Function, njit(**OPTIONS)(function))


def sources() -> list[Path]:
    """The files that machine code can depend on: those of the engine, and all they import.

    The value of a constant becomes part of the machine code, wherever it was imported from.
    """
    engine = Path(__file__).parent
    folders = (engine, engine.parent / "scenario")
    return [
        *(path for folder in folders for path in sorted(folder.glob("*.py"))),
        *(Path(str(module.__file__)) for module in (checks, errors, goals)),
    ]


def source_stamp() -> int:
    """A number above 0 that changes whenever a file of :func:`sources` does."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sources():
        digest.update(path.read_bytes())
    return 1 + int.from_bytes(digest.digest(), "big")
