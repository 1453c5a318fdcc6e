"""Reads a scenario from TOML: a shipped one, or a user's own.

The keys are the fields of the dataclasses in the files beside this one, and of
:class:`controlmq.goals.Goals`. Only ``file``, for durations and sizes that are replayed, is a word
of this file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from controlmq.errors import InputError
from simulator.scenario.distributions import Duration, Size
from simulator.scenario.scenario import Scenario

Entity = TypeVar("Entity")


def shipped_scenarios() -> list[str]:
    """The names of the scenarios that are part of the package."""
    folder = resources.files("simulator.scenario") / "shipped"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_scenario(name_or_path: str | os.PathLike[str]) -> Scenario:
    """A shipped scenario by its name ("rosa"), or one from a TOML file by its path."""
    if isinstance(name_or_path, str) and name_or_path in shipped_scenarios():
        shipped = resources.files("simulator.scenario") / "shipped" / f"{name_or_path}.toml"
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
    return parse_scenario(text, source=str(name_or_path), folder=Path(name_or_path).parent)


def parse_scenario(text: str, source: str = "scenario", folder: Path | None = None) -> Scenario:
    """A scenario from TOML text; error messages begin with ``source``.

    ``folder`` holds the files of replayed values; if not given, the current folder.
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not a TOML file: {error}.") from None
    try:
        return scenario_from(content, folder or Path())
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def scenario_from(content: dict[str, Any], folder: Path = Path()) -> Scenario:
    """A scenario from the tables of a file."""
    return _read(content, Scenario, folder)


def _read(table: dict[str, Any], type_: type[Entity], folder: Path) -> Entity:
    _check_keys(table, type_)
    values, parts = dict(table), _parts(type_)
    for key, value in table.items():
        part, several = parts.get(key, (None, False))
        if part is None:
            continue
        if several:
            values[key] = _list(key, value, part, folder)
        elif part in (Duration, Size):
            values[key] = _distribution(key, value, part, folder)
        else:
            values[key] = _table(key, value, part, folder)
    return type_(**values)


def _parts(type_: type) -> dict[str, tuple[type, bool]]:
    """The keys whose values are entities of their own: of which type, and whether several."""
    return {
        key: (part, get_origin(hint) is Sequence)
        for key, hint in get_type_hints(type_).items()
        for part in get_args(hint) or (hint,)
        if is_dataclass(part) and isinstance(part, type)
    }


def _list(kind: str, tables: object, type_: type[Entity], folder: Path) -> list[Entity]:
    if not isinstance(tables, list):
        raise InputError(f"{kind} is {tables!r}; give tables headed [[{kind}]].")
    return [
        _table(f"{kind} {number}", table, type_, folder) for number, table in enumerate(tables, 1)
    ]


def _table(where: str, table: object, type_: type[Entity], folder: Path) -> Entity:
    try:
        if not isinstance(table, dict):
            raise InputError(f"{table!r} is given; give a table of keys and values.")
        return _read(table, type_, folder)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _distribution(key: str, value: object, type_: type[Entity], folder: Path) -> Entity | object:
    if not isinstance(value, dict):
        return value if type_ is Size else _table(key, {"mean": value}, type_, folder)
    if "file" in value:
        if "values" in value:
            raise InputError(f"{key}: give either 'values' or 'file', not both.")
        value = dict(value)
        value["values"] = _numbers(key, value.pop("file"), folder)
        value.setdefault("distribution", "replay")
    return _table(key, value, type_, folder)


def _numbers(key: str, file: object, folder: Path) -> list[float]:
    """The numbers of a text file, one on each line; with several columns, the first."""
    try:
        lines = (folder / str(file)).read_text(encoding="utf-8").splitlines()
        return [float(line.split(",")[0]) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{key}: cannot read numbers from {file!r}: {error}; give one on each line."
        ) from None


def _check_keys(table: dict[str, Any], type_: type) -> None:
    allowed = [field.name for field in fields(type_)]
    for key in table:
        if key not in allowed:
            raise InputError(f"{key!r} is not a key here; give one of {', '.join(allowed)}.")
    for field in fields(type_):
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in table:
            raise InputError(f"{field.name!r} is missing; give it a value.")
