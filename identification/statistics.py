"""Sufficient statistics: all that least squares needs to know about any number of rows.

Weighted counts, means and centred products of ``(u, y, y_next)``. Plain sums of squares would
lose the signal when rates are large and vary little (at 1e9 messages/second the squares leave
no digit of a variance of 1); products about the mean do not. They still add up: the statistics
of two sets of rows give those of the union, whatever split them (files, days, bins of u).

Every row has a weight: 1, or less the older it is (see :class:`Forgetting`). Nothing that is
computed from statistics changes when all weights are multiplied by one number, so two tables
need only agree on the time at which a row weighs 1.

**To merge two tables** of statistics, here: ``Cells.merge``. To merge elsewhere, with ``w`` the
weights, ``m`` the means and ``P`` the centred products of the parts (``W``, ``M``, ``P_all``
those of the union), which is what :func:`merged` does:

    W = sum(w)      M = sum(w*m) / W      P_all[i,j] = sum(P[i,j] + w*(m[i] - M[i])*(m[j] - M[j]))

with ``rows``, ``weight2`` and ``interval_sum`` added and the lows and highs compared. In SQL, M
must be known before P_all: group once for M, join it, group again. **To age a table** by a
factor f: multiply weight and products by f, weight2 by f squared, and leave the rest;
``Cells.scaled`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from controlmq.checks import above_zero, finite

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

LinearRange: TypeAlias = tuple[float, float] | Literal["all"] | None
"""Prefetch between which rows are fitted; None lets the knee of the curve decide."""

VARIABLES = ("u", "y", "y_next")
U, Y, Y_NEXT = 0, 1, 2
"""The three variables and their places in ``mean`` and ``products``."""

PAIRS = tuple((i, j) for i in range(3) for j in range(i, 3))
"""The places of a symmetric 3 by 3 table that are worth storing."""

FIRST_HALF, SECOND_HALF, HELD_OUT, LEFT_OUT = range(4)
"""Parts of a group's rows: two halves that are fitted, one that tests, one only counted.

There are two halves so that the linear range for either can be found on the other.
"""

STARVED, BELOW_ZERO, UNSOUND, OUTSIDE = range(4)
"""Why a row is only counted; it stands where other rows have their bin."""


@dataclass(frozen=True)
class Forgetting:
    """Older rows weigh less: half as much for every ``half_life`` seconds of their own time.

    A row at ``reference`` (seconds, the clock of the column ``time``) weighs 1. Where the
    reference lies changes no estimate; None takes the time of the latest row.
    """

    half_life: float
    reference: float | None = None

    def __post_init__(self) -> None:
        above_zero("the half-life", self.half_life)
        if self.reference is not None:
            finite("the reference time", self.reference)

    def ageing(self, seconds: float) -> float:
        """The factor by which weights shrink when the reference moves on by ``seconds``."""
        return float(np.exp2(-seconds / self.half_life))


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted moments of ``(u, y, y_next)`` over sets of rows, one set per array entry.

    ``rows`` counts rows, ``weight`` and ``weight2`` add their weights and squared weights,
    ``mean`` (n by 3) and ``products`` (n by 3 by 3) are weighted: ``products[:, i, j]`` is the
    sum of ``weight * (v_i - mean_i) * (v_j - mean_j)``.
    """

    rows: Integers
    weight: Floats
    weight2: Floats
    mean: Floats
    products: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Mask | Integers | slice) -> Moments:
        return Moments(*(values[chosen] for values in self.arrays))

    @property
    def arrays(self) -> list[Any]:
        """The arrays, in the order of the fields."""
        return [getattr(self, each.name) for each in fields(self)]

    @property
    def raw_products(self) -> Floats:
        """Products about 0 instead of about the mean: the sums of a fit without offset."""
        outer = self.mean[:, :, None] * self.mean[:, None, :]
        raw: Floats = self.products + self.weight[:, None, None] * outer
        return raw

    @property
    def effective_rows(self) -> Floats:
        """Rows of equal weight that would tell as much: ``(sum w)^2 / sum w^2``."""
        known = np.divide(
            self.weight**2, self.weight2, out=np.zeros_like(self.weight), where=self.weight2 > 0
        )
        return np.asarray(known, dtype=np.float64)

    def scaled(self, factor: float) -> Moments:
        """The same rows with every weight multiplied."""
        return replace(
            self,
            weight=self.weight * factor,
            weight2=self.weight2 * factor**2,
            products=self.products * factor,
        )


