"""Checks at the boundary: what was given, what is allowed, what to do."""

from __future__ import annotations

import math
from numbers import Number, Real

from controlmq.errors import InputError

MOST_PREFETCH = 65535
"""Messages. The prefetch count of AMQP 0-9-1 is an unsigned 16-bit number."""


def finite(name: str, value: object) -> float:
    """``value`` as a float, refusing what is not a finite number (booleans included)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        # A Decimal is a number, but Python does not add it to a float.
        is_number = isinstance(value, Number) and not isinstance(value, bool)
        wanted = "an int or a float" if is_number else "a number"
        raise InputError(f"{name} is {value!r}; give {wanted}.")
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


def prefetch_count(name: str, value: object) -> float:
    """``value`` as a real number of messages that a broker could be asked for."""
    number = not_negative(name, value)
    if number > MOST_PREFETCH:
        raise InputError(f"{name} is {number:g}; AMQP allows at most {MOST_PREFETCH}.")
    return number
