"""Writes a scenario as TOML; :func:`parse_scenario` reads it back as the same scenario."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from simulator.scenario.distributions import Duration, Size
from simulator.scenario.scenario import Scenario


def scenario_text(scenario: Scenario, comment: str = "") -> str:
    """TOML with the values that differ from their defaults, below a ``comment``."""
    blocks = ["\n".join(f"# {line}".rstrip() for line in comment.splitlines())] if comment else []
    words = _words(scenario)
    plain = {key: value for key, value in words.items() if not _is_table(value)}
    blocks.append(_lines(plain))
    for key, value in words.items():
        if is_dataclass(value):
            blocks.append(f"[{key}]\n{_lines(_words(value))}")
        elif _is_table(value):
            blocks += [f"[[{key}]]\n{_lines(_words(entity))}" for entity in value]
    return "\n\n".join(blocks) + "\n"


def _words(entity: Any) -> dict[str, Any]:
    """The values of an entity that differ from their defaults."""
    values = ((each, getattr(entity, each.name)) for each in fields(entity))
    return {each.name: value for each, value in values if value != _default(each)}


def _default(field: Field[Any]) -> object:
    if field.default is not MISSING:
        return field.default
    return None if field.default_factory is MISSING else field.default_factory()


def _is_table(value: object) -> bool:
    """Whether a value has a heading of its own in a file."""
    return is_dataclass(value) or (
        isinstance(value, list | tuple) and bool(value) and is_dataclass(value[0])
    )


def _lines(words: Mapping[str, object]) -> str:
    return "\n".join(f"{key} = {_value(value)}" for key, value in words.items())


def _value(value: object) -> str:
    if isinstance(value, Duration | Size):
        if value.distribution == "deterministic":
            return _value(value.mean)
        words = _words(value)
        if value.values is not None:
            del words["mean"]  # computed from the values
        return _value(words)
    if is_dataclass(value):
        return _value(_words(value))
    if isinstance(value, Mapping):
        inside = ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # Python's notation of a float and JSON's of a text or a truth value are valid TOML.
    return repr(value) if isinstance(value, float) else json.dumps(value)