def moments_of_sums(
    rows: Integers, weight: Floats, weight2: Floats, shift: Floats, sums: Floats, squares: Floats
) -> Moments:
    """Moments from weighted sums of ``v - shift`` (n by 3) and of their products (n by 6).

    The products lose as many digits as the mean is far from the shift, compared to the spread.
    """
    about_shift = np.divide(
        sums, weight[:, None], out=np.zeros_like(sums), where=weight[:, None] > 0
    )
    products = np.empty((len(rows), 3, 3))
    for place, (i, j) in enumerate(PAIRS):
        products[:, i, j] = squares[:, place] - sums[:, i] * about_shift[:, j]
        products[:, j, i] = products[:, i, j]
    for i in range(3):
        products[:, i, i] = np.maximum(products[:, i, i], 0.0)
    return Moments(rows, weight, weight2, shift + about_shift, products)


def total(into: Integers, values: Floats | Integers, count: int) -> Floats:
    """``count`` sums; value k belongs to sum ``into[k]``."""
    return np.bincount(into, weights=values, minlength=count).astype(np.float64, copy=False)


def lowest(into: Integers, values: Floats, count: int) -> Floats:
    """``count`` minima, infinite where there is no value; value k belongs to ``into[k]``."""
    found = np.full(count, np.inf)
    np.minimum.at(found, into, values)
    return found


def merged(parts: Moments, into: Integers, count: int) -> Moments:
    """The moments of ``count`` unions; part k belongs to union ``into[k]``."""
    weight = total(into, parts.weight, count)
    # Means are averaged relative to one part's, so that no digit is lost to their size.
    near = np.zeros((count, 3))
    near[into] = parts.mean
    apart = parts.mean - near[into]
    middle = near.copy()
    for i in range(3):
        moved = total(into, parts.weight * apart[:, i], count)
        middle[:, i] += np.divide(moved, weight, out=np.zeros(count), where=weight > 0)
    apart = parts.mean - middle[into]
    products = np.empty((count, 3, 3))
    for i, j in PAIRS:
        within = parts.products[:, i, j] + parts.weight * apart[:, i] * apart[:, j]
        products[:, i, j] = products[:, j, i] = total(into, within, count)
    rows = total(into, parts.rows, count).astype(np.int64)
    return Moments(rows, weight, total(into, parts.weight2, count), middle, products)


EXTREMES = ("u_low", "u_high", "interval_sum", "interval_low", "interval_high")
"""What is known of a cell beside its moments."""

CELL_ARRAYS = ("group", "part", "bin", *EXTREMES)


