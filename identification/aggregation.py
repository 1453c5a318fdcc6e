"""The Spark half: one grouped aggregation from transitions to statistics per group.

Spark is fastest at adding doubles, so it only adds: counts, sums and sums of products of
``(u, y, y_next)``. Sums about 0 are exact enough for most groups. The sums themselves show for
which they are not: groups whose spread is small beside their mean. Only these are added up a
second time, about that mean (``MOST_RELATIVE_ERROR_OF_VARIANCE``). A shift for every group from
the start would need a pass to find it and a join for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from controlmq.checks import MOST_PREFETCH, above_zero, not_negative
from controlmq.errors import InputError
from identification.statistics import (
    BELOW_ZERO,
    EXTREMES,
    FIRST_HALF,
    HELD_OUT,
    LEFT_OUT,
    OUTSIDE,
    PAIRS,
    STARVED,
    UNSOUND,
    VARIABLES,
    Cells,
    Floats,
    Forgetting,
    Integers,
    LinearRange,
    Mask,
    Moments,
    floats,
    group_numbers,
    integers,
    merged,
    moments_of_sums,
)

BLOCK_SAMPLES = 5
"""Samples in a row that are held out together.

Neighbouring rows share a measurement (the y_next of one is the y of the other); rows held
out one by one would share all of theirs with the rows fitted, blocks of 5 only a fifth.
"""

MOST_RATE = 1e12
"""Messages/second beyond which a rate is a mistake, and its square no longer a number."""

MOST_RELATIVE_ERROR_OF_VARIANCE = 1e-11
"""Relative error that sums about 0 may leave in a group's variances.

Standard errors lose two more digits where a model explains 99 % of the variance, and are to
be right to 1e-9.
"""

SHIFT_PREFIX = "_shift_"
"""What the columns that hold a group's shift start with while it is added up again."""


@dataclass(frozen=True)
class Sorting:
    """Into which cells rows are sorted before they are added up.

    ``by`` are the columns whose values make a group. ``held_out`` is the share of rows kept to
    test models: blocks of samples, or whole traces if ``split`` is "trace". Rows outside
    ``linear_range`` are only counted; where it is to be found, ``bin_width`` is how far apart, in
    messages, prefetches count as different levels. ``forgetting`` lets older rows weigh less.
    """

    by: tuple[str, ...] = ("group",)
    held_out: float = 0.25
    split: Literal["time", "trace"] = "time"
    bin_width: float = 1.0
    linear_range: LinearRange = None
    forgetting: Forgetting | None = None

    def __post_init__(self) -> None:
        if not self.by:
            raise InputError("no column is named to group by; name one, such as group.")
        measured = [name for name in self.by if name in ("interval", *VARIABLES)]
        if measured:
            raise InputError(f"{measured[0]} differs from row to row; group by another column.")
        if not_negative("held_out", self.held_out) >= 1:
            raise InputError(
                f"held_out is {self.held_out:g}; give a share of 0 or more and below 1."
            )
        if self.split not in ("time", "trace"):
            raise InputError(f"split is {self.split!r}; give time or trace.")
        above_zero("bin_width", self.bin_width)

    @property
    def has_bins(self) -> bool:
        """Whether rows are sorted by their prefetch, to find the linear range."""
        return self.linear_range is None


def cells_of(transitions: DataFrame, sorting: Sorting) -> Cells:
    """The statistics of every group in the transitions, groups in order.

    ``transitions`` has the columns of a trace and those of ``sorting.by``; the order of its rows
    does not matter. Raises :class:`~controlmq.errors.InputError` if a row has no group.
    """
    sorting = _with_reference(transitions, sorting)
    table = _aggregate(transitions, sorting, shifted=False).toArrow()
    if any(table[name].null_count for name in sorting.by):
        raise InputError(
            f"there are rows without a {' or '.join(sorting.by)}; name the consumer in each."
        )
    cells = _cells(table, sorting.by, np.zeros((1, 3)), np.zeros(table.num_rows, dtype=np.int64))
    groups = _groups(cells)
    blurred = _blurred(groups)
    if not blurred.any():
        return cells
    shift = groups.mean
    shifts = _shift_table(cells, shift, blurred)
    spark = transitions.sparkSession
    near = transitions.join(F.broadcast(spark.createDataFrame(shifts)), list(sorting.by))
    again = _aggregate(near, sorting, shifted=True).toArrow()
    return _replaced(cells, again, shift, blurred)


