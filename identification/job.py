"""The two questions asked of a trace: which model, and what does its curve look like."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from controlmq.checks import above_zero, finite, not_negative
from controlmq.errors import InputError
from identification.aggregation import statistics
from identification.fit import Curve, Fit, LinearRange, curve_of, fit_group


def identify(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    offset: bool = True,
    linear_range: LinearRange = None,
    held_out: float = 0.25,
    bin_width: float = 1.0,
) -> list[Fit]:
    """A fit for every group in the traces at ``path``, groups in order.

    ``offset=False`` forces the model through the origin (c = 0). ``linear_range`` is the
    prefetch between which rows are fitted: ``(low, high)``, ``"all"``, or None to fit below
    the knee of the curve. ``held_out`` is the share of the rows kept to test the model;
    0 fits all of them. ``bin_width`` is how far apart, in messages, prefetches count as
    different levels when the knee is sought.

    A group that cannot be fitted comes with its reason; only a path, a file or an option
    that cannot be used raises :class:`~controlmq.errors.InputError`.
    """
    checked = _linear_range(linear_range)
    if not_negative("held_out", held_out) >= 1:
        raise InputError(f"held_out is {held_out:g}; give a share of 0 or more and below 1.")
    above_zero("bin_width", bin_width)
    groups = statistics(spark, path, held_out=held_out, bin_width=bin_width)
    return [fit_group(group, offset=offset, linear_range=checked) for group in groups]


def curve(
    spark: SparkSession, path: str | os.PathLike[str], *, bin_width: float = 1.0
) -> list[Curve]:
    """The curve of every group in the traces at ``path``, from all rows, groups in order."""
    above_zero("bin_width", bin_width)
    return [curve_of(group) for group in statistics(spark, path, held_out=0, bin_width=bin_width)]


def _linear_range(given: LinearRange) -> LinearRange:
    if given is None or given == "all":
        return given
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InputError(f"linear_range is {given!r}; give two numbers, 'all' or None.")
    low, high = not_negative("linear_range low", given[0]), finite("linear_range high", given[1])
    if low >= high:
        raise InputError(f"linear_range is {low:g} to {high:g}; its low end must be below.")
    return low, high
