"""Libraries that a small installation does not have, asked for with a sentence."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from controlmq.errors import ControlmqError


class MissingExtraError(ControlmqError, ModuleNotFoundError):
    """A library that comes with one of the extras is not installed."""


def need(module: str, extra: str) -> Any:
    """The module; where it is not installed, say which extra brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"this needs {module}; run: pip install 'controlmq[{extra}]'", name=error.name
        ) from None
