"""Arguments that more than one command takes, and how numbers are read."""

from __future__ import annotations

import cmath
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ActionsContainer
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from controlmq.errors import InputError
from controlmq.model import ArxModel

Number = TypeVar("Number", float, complex)

Options: TypeAlias = _ActionsContainer
"""What options are added to: a command, or a group of its options."""


def text(word: str) -> str:
    """A word as it was given, without the space of :func:`keep_negative_numbers`."""
    return word[1:] if word.startswith(" -") else word


def option(
    to: Options,
    usage: str,
    meaning: str,
    read: Callable[[str], object] = text,
    default: Any = None,
    **more: Any,
) -> None:
    """Add the option that ``usage`` shows: ``--limits LOW HIGH`` or ``--goal RATE...``.

    Without a value or choices it is a switch. The help ends with the default, if there is one.
    """
    name, *values = usage.split()
    if not values and "choices" not in more:
        to.add_argument(name, action="store_true", help=meaning)
        return
    several = usage.endswith("...")
    shown = tuple(value.removesuffix("...") for value in values)
    if default is not None:
        words = default if isinstance(default, list) else [default]
        stated = " ".join(f"{word:g}" if isinstance(word, float) else str(word) for word in words)
        meaning = f"{meaning} (default {stated})"
    to.add_argument(
        name,
        type=read,
        default=default,
        help=meaning,
        nargs="+" if several else len(shown) if len(shown) > 1 else None,
        metavar=shown if len(shown) > 1 else shown[0] if shown else None,
        **more,
    )


def add_seed(to: Options) -> None:
    """``--seed``."""
    option(to, "--seed SEED", "same seed, same result", whole, 1)


def add_placement(to: Options) -> None:
    """``--settling`` and ``--overshoot``: where the poles go."""
    option(to, "--settling SAMPLES", "samples until settled", number)
    option(to, "--overshoot PERCENT", "with --settling (default 0)", number)


def add_fit(parser: ArgumentParser) -> None:
    """``--group-by``, ``--linear-range`` and ``--no-offset``: what is fitted to a trace."""
    meaning = "columns whose values make a group (default: group)"
    option(parser, "--group-by COLUMN...", meaning, action="extend")
    meaning = "fit between these prefetches (default: below the knee found in the data)"
    option(parser, "--linear-range LOW HIGH", meaning, number)
    option(parser, "--no-offset", "force models through the origin, c = 0")


def fit_of(arguments: Namespace) -> dict[str, Any]:
    """What those options ask for, as the keyword arguments of a fit."""
    return {
        "by": tuple(dict.fromkeys(arguments.group_by or ("group",))),
        "offset": not arguments.no_offset,
        "linear_range": tuple(arguments.linear_range) if arguments.linear_range else None,
    }


def keep_negative_numbers(argv: Sequence[str]) -> list[str]:
    """Let ``-6.3e-2``, ``-0.3+0.1j`` and ``-5/minute`` be values: argparse takes them for options.

    No option begins with a digit or a point, so these are values even where they are wrong, and
    what reads them says why. A leading space makes an argument a value, and number parsing ignores
    it.
    """
    return [f" {word}" if word.startswith("-") and _is_number(word) else word for word in argv]


def _is_number(word: str) -> bool:
    if re.match(r"-[\d.]", word):
        return True
    try:
        complex(word.replace("i", "j"))
    except ValueError:
        return False
    return True


def number(word: str) -> float:
    """A finite real number."""
    return _finite(word, float, "a number")


def complex_number(word: str) -> complex:
    """A finite complex number as Python writes it; ``i`` is taken for ``j``."""
    shape = "a complex number such as 0.5+0.3j"
    return _finite(word, lambda word: complex(word.replace("i", "j")), shape)


def _finite(word: str, read: Callable[[str], Number], shape: str) -> Number:
    try:
        value = read(word)
    except ValueError:
        raise ArgumentTypeError(f"{word.strip()!r} is not {shape}") from None
    if not cmath.isfinite(value):
        raise ArgumentTypeError(f"{word.strip()!r} is not finite")
    return value


def count(word: str) -> int:
    """A whole number of 1 or more."""
    return _at_least(word, 1)


def whole(word: str) -> int:
    """A whole number of 0 or more."""
    return _at_least(word, 0)


def _at_least(word: str, least: int) -> int:
    try:
        value = int(word)
    except ValueError:
        raise ArgumentTypeError(f"{word.strip()!r} is not a whole number") from None
    if value < least:
        raise ArgumentTypeError(f"{value} is too small; give {least} or more")
    return value


def add_model(parser: ArgumentParser) -> None:
    """A model, from a file or from its numbers."""
    group = parser.add_argument_group("the model y(k+1) = a*y(k) + b*u(k) + c")
    option(group, "--model FILE", "a model file, as 'identify' writes it")
    option(group, "--a A", "how much of a rate is left one sample later", number)
    option(group, "--b B", "messages/second that one message of prefetch adds", number)
    option(group, "--c C", "offset, messages/second (default 0)", number)
    option(group, "--interval SECONDS", "from sample to sample (default 1)", number)
    meaning = "prefetch between which the model holds (default 0 1000)"
    option(group, "--linear-range LOW HIGH", meaning, number)


def model_from(arguments: Namespace) -> ArxModel | None:
    """The model that the arguments give, or None when they give none."""
    values = ("a", "b", "c", "interval", "linear_range")
    given = [
        f"--{name.replace('_', '-')}" for name in values if getattr(arguments, name) is not None
    ]
    if arguments.model is not None:
        if given:
            raise InputError(f"--model already says what {given[0]} says; give one of the two.")
        return ArxModel.load(arguments.model)
    if not given:
        return None
    if arguments.a is None or arguments.b is None:
        raise InputError(f"{given[0]} is given without a and b; give --a and --b, or --model FILE.")
    low, high = arguments.linear_range or (0.0, 1000.0)
    return ArxModel(
        a=arguments.a,
        b=arguments.b,
        c=arguments.c or 0.0,
        interval=1.0 if arguments.interval is None else arguments.interval,
        linear_range=(low, high),
    )