@dataclass(frozen=True, eq=False)
class Cells:
    """The statistics of any number of groups, a few cells each, as arrays over all cells.

    ``groups`` are the values of the columns ``by``, in order; cell k is one of group
    ``group[k]``, of ``part[k]`` of its rows and, inside that, of ``bin[k]``: prefetches about
    ``bin * bin_width`` where the linear range is to be found, one bin 0 where it is not, the
    reason in part LEFT_OUT. ``u_low``, ``u_high``, ``interval_low`` and ``interval_high`` are
    extremes inside a cell; ``interval_sum`` adds the intervals of its rows, all unweighted.
    """

    by: tuple[str, ...]
    groups: list[tuple[Any, ...]]
    group: Integers
    part: Integers
    bin: Integers
    moments: Moments
    u_low: Floats
    u_high: Floats
    interval_sum: Floats
    interval_low: Floats
    interval_high: Floats

    def __len__(self) -> int:
        return len(self.group)

    def only(self, chosen: Mask) -> Cells:
        """The chosen cells; the groups stay as they are."""
        arrays = {name: getattr(self, name)[chosen] for name in CELL_ARRAYS}
        return replace(self, moments=self.moments[chosen], **arrays)

    def beside(self, other: Cells) -> Cells:
        """These cells and others of the same groups, none of which is in both."""
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in CELL_ARRAYS
        }
        both = zip(self.moments.arrays, other.moments.arrays, strict=True)
        return replace(self, moments=Moments(*map(np.concatenate, both)), **arrays)

    def scaled(self, factor: float) -> Cells:
        """The same rows with every weight multiplied: how statistics age."""
        return replace(self, moments=self.moments.scaled(factor))

    def merge(self, other: Cells) -> Cells:
        """The statistics of the rows of both, which must be of one reference time and no row twice.

        Both must come from the same options (bin width, split, linear range).
        """
        if self.by != other.by:
            raise ValueError(f"statistics by {self.by} do not add up with those by {other.by}")
        groups = sorted({*self.groups, *other.groups})
        place = {key: number for number, key in enumerate(groups)}
        both = self._moved(groups, place).beside(other._moved(groups, place))
        return both._without_duplicates()

    def _moved(self, groups: list[tuple[Any, ...]], place: dict[tuple[Any, ...], int]) -> Cells:
        number = np.array([place[key] for key in self.groups], dtype=np.int64)
        return replace(self, groups=groups, group=number[self.group])

    def _without_duplicates(self) -> Cells:
        """One cell where there were several of the same group, part and bin."""
        (group, part, bins), into = distinct(self.group, self.part, self.bin)
        count = len(group)
        return replace(
            self,
            group=group,
            part=part,
            bin=bins,
            moments=merged(self.moments, into, count),
            u_low=lowest(into, self.u_low, count),
            u_high=-lowest(into, -self.u_high, count),
            interval_sum=total(into, self.interval_sum, count),
            interval_low=lowest(into, self.interval_low, count),
            interval_high=-lowest(into, -self.interval_high, count),
        )

    def to_arrow(self) -> pa.Table:
        """One row per cell, for a file; :meth:`from_arrow` reads it back."""
        columns: dict[str, Any] = {
            name: pa.array([key[i] for key in self.groups]).take(pa.array(self.group))
            for i, name in enumerate(self.by)
        }
        moments = self.moments
        columns |= {name: getattr(self, name) for name in ("part", "bin")}
        columns |= {name: getattr(moments, name) for name in ("rows", "weight", "weight2")}
        for i, name in enumerate(VARIABLES):
            columns[f"mean_{name}"] = moments.mean[:, i]
        for i, j in PAIRS:
            columns[product_name(i, j)] = moments.products[:, i, j]
        return pa.table(columns | {name: getattr(self, name) for name in EXTREMES})

    @classmethod
    def from_arrow(cls, table: pa.Table, by: Sequence[str]) -> Cells:
        """The cells in a table that :meth:`to_arrow` made."""
        groups, group = group_numbers(table, by)
        products = np.empty((table.num_rows, 3, 3))
        for i, j in PAIRS:
            products[:, i, j] = products[:, j, i] = floats(table, product_name(i, j))
        moments = Moments(
            integers(table, "rows"),
            floats(table, "weight"),
            floats(table, "weight2"),
            np.column_stack([floats(table, f"mean_{name}") for name in VARIABLES]),
            products,
        )
        part, bins = integers(table, "part"), integers(table, "bin")
        extremes = [floats(table, name) for name in EXTREMES]
        return cls(tuple(by), groups, group, part, bins, moments, *extremes)


def product_name(i: int, j: int) -> str:
    """The column that holds the centred products of variables i and j."""
    return f"{VARIABLES[i]}_{VARIABLES[j]}"


def floats(table: pa.Table, name: str) -> Floats:
    """A numeric column as numpy sees it, nulls as NaN."""
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def integers(table: pa.Table, name: str) -> Integers:
    """A column of whole numbers as numpy sees it."""
    return np.asarray(table[name].to_numpy(), dtype=np.int64)


def distinct(*keys: Integers) -> tuple[list[Integers], Integers]:
    """The distinct combinations of whole numbers of 0 or more, in order, and which each row has."""
    spans = [int(key.max(initial=0)) + 1 for key in keys]
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key, span in zip(keys, spans, strict=True):
        code = code * span + key
    codes, into = np.unique(code, return_inverse=True)
    columns: list[Integers] = []
    for span in reversed(spans):
        codes, column = np.divmod(codes, span)
        columns.insert(0, column)
    return columns, into


def group_numbers(table: pa.Table, by: Sequence[str]) -> tuple[list[tuple[Any, ...]], Integers]:
    """The distinct values of the columns ``by``, in order, and which of them each row has."""
    number = np.zeros(table.num_rows, dtype=np.int64)
    for name in by:
        encoded = table[name].combine_chunks().dictionary_encode()
        number = number * len(encoded.dictionary) + encoded.indices.to_numpy()
    _, first, number = np.unique(number, return_index=True, return_inverse=True)
    rows = table.select(list(by)).take(first).to_pylist()
    keys = [tuple(row[name] for name in by) for row in rows]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    return [keys[i] for i in order], rank[number]
