"""Reading a scenario from TOML: one to copy from, or a user's own."""

from __future__ import annotations

import os
import tomllib
from dataclasses import MISSING, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from controlmq.errors import InputError
from simulator.duration import Duration
from simulator.scenario import Consumer, Link, Publishers, Queue, Scenario

Entity = TypeVar("Entity", Publishers, Queue, Consumer, Link, Duration)

DURATIONS = ("every", "work", "jitter")
"""Keys whose value is a duration: a number of seconds, or a table with its distribution."""

TABLES = {"publishers": Publishers, "queues": Queue, "consumers": Consumer, "links": Link}


def shipped_scenarios() -> list[str]:
    """The names that :func:`load_scenario` knows without a file."""
    folder = resources.files("simulator") / "scenarios"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_scenario(name_or_path: str | os.PathLike[str]) -> Scenario:
    """A shipped scenario by its name ("rosa"), or one from a TOML file by its path."""
    if isinstance(name_or_path, str) and name_or_path in shipped_scenarios():
        shipped = resources.files("simulator") / "scenarios" / f"{name_or_path}.toml"
        return parse_scenario(shipped.read_text(encoding="utf-8"), source=name_or_path)
    try:
        text = Path(name_or_path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"there is no scenario {str(name_or_path)!r}; "
            f"give the path of a TOML file or one of {', '.join(shipped_scenarios())}."
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the scenario {str(name_or_path)!r}: {error}.") from None
    return parse_scenario(text, source=str(name_or_path))


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """A scenario from TOML text; ``source`` is what an error calls it."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not a TOML file: {error}.") from None
    try:
        return scenario_from(content)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def scenario_from(content: dict[str, Any]) -> Scenario:
    """A scenario from the tables of a file."""
    _check_keys(content, Scenario)
    values = dict(content)
    for kind, type_ in TABLES.items():
        if kind in values:
            values[kind] = _entities(kind, values[kind], type_)
    return Scenario(**values)


def _entities(kind: str, tables: object, type_: type[Entity]) -> list[Entity]:
    if not isinstance(tables, list):
        raise InputError(f"{kind} is {tables!r}; give tables headed [[{kind}]].")
    return [_entity(f"{kind} {number}", table, type_) for number, table in enumerate(tables, 1)]


def _entity(where: str, table: object, type_: type[Entity]) -> Entity:
    try:
        if not isinstance(table, dict):
            raise InputError(f"{table!r} is given; give a table of keys and values.")
        _check_keys(table, type_)
        values = dict(table)
        for key in DURATIONS:
            if key in values:
                values[key] = _read_duration(key, values[key])
        return type_(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _read_duration(key: str, value: object) -> Duration:
    if isinstance(value, dict):
        return _entity(key, value, Duration)
    return _entity(key, {"mean": value}, Duration)


def _check_keys(table: dict[str, Any], type_: type[Entity] | type[Scenario]) -> None:
    allowed = [field.name for field in fields(type_)]
    for key in table:
        if key not in allowed:
            raise InputError(f"{key!r} is not a key here; give one of {', '.join(allowed)}.")
    for field in fields(type_):
        if field.default is MISSING and field.name not in table:
            raise InputError(f"{field.name!r} is missing; give it a value.")
