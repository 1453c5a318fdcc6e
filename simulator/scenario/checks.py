"""Checks of the values in a scenario; a message has what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from controlmq.checks import not_negative
from controlmq.errors import InputError
from simulator.scenario.distributions import LONGEST_SECONDS, Duration, Size

LARGEST_MESSAGE_BYTES = 512 * 1024 * 1024
"""The largest max_message_size that RabbitMQ accepts."""

MOST_PRIORITIES = 255
"""RabbitMQ's limit for x-max-priority."""

Entity = TypeVar("Entity")


def unless_none(check: Callable[..., object], key: str, value: object, *limits: int) -> None:
    """Apply one of the checks below to a ``value`` that may be left out."""
    if value is not None:
        check(key, value, *limits)


def text(key: str, value: object) -> None:
    """Refuse a ``value`` that is not a text, or is empty."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{key} is {value!r}; give a text that is not empty.")


def any_text(key: str, value: object) -> None:
    """Refuse a ``value`` that is not a text; it may be empty, as a routing key may."""
    if not isinstance(value, str):
        raise InputError(f"{key} is {value!r}; give a text.")


def whole(key: str, value: object, low: int, high: int) -> None:
    """Refuse a ``value`` that is not a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{key} is {value!r}; give a whole number from {low} to {high}.")


def flag(key: str, value: object) -> None:
    """Refuse a ``value`` that is neither true nor false."""
    if not isinstance(value, bool):
        raise InputError(f"{key} is {value!r}; give true or false.")


def seconds(key: str, value: object) -> None:
    """Refuse a ``value`` that is not a number of seconds, 0 or more."""
    if not_negative(key, value) > LONGEST_SECONDS:
        raise InputError(f"{key} is {value} seconds; give at most {LONGEST_SECONDS:g}.")


def share(key: str, value: object) -> None:
    """Refuse a ``value`` that is not a probability."""
    if not_negative(key, value) > 1:
        raise InputError(f"{key} is {value}; give a probability from 0 to 1.")


def choice(key: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a ``value`` that is not one of those ``allowed``."""
    if value not in allowed:
        raise InputError(f"{key} is {value!r}; give one of {', '.join(allowed)}.")


def duration(key: str, value: object) -> None:
    """Refuse a ``value`` that is not a :class:`Duration`."""
    if not isinstance(value, Duration):
        raise InputError(f"{key} is {value!r}; give a Duration.")


def size(key: str, value: object) -> None:
    """Refuse a ``value`` that is not a number of bytes, fixed or drawn."""
    if isinstance(value, Size):
        largest = max(value.values) if value.values else value.mean
        if largest > LARGEST_MESSAGE_BYTES:
            what = "a value" if value.values else "a mean"
            raise InputError(
                f"{key} has {what} of {largest:g} bytes; give at most {LARGEST_MESSAGE_BYTES}."
            )
        return
    whole(key, value, 0, LARGEST_MESSAGE_BYTES)


def headers(key: str, value: object) -> None:
    """Refuse a ``value`` that is not a table of header names and plain values."""
    plain = (str, int, float, bool)
    if not isinstance(value, dict) or not all(
        isinstance(name, str) and isinstance(each, plain) for name, each in value.items()
    ):
        raise InputError(f"{key} is {value!r}; give a table of names with texts or numbers.")


def entities(
    owner: Any, key: str, type_: type[Entity], *, needed: bool = False
) -> tuple[Entity, ...]:
    """The entities under a key of a frozen dataclass, which then holds them as a tuple.

    No two of them may have the same name.
    """
    value = getattr(owner, key)
    if not isinstance(value, list | tuple) or not all(isinstance(each, type_) for each in value):
        raise InputError(f"{key} is {value!r}; give a list of {type_.__name__}.")
    if needed and not value:
        raise InputError(f"{key} is empty; a scenario needs at least one entry in it.")
    seen: set[str] = set()
    for name in (each.name for each in value if hasattr(each, "name")):
        if name in seen:
            raise InputError(f"{key} has two entries named {name!r}; rename one.")
        seen.add(name)
    object.__setattr__(owner, key, tuple(value))
    return tuple(value)


def known(key: str, name: str, names: Sequence[str], owner: str) -> None:
    """Refuse a ``name`` that none of the entities it may refer to has."""
    if name not in names:
        there = ", ".join(map(repr, names)) or f"those under {key}s (there are none)"
        raise InputError(f"{key} of {owner!r} is {name!r}; give one of {there}.")
