"""Sufficient statistics: all that least squares needs to know about any number of rows.

Counts, means and centred products of ``(u, y, y_next)``. Plain sums of squares would lose
the signal when rates are large and vary little (at 1e6 messages/second the squares leave
four digits); sums about the mean do not, and need no shift chosen beforehand, hence no
pass over the data to choose it. They still add up: the statistics of two sets of rows
give those of the union, whatever split them (files, days, bins of u).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

U, Y, Y_NEXT = 0, 1, 2
"""Places of the three variables in ``mean`` and ``products``."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean (3) and centred products (3 by 3) of ``(u, y, y_next)`` over some rows.

    ``products[i, j]`` is the sum of ``(v_i - mean_i) * (v_j - mean_j)``.
    """

    count: int
    mean: Floats
    products: Floats

    @property
    def raw_products(self) -> Floats:
        """Products about 0 instead of about the mean: the sums of a fit without offset."""
        raw: Floats = self.products + self.count * np.outer(self.mean, self.mean)
        return raw


def merged(count: NDArray[np.int64], mean: Floats, products: Floats) -> Moments:
    """The moments of a union, from those of its disjoint parts along the first axis."""
    rows = int(count.sum())
    if rows == 0:
        return Moments(0, np.zeros(3), np.zeros((3, 3)))
    # Means are averaged relative to the first part's, so that no digit is lost to their size.
    middle = mean[0] + count @ (mean - mean[0]) / rows
    apart = mean - middle
    between = np.einsum("k,ki,kj->ij", count, apart, apart)
    return Moments(rows, middle, products.sum(axis=0) + between)


@dataclass(frozen=True, eq=False)
class GroupStatistics:
    """One group's rows, as moments per cell: a bin of ``u``, held out or not.

    The arrays run over the cells, which hold only rows that may be fitted. ``bin`` numbers
    the bins upwards in u; ``u_low`` and ``u_high`` are the extremes of ``u`` inside a cell.
    Rows that may not be fitted are only counted: ``starved`` (the window was not the limit),
    ``unsound`` (a value missing, NaN or infinite) and ``below_zero`` (u below 0).
    """

    group: str
    rows: int
    starved: int
    unsound: int
    below_zero: int
    held_out: Mask
    bin: Floats
    count: NDArray[np.int64]
    mean: Floats
    products: Floats
    u_low: Floats
    u_high: Floats
    interval_mean: Floats
    interval_low: Floats
    interval_high: Floats

    def moments(self, cells: Mask) -> Moments:
        """The moments of all rows in the chosen cells."""
        return merged(self.count[cells], self.mean[cells], self.products[cells])
