"""A fleet's fits as one table: a row for every group, model or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from identification.fit import Fit

NUMBERS = (
    *(f"{name}{end}" for name in "abc" for end in ("", "_error", "_low", "_high")),
    *("condition", "range_low", "range_high", "knee", "knee_error", "interval"),
    *("r2_train", "r2_test", "rmse_train", "rmse_test"),
)
"""Columns that are null where a group does not determine them.

``_error`` is a standard error, ``_low`` and ``_high`` are the ends of a 95 % interval.
"""

COUNTS = ("rows", "rows_starved", "rows_outside", "rows_train", "rows_test")


def table_of(fits: Sequence[Fit], files: Sequence[str | None] | None = None) -> pa.Table:
    """The fits as an Arrow table, groups by their columns; ``files`` are where models went."""
    rows = [_row(fit) for fit in fits]
    by = list(fits[0].key) if fits else []
    columns: dict[str, Any] = {name: pa.array([fit.key[name] for fit in fits]) for name in by}
    columns["identified"] = pa.array([fit.model is not None for fit in fits], pa.bool_())
    for name in ("cause", "reason"):
        columns[name] = pa.array([getattr(fit, name) for fit in fits], pa.string())
    for name in NUMBERS:
        columns[name] = pa.array([row.get(name) for row in rows], pa.float64())
    for name in COUNTS:
        columns[name] = pa.array([row.get(name, 0) for row in rows], pa.int64())
    columns["file"] = pa.array(list(files) if files else [None] * len(fits), pa.string())
    return pa.table(columns)


def _row(fit: Fit) -> dict[str, float | None]:
    row: dict[str, float | None] = {
        "rows": fit.rows,
        "rows_starved": fit.rows_starved,
        "rows_outside": fit.rows_outside,
        "condition": fit.condition,
    }
    if fit.estimates is not None:
        for name in "abc":
            row[name] = getattr(fit.estimates, name)
            row[f"{name}_error"] = getattr(fit.estimates.standard_errors, name)
            row[f"{name}_low"], row[f"{name}_high"] = getattr(fit.estimates.intervals, name)
    if fit.linear_range is not None:
        row["range_low"], row["range_high"] = fit.linear_range
    if fit.knee is not None:
        row["knee"], row["knee_error"] = fit.knee.prefetch, fit.knee.standard_error
    if fit.model is not None:
        row["interval"] = fit.model.interval
    for part, agreed in (("train", fit.train), ("test", fit.test)):
        if agreed is not None:
            row[f"r2_{part}"], row[f"rmse_{part}"] = agreed.r2, agreed.rmse
            row[f"rows_{part}"] = agreed.rows
    return row
