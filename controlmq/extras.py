"""Libraries that a small installation does not have, asked for with a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from controlmq.errors import ControlmqError

EXTRAS = {
    "aio-pika": ("aio_pika",),
    "celery": ("celery",),
    "design": ("control", "rich"),
    "dramatiq": ("dramatiq",),
    "faststream": ("faststream", "aio_pika"),
    "identification": ("pyspark", "pandas", "pyarrow", "numpy", "rich"),
    "metrics": ("prometheus_client",),
    "opentelemetry": ("opentelemetry.metrics",),
    "recording": ("pyarrow",),
    "reports": ("rich", "matplotlib"),
    "simulation": ("numba", "numpy", "rich"),
    "taskiq": ("taskiq", "taskiq_aio_pika", "aio_pika"),
}
"""The modules that each extra brings, as pyproject.toml has their distributions."""


class MissingExtraError(ControlmqError, ModuleNotFoundError):
    """A library that comes with one of the extras is not installed."""


Needs = Mapping[str, Sequence[str]]
"""Extras, and the modules of each that are used."""


def needs(*extras: str) -> Needs:
    """All that these extras bring."""
    return {extra: EXTRAS[extra] for extra in extras}


def need(module: str, extra: str) -> Any:
    """The module; where it is not installed, say which extra brings it."""
    check({extra: [module]})
    return import_module(module)


def check(needed: Needs, who: str = "this") -> None:
    """Say which extras have to be installed for ``who``, if any; nothing is imported."""
    missing = {extra: lacking for extra, each in needed.items() if (lacking := _lacking(each))}
    if not missing:
        return
    modules = list(dict.fromkeys(module for lacking in missing.values() for module in lacking))
    raise MissingExtraError(
        f"{who} needs {_listed(modules)}; run: pip install 'controlmq[{','.join(missing)}]'",
        name=modules[0],
    )


def _lacking(modules: Iterable[str]) -> list[str]:
    return [module for module in modules if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that the module is in
        return False


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