def _with_reference(transitions: DataFrame, sorting: Sorting) -> Sorting:
    """Weigh rows relative to the latest where no time is given."""
    forgetting = sorting.forgetting
    if forgetting is None or forgetting.reference is not None:
        return sorting
    latest = transitions.where(_finite("time")).agg(F.max("time")).first()
    reference = 0.0 if latest is None or latest[0] is None else float(latest[0])
    return replace(sorting, forgetting=replace(forgetting, reference=reference))


def _aggregate(transitions: DataFrame, sorting: Sorting, *, shifted: bool) -> DataFrame:
    """One row per cell, with the sums over its rows."""
    # Sums over columns that cannot be null are quicker. What is missing is not added to any
    # cell that is fitted.
    there = transitions.select(
        *sorting.by,
        _cell(sorting).alias("cell"),
        *(_or_zero(F.col(name)).alias(name) for name in ("interval", *VARIABLES)),
        *(SHIFT_PREFIX + name for name in VARIABLES if shifted),
        *(_or_zero(weight).alias("weight") for weight in _weight(sorting.forgetting)),
    )
    values = [F.col(name) for name in VARIABLES]
    if shifted:
        values = [F.col(name) - F.col(SHIFT_PREFIX + name) for name in VARIABLES]
    weight = F.col("weight") if sorting.forgetting is not None else None
    weighted = values if weight is None else [value * weight for value in values]
    sums = [F.sum(value).alias(f"sum_{i}") for i, value in enumerate(weighted)]
    sums += [F.sum(weighted[i] * values[j]).alias(f"sum_{i}{j}") for i, j in PAIRS]
    if weight is not None:
        sums += [F.sum(weight).alias("weight"), F.sum(weight * weight).alias("weight2")]
    return there.groupBy(*sorting.by, "cell").agg(
        F.count("*").alias("rows"),
        *sums,
        F.min("u").alias("u_low"),
        F.max("u").alias("u_high"),
        F.sum("interval").alias("interval_sum"),
        F.min("interval").alias("interval_low"),
        F.max("interval").alias("interval_high"),
    )


def _cell(sorting: Sorting) -> Column:
    """The cell of a row as one number, ``4 * bin + part``: the fewer keys, the faster."""
    u = F.col("u")
    kept = F.rint(u / sorting.bin_width).cast("long") if sorting.has_bins else F.lit(0)
    cell = (
        F.when(~_sound(sorting), 4 * UNSOUND + LEFT_OUT)
        .when(u < 0, 4 * BELOW_ZERO + LEFT_OUT)
        .when(~F.col("window_limited"), 4 * STARVED + LEFT_OUT)
    )
    if isinstance(sorting.linear_range, tuple):
        low, high = sorting.linear_range
        cell = cell.when((u < low) | (u > high), 4 * OUTSIDE + LEFT_OUT)
    return cell.otherwise(4 * kept + _part(sorting)).cast("long")


def _sound(sorting: Sorting) -> Column:
    """Whether a row holds numbers that a consumer could have measured."""
    conditions = [
        F.col("window_limited").isNotNull(),
        _finite("interval"),
        _finite("u"),
        F.col("u") <= MOST_PREFETCH,
        F.abs(F.col("y")) <= MOST_RATE,
        F.abs(F.col("y_next")) <= MOST_RATE,
    ]
    if sorting.held_out or sorting.has_bins:
        conditions.append(F.col("sample").isNotNull())
    if sorting.forgetting is not None:
        conditions.append(_finite("time"))
    return F.coalesce(reduce(and_, conditions), F.lit(False))


