"""The questions asked of a trace: which model, what does its curve look like, is it enough."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from pyspark.sql import SparkSession

from controlmq.checks import finite, not_negative
from controlmq.errors import InputError
from identification.aggregation import Sorting, cells_of
from identification.curves import Curve, curves_of
from identification.diagnosis import Diagnosis, diagnose
from identification.failures import in_a_sentence
from identification.fit import Fit, fit_groups
from identification.reading import read_traces
from identification.statistics import Cells, Forgetting, LinearRange


def identify(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    by: Sequence[str] = ("group",),
    offset: bool = True,
    linear_range: LinearRange = None,
    held_out: float = 0.25,
    split: Literal["time", "trace"] = "time",
    bin_width: float = 1.0,
    forgetting: Forgetting | None = None,
) -> list[Fit]:
    """A fit for every group in the traces at ``path``, groups in order.

    ``by`` are the columns whose values make a group. ``offset=False`` forces the model through
    the origin (c = 0). ``linear_range`` is the prefetch between which rows are fitted:
    ``(low, high)``, ``"all"``, or None to fit below the knee of the curve. ``held_out`` is the
    share of the rows kept to test the model, blocks of samples or whole traces as ``split``
    says; 0 fits all of them. ``bin_width`` is how far apart, in messages, prefetches count as
    different levels when the knee is sought. With ``forgetting``, older rows weigh less.

    A group that cannot be fitted comes with its reason; only a path, a file or an option
    that cannot be used raises :class:`~controlmq.errors.InputError`.
    """
    checked = checked_range(linear_range)
    sorting = Sorting(tuple(by), held_out, split, bin_width, checked, forgetting)
    return fit_groups(_read_cells(spark, path, sorting), offset=offset, linear_range=checked)


def curve(spark: SparkSession, path: str | os.PathLike[str]) -> list[Curve]:
    """The curve of every group in the traces at ``path``, from all rows, groups in order."""
    return curves_of(_read_cells(spark, path, Sorting(held_out=0)))


def diagnose_traces(
    spark: SparkSession, path: str | os.PathLike[str], fits: Sequence[Fit]
) -> list[Diagnosis]:
    """A closer look at some of the groups that were fitted at ``path``."""
    with in_a_sentence(path):
        return diagnose(read_traces(spark, path, tuple(fits[0].key)), fits)


def _read_cells(spark: SparkSession, path: str | os.PathLike[str], sorting: Sorting) -> Cells:
    with in_a_sentence(path):
        cells = cells_of(read_traces(spark, path, sorting.by), sorting)
    if not len(cells):
        raise InputError(f"the trace at {path} holds no rows; record one first.")
    return cells


def checked_range(given: LinearRange) -> LinearRange:
    """A linear range as it was given, refusing what is none."""
    if given is None or given == "all":
        return given
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InputError(f"linear_range is {given!r}; give two numbers, 'all' or None.")
    low, high = not_negative("linear_range low", given[0]), finite("linear_range high", given[1])
    if low >= high:
        raise InputError(f"linear_range is {low:g} to {high:g}; its low end must be below.")
    return low, high
