"""Checks at the boundary: what was given, what is allowed, what to do."""

from __future__ import annotations

import math

from controlmq.errors import InputError


def finite(name: str, value: object) -> float:
    """``value`` as a float, refusing what is not a finite number (booleans included)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} is {value!r}; give a number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name} is {value!r}; give a finite number.")
    return number


def above_zero(name: str, value: object) -> float:
    """``value`` as a float above 0."""
    number = finite(name, value)
    if number <= 0:
        raise InputError(f"{name} is {number:g}; give a number above 0.")
    return number


def not_negative(name: str, value: object) -> float:
    """``value`` as a float of 0 or more."""
    number = finite(name, value)
    if number < 0:
        raise InputError(f"{name} is {number:g}; give 0 or more.")
    return number