def _part(sorting: Sorting) -> Column:
    """Which part of its group a row belongs to, known from the row alone.

    Blocks of 5 consecutive samples go together. Those held out are spread evenly so that they
    make up the share asked for: at 0.25 the fourth, the eighth, and so on. The others go to the
    two halves in turn. No random number and no count of the rows enters, so a row's part never
    changes as a trace grows.
    """
    share = sorting.held_out
    block = F.floor(F.col("sample") / BLOCK_SAMPLES)
    held_before = F.floor(block * F.lit(share))
    if sorting.split == "trace":
        among_all = F.pmod(F.xxhash64("trace"), F.lit(1 << 20)) / (1 << 20)
        is_held_out, in_turn = among_all < share, block
    else:
        is_held_out = F.floor((block + 1) * F.lit(share)) > held_before
        in_turn = block - held_before
    half = F.pmod(in_turn, F.lit(2)) if sorting.has_bins else F.lit(FIRST_HALF)
    return half if share == 0 else F.when(is_held_out, HELD_OUT).otherwise(half)


def _weight(forgetting: Forgetting | None) -> list[Column]:
    """The weight of a row, or nothing where all weigh the same."""
    if forgetting is None or forgetting.reference is None:
        return []
    age = F.lit(forgetting.reference) - F.col("time")
    return [F.pow(F.lit(2.0), -age / F.lit(forgetting.half_life))]


def _or_zero(value: Column) -> Column:
    return F.coalesce(value, F.lit(0.0))


def _finite(name: str) -> Column:
    # Spark orders NaN above infinity, so one comparison excludes both.
    return F.abs(F.col(name)) < F.lit(float("inf"))


def _cells(table: pa.Table, by: Sequence[str], shift: Floats, shift_of: Integers) -> Cells:
    """Cells from Spark's sums about ``shift[shift_of]``."""
    groups, group = group_numbers(table, by)
    # Spark gives cells in any order; added up in one order, they give the same digits every time.
    order = np.lexsort((integers(table, "cell"), group))
    table, group, shift_of = table.take(order), group[order], shift_of[order]
    code, rows = integers(table, "cell"), integers(table, "rows")
    part = code % 4
    counted = part != LEFT_OUT

    def column(name: str) -> Floats:
        # Rows that are only counted may add up to anything.
        return np.where(counted, floats(table, name), 0.0)

    weight = column("weight") if "weight" in table.column_names else np.where(counted, rows, 0.0)
    weight2 = column("weight2") if "weight2" in table.column_names else weight
    moments = moments_of_sums(
        rows,
        weight,
        weight2,
        shift[shift_of],
        np.column_stack([column(f"sum_{i}") for i in range(3)]),
        np.column_stack([column(f"sum_{i}{j}") for i, j in PAIRS]),
    )
    extremes = (column(name) for name in EXTREMES)
    return Cells(tuple(by), groups, group, part, code // 4, moments, *extremes)


def _groups(cells: Cells) -> Moments:
    """The moments of every group, over the rows that are not only counted."""
    fitted = cells.part != LEFT_OUT
    return merged(cells.moments[fitted], cells.group[fitted], len(cells.groups))


def _blurred(groups: Moments) -> Mask:
    """The groups whose spread is so small beside their mean that sums about 0 lose its digits."""
    spread = np.einsum("nii->ni", groups.products)
    size = groups.weight[:, None] * groups.mean**2
    rounding = np.finfo(float).eps * np.sqrt(groups.rows)
    return np.asarray(
        (size * rounding[:, None] > MOST_RELATIVE_ERROR_OF_VARIANCE * spread).any(axis=1)
    )


def _shift_table(cells: Cells, shift: Floats, chosen: Mask) -> pa.Table:
    keys = [key for key, wanted in zip(cells.groups, chosen.tolist(), strict=True) if wanted]
    columns: dict[str, Any] = {name: [key[i] for key in keys] for i, name in enumerate(cells.by)}
    for i, name in enumerate(VARIABLES):
        columns[SHIFT_PREFIX + name] = shift[chosen, i]
    return pa.table(columns)


def _replaced(cells: Cells, again: pa.Table, shift: Floats, blurred: Mask) -> Cells:
    """The cells with those of the blurred groups taken from the sums about their own mean."""
    numbers = np.flatnonzero(blurred)
    _, group = group_numbers(again, cells.by)
    new = _cells(again, cells.by, shift[numbers], group)
    old = cells.only(~blurred[cells.group])
    return old.beside(replace(new, groups=cells.groups, group=numbers[new.group]))
