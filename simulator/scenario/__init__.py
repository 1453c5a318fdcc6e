"""The words a user writes: what a scenario has, in Python and in TOML, and what is allowed."""

from __future__ import annotations

import warnings
from importlib import import_module

_ONCE_HERE = ("Consumer", "Link", "Publishers", "Queue", "Scenario")
"""Names that this package had when it was one module."""


def __getattr__(name: str) -> object:
    if name not in _ONCE_HERE:
        raise AttributeError(f"module 'simulator.scenario' has no attribute {name!r}")
    warnings.warn(
        f"simulator.scenario.{name} is now simulator.{name}", DeprecationWarning, stacklevel=2
    )
    return getattr(import_module("simulator"), name)
