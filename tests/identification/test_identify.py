"""Traces in, models out: the Spark job against numpy on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import SparkSession

from controlmq.loop import Transition
from identification import curve, identify
from tests.identification.conftest import Record
from tests.identification.rows import (
    arx_rows,
    columns,
    is_training,
    random_levels,
    static_rows,
)
from tests.known.identified import fit_of

pytestmark = pytest.mark.spark


def ramp_rows(group: str = "ramp") -> list[Transition]:
    """The published line y = 81.06 u - 28.94, ramped over 1..22 without any dynamics."""

    def line(u: float) -> float:
        return 81.06 * u - 28.94

    return [
        Transition(group, "t", u, float(u), 10.0, float(u), line(u - 1), line(u), True)
        for u in range(1, 23)
    ]


@pytest.mark.parametrize(("c", "noise"), [(-28.94, 40.0), (7e5, 100.0)], ids=["usual", "1e6"])
def test_the_fit_is_numpys_least_squares(
    spark: SparkSession, record: Record, c: float, noise: float
) -> None:
    rows = arx_rows("g", random_levels(400, 1), a=0.3, b=60, c=c, noise=noise, seed=2)
    path = record(rows)
    u, y, y_next = columns([row for row in rows if is_training(row)])

    (fit,) = identify(spark, path, linear_range="all")
    assert fit.model is not None
    # Centred columns: with rates of 1e6 numpy would lose the digits in question itself.
    design = np.column_stack([y - y.mean(), u - u.mean()])
    a, b = np.linalg.lstsq(design, y_next - y_next.mean(), rcond=None)[0]
    assert fit.model.a == pytest.approx(a, rel=1e-9)
    assert fit.model.b == pytest.approx(b, rel=1e-9)
    assert fit.model.c == pytest.approx(y_next.mean() - a * y.mean() - b * u.mean(), rel=1e-9)
    assert fit.model.interval == 2.0

    (through_origin,) = identify(spark, path, linear_range="all", offset=False)
    assert through_origin.estimates is not None
    a, b = np.linalg.lstsq(np.column_stack([y, u]), y_next, rcond=None)[0]
    assert through_origin.estimates.a == pytest.approx(a, rel=1e-9)
    assert through_origin.estimates.b == pytest.approx(b, rel=1e-9)
    assert through_origin.estimates.c == 0


def test_without_offset_the_fit_is_the_published_formula(
    spark: SparkSession, record: Record
) -> None:
    rows = arx_rows("g", random_levels(200, 3), a=0.26, b=59.7, c=0, noise=30, seed=4)
    u, y, y_next = columns(rows)
    s1, s2, s3 = sum(y * y), sum(u * y), sum(u * u)
    s4, s5 = sum(y * y_next), sum(u * y_next)
    (fit,) = identify(spark, record(rows), offset=False, linear_range="all", held_out=0)
    assert fit.model is not None
    assert fit.model.a == pytest.approx((s3 * s4 - s2 * s5) / (s1 * s3 - s2**2), rel=1e-9)
    assert fit.model.b == pytest.approx((s1 * s5 - s2 * s4) / (s1 * s3 - s2**2), rel=1e-9)
    assert fit.test is None


def test_a_static_line_ramped_without_offset_yields_the_published_dynamics(
    spark: SparkSession, record: Record
) -> None:
    path = record(ramp_rows())
    (fit,) = identify(spark, path, offset=False)
    assert fit.model is not None
    assert fit.model.a == pytest.approx(0.2631, abs=5e-5)
    assert fit.model.b == pytest.approx(59.73, abs=5e-3)
    assert fit.train is not None
    assert fit.train.r2 > 0.999

    (with_offset,) = identify(spark, path)
    assert with_offset.model is None
    assert with_offset.reason is not None
    assert "ill-conditioned" in with_offset.reason


def test_a_refused_ramp_still_shows_its_estimates(spark: SparkSession, record: Record) -> None:
    # Counting whole messages over 10 s rounds rates to 0.1 messages/second.
    rows = [replace(r, y=round(r.y, 1), y_next=round(r.y_next, 1)) for r in ramp_rows()]
    (fit,) = identify(spark, record(rows))
    assert fit.model is None
    assert fit.condition is not None
    assert 10_000 < fit.condition < 1e6
    assert fit.estimates is not None
    assert fit.train is not None
    assert fit.train.r2 > 0.999


def test_held_out_rows_never_influence_the_estimates(spark: SparkSession, record: Record) -> None:
    rows = arx_rows("g", random_levels(200, 5), a=0.1, b=80, c=-20, noise=30, seed=6)
    (before,) = identify(spark, record(rows))
    spoilt = [row if is_training(row) else replace(row, u=40.0, y_next=7.0) for row in rows]
    (after,) = identify(spark, record(spoilt))
    assert before.model is not None
    assert before.test is not None
    assert before.test.rows == 50
    assert after.estimates == before.estimates
    assert after.linear_range == before.linear_range


def test_the_share_held_out_is_the_share_asked_for(spark: SparkSession, record: Record) -> None:
    rows = arx_rows("g", random_levels(1000, 5), a=0.1, b=80, c=-20, noise=30, seed=6)
    (fit,) = identify(spark, record(rows), held_out=0.4)
    assert fit.train is not None
    assert fit.test is not None
    assert (fit.train.rows, fit.test.rows) == (600, 400)


def test_only_rows_below_the_knee_are_fitted(spark: SparkSession, record: Record) -> None:
    levels = random_levels(900, 7, 1, 60)
    rows = static_rows("g", levels, lambda u: min(80 * u, 1774.5), noise=40, seed=8)
    path = record(rows)
    (fit,) = identify(spark, path)
    assert fit.knee is not None
    assert fit.knee.prefetch == pytest.approx(22.18, rel=0.05)
    assert fit.knee.rate == pytest.approx(1774.5, rel=0.05)
    assert fit.linear_range is not None
    low, high = fit.linear_range
    assert low == 1
    # The range ends within a few standard errors below the knee, so that no bent row is fitted.
    assert 20 < high < fit.knee.prefetch
    assert fit.knee.standard_error == pytest.approx(0.1, rel=0.5)
    assert fit.rows_outside == sum(row.u > high for row in rows)
    # A consumer without memory has a near 0, on either side of it.
    assert fit.model is not None
    assert fit.model.a == pytest.approx(0, abs=0.02)
    assert fit.model.b == pytest.approx(80, rel=0.03)

    (given,) = identify(spark, path, linear_range=(5, 15))
    assert given.model is not None
    assert given.model.linear_range == (5, 15)
    assert given.rows_outside == sum(not 5 <= row.u <= 15 for row in rows)

    (bent,) = identify(spark, path, linear_range="all")
    assert bent.rows_outside == 0
    assert bent.estimates is not None
    assert bent.estimates.b < 40

    (seen,) = curve(spark, path)
    assert [level.prefetch for level in seen.levels] == sorted(set(levels[1:]))
    at_ten = [row.y_next for row in rows if row.u == 10]
    assert seen.levels[9].rate == pytest.approx(np.mean(at_ten))
    assert seen.levels[9].count == len(at_ten)
    assert seen.knee is not None
    assert seen.knee.prefetch == pytest.approx(22.18, rel=0.05)


def test_an_experiment_inside_the_linear_range_is_fitted_whole(
    spark: SparkSession, record: Record
) -> None:
    rows = static_rows("g", random_levels(300, 9), lambda u: 80 * u, noise=40, seed=10)
    (fit,) = identify(spark, record(rows))
    assert fit.knee is None
    assert fit.linear_range == (1, 22)
    assert fit.model is not None


def test_fractional_prefetch_is_fitted_too(spark: SparkSession, record: Record) -> None:
    levels = [float(u) for u in np.random.default_rng(11).uniform(0, 20, 300)]
    rows = arx_rows("g", levels, a=0.4, b=50, c=10, noise=20, seed=12)
    (fit,) = identify(spark, record(rows), held_out=0)
    u, y, y_next = columns(rows)
    expected = np.linalg.lstsq(np.column_stack([y, u, np.ones(300)]), y_next, rcond=None)[0]
    assert fit.model is not None
    assert [fit.model.a, fit.model.b, fit.model.c] == pytest.approx(expected, rel=1e-9)
    assert fit.linear_range == (min(levels), max(levels))


def test_starved_rows_are_left_out_and_counted(spark: SparkSession, record: Record) -> None:
    rows = arx_rows("g", random_levels(200, 13), a=0.1, b=80, c=-20, noise=30, seed=14)
    starved = [replace(row, y_next=3.0, window_limited=False) for row in rows[:40]]
    (fit,) = identify(spark, record(rows + starved))
    (alone,) = identify(spark, record(rows))
    assert fit.rows == 240
    assert fit.rows_starved == 40
    assert fit.estimates == alone.estimates


def test_the_fit_that_other_tests_make_without_spark_is_the_same(
    spark: SparkSession, record: Record
) -> None:
    rows = arx_rows("g", random_levels(200, 3), a=0.2, b=50, c=5, noise=30.0, seed=4)
    expected = fit_of(rows)
    (fit,) = identify(spark, record(rows))
    assert (fit.linear_range, fit.cause) == (expected.linear_range, expected.cause)
    assert fit.estimates is not None
    assert expected.estimates is not None
    for name in ("a", "b", "c"):
        ends = getattr(expected.estimates.intervals, name)
        assert getattr(fit.estimates.intervals, name) == pytest.approx(ends)
