"""Estimates and standard errors against exact rational arithmetic and statsmodels' OLS, through
the whole Spark job."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from controlmq.loop import Transition
from controlmq.traces import write_transitions
from identification import Fit, identify

pytestmark = pytest.mark.spark

OFFSETS = (0.0, 1e3, 1e6, 1e9)


def random_rows(group: str, offset: float, seed: int) -> list[Transition]:
    """An experiment whose rates lie about ``offset`` and whose prefetches may be large."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(40, 160))
    a, b = rng.uniform(-0.8, 0.9), rng.uniform(0.5, 90)
    u = rng.integers(1, 40, rows) + float(rng.choice([0, 60_000])) + rng.uniform(0, 1, rows)
    y = offset + rng.normal(0, 20 * b, rows)
    y_next = offset + a * (y - offset) + b * (u - u[0]) + rng.normal(0, 3 * b, rows)
    return [
        Transition(group, "t", k, float(k), 1.0, float(u[k]), float(y[k]), float(y_next[k]), True)
        for k in range(rows)
    ]


def exact(rows: list[Transition]) -> tuple[list[Fraction], list[Fraction]]:
    """a, b, c and the squares of their standard errors, without rounding anywhere."""
    design = [[Fraction(row.y), Fraction(row.u), Fraction(1)] for row in rows]
    answer = [Fraction(row.y_next) for row in rows]
    normal = [[sum(d[i] * d[j] for d in design) for j in range(3)] for i in range(3)]
    inverse = inverted([[Fraction(value) for value in line] for line in normal])
    right = [sum(d[i] * z for d, z in zip(design, answer, strict=True)) for i in range(3)]
    theta = [sum((inverse[i][j] * right[j] for j in range(3)), Fraction(0)) for i in range(3)]
    left = sum(
        (z - sum(t * v for t, v in zip(theta, d, strict=True))) ** 2
        for d, z in zip(design, answer, strict=True)
    )
    noise = Fraction(left) / (len(rows) - 3)
    return theta, [noise * inverse[i][i] for i in range(3)]


def inverted(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """Gauss and Jordan's elimination."""
    size = len(matrix)
    work = [[*row, *(Fraction(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = work[i][i]
        work[i] = [value / pivot for value in work[i]]
        for k in range(size):
            if k != i:
                factor = work[k][i]
                work[k] = [v - factor * w for v, w in zip(work[k], work[i], strict=True)]
    return [row[size:] for row in work]


GROUPS = {
    f"{offset:g} {seed}": random_rows(f"{offset:g} {seed}", offset, seed)
    for offset in OFFSETS
    for seed in range(6)
}


@pytest.fixture(scope="module")
def fits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fit]:
    folder = tmp_path_factory.mktemp("exact")
    write_transitions(folder / "part.parquet", [row for rows in GROUPS.values() for row in rows])
    return {fit.group: fit for fit in identify(spark, folder, linear_range="all", held_out=0.0)}


@pytest.mark.parametrize("group", GROUPS)
def test_estimates_and_errors_are_those_of_rational_arithmetic(
    fits: dict[str, Fit], group: str
) -> None:
    estimates = fits[group].estimates
    assert estimates is not None
    theta, squares = exact(GROUPS[group])
    found = [estimates.a, estimates.b, estimates.c]
    assert found == pytest.approx([float(value) for value in theta], rel=1e-9)
    errors = estimates.standard_errors
    expected = [math.sqrt(value) for value in squares]
    assert [errors.a, errors.b, errors.c] == pytest.approx(expected, rel=1e-9)


def ordinary_least_squares(rows: list[Transition]) -> Any:
    """statsmodels' own fit of a, b and c."""
    from statsmodels.regression.linear_model import OLS

    design = [[row.y, row.u, 1.0] for row in rows]
    return OLS([row.y_next for row in rows], design).fit()


@pytest.mark.parametrize("group", [name for name in GROUPS if not name.startswith("1e+09")])
def test_estimates_errors_and_intervals_are_those_of_statsmodels(
    fits: dict[str, Fit], group: str
) -> None:
    ours, theirs = fits[group].estimates, ordinary_least_squares(GROUPS[group])
    assert ours is not None
    assert [ours.a, ours.b, ours.c] == pytest.approx(theirs.params, rel=1e-9)
    errors = ours.standard_errors
    assert [errors.a, errors.b, errors.c] == pytest.approx(theirs.bse, rel=1e-9)
    for name, (low, high) in zip("abc", theirs.conf_int(0.05).tolist(), strict=True):
        # Student's t is an expansion here, right to a thousandth of a half-width.
        near = 1e-3 * (high - low) / 2
        assert getattr(ours.intervals, name) == pytest.approx((low, high), abs=near, rel=0)


def test_offsets_of_1e9_are_beyond_statsmodels() -> None:
    """Why rational arithmetic is the judge there."""
    rows = GROUPS["1e+09 0"]
    theta, _ = exact(rows)
    assert ordinary_least_squares(rows).params != pytest.approx(
        [float(value) for value in theta], rel=1e-6
    )


def test_bins_and_parts_change_no_digit(
    spark: SparkSession, fits: dict[str, Fit], tmp_path: Path
) -> None:
    rows = GROUPS["1e+09 3"]
    write_transitions(tmp_path / "part.parquet", rows)
    (fit,) = identify(spark, tmp_path, held_out=0.0, bin_width=3.0)
    assert fit.knee is None
    assert fit.estimates is not None
    whole = fits["1e+09 3"].estimates
    assert whole is not None
    assert fit.estimates.b == pytest.approx(whole.b, rel=1e-9)
    assert fit.estimates.standard_errors.c == pytest.approx(whole.standard_errors.c, rel=1e-9)
