"""Arguments that more than one command takes, and how numbers are read."""

from __future__ import annotations

import argparse
import cmath
import math
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import TypeAlias

from controlmq.errors import InputError
from controlmq.model import ArxModel

Commands: TypeAlias = "argparse._SubParsersAction[ArgumentParser]"
"""What sub-commands are added to."""


def new_command(commands: Commands, name: str, summary: str, teaching: str) -> ArgumentParser:
    """A sub-command whose help starts with what it does and ends with examples."""
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=teaching,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_fit(parser: ArgumentParser) -> None:
    """``--linear-range`` and ``--no-offset``: what is fitted to a trace."""
    parser.add_argument(
        "--linear-range",
        nargs=2,
        type=number,
        metavar=("LOW", "HIGH"),
        help="fit between these prefetches (default: below the knee found in the data)",
    )
    parser.add_argument(
        "--no-offset", action="store_true", help="force models through the origin, c = 0"
    )


def add_group_by(parser: ArgumentParser) -> None:
    """``--group-by``: several columns after one option, or one after each of several."""
    parser.add_argument(
        "--group-by",
        nargs="+",
        action="extend",
        metavar="COLUMN",
        help="columns whose values make a group (default: group)",
    )


def group_by_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The columns to group by, each once."""
    return tuple(dict.fromkeys(arguments.group_by or ("group",)))


def keep_negative_numbers(argv: Sequence[str]) -> list[str]:
    """Let ``-6.3e-2`` and ``-0.3+0.1j`` be values: argparse takes them for options.

    A leading space makes an argument a value, and number parsing ignores it.
    """
    return [f" {word}" if word.startswith("-") and _is_number(word) else word for word in argv]


def _is_number(word: str) -> bool:
    try:
        complex(word.replace("i", "j"))
    except ValueError:
        return False
    return True


def number(word: str) -> float:
    """A finite real number."""
    try:
        value = float(word)
    except ValueError:
        raise ArgumentTypeError(f"{word.strip()!r} is not a number") from None
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{word.strip()!r} is not finite")
    return value


def complex_number(word: str) -> complex:
    """A finite complex number as Python writes it; ``i`` is taken for ``j``."""
    try:
        value = complex(word.strip().replace("i", "j"))
    except ValueError:
        raise ArgumentTypeError(
            f"{word.strip()!r} is not a complex number such as 0.5+0.3j"
        ) from None
    if not cmath.isfinite(value):
        raise ArgumentTypeError(f"{word.strip()!r} is not finite")
    return value


def count(word: str) -> int:
    """A whole number of 1 or more."""
    return _whole(word, 1)


def seed(word: str) -> int:
    """A whole number of 0 or more."""
    return _whole(word, 0)


def _whole(word: str, least: int) -> int:
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
    group.add_argument("--model", metavar="FILE", help="a model file, as 'identify' writes it")
    group.add_argument("--a", type=number, help="how much of a rate is left one sample later")
    group.add_argument("--b", type=number, help="messages/second that one message of prefetch adds")
    group.add_argument("--c", type=number, default=None, help="offset, messages/second (default 0)")
    group.add_argument(
        "--interval", type=number, default=None, help="seconds from sample to sample (default 1)"
    )
    group.add_argument(
        "--linear-range",
        nargs=2,
        type=number,
        default=None,
        metavar=("LOW", "HIGH"),
        help="prefetch between which the model holds (default 0 1000)",
    )


def model_from(arguments: argparse.Namespace) -> ArxModel | None:
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
