"""The solver alone, without Spark, against numpy's own least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from identification.least_squares import agreement, condition, solve
from identification.statistics import Moments, merged


def moments_of(u: np.ndarray, y: np.ndarray, y_next: np.ndarray) -> Moments:
    rows = np.stack([u, y, y_next])
    apart = rows - rows.mean(axis=1, keepdims=True)
    return Moments(len(u), rows.mean(axis=1), apart @ apart.T)


@st.composite
def experiments(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(10, 200))
    a, b = draw(st.floats(-0.95, 0.95)), draw(st.floats(0.1, 1e3))
    offset = draw(st.sampled_from([0.0, -30.0, 1e3, 1e6]))
    u = rng.integers(0, draw(st.integers(2, 40)), rows).astype(float)
    y = offset + rng.normal(0, draw(st.floats(1.0, 1e3)), rows)
    return u, y, a * y + b * u + offset + rng.normal(0, draw(st.floats(0.01, 100.0)), rows)


@given(experiments())
@settings(max_examples=150)
def test_a_fit_with_offset_is_numpys_least_squares(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    u, y, y_next = rows
    moments = moments_of(*rows)
    assume(condition(moments, offset=True) < 100)
    estimates = solve(moments, offset=True)
    assert estimates is not None
    # numpy sees centred columns, since it would lose digits to offsets of 1e6 itself.
    design = np.column_stack([y - y.mean(), u - u.mean()])
    a, b = np.linalg.lstsq(design, y_next - y_next.mean(), rcond=None)[0]
    scale_a = np.std(y_next) / np.std(y)
    assert estimates.a == pytest.approx(a, rel=1e-9, abs=1e-9 * scale_a)
    assert estimates.b == pytest.approx(b, rel=1e-9, abs=1e-9 * np.std(y_next) / np.std(u))
    c = y_next.mean() - a * y.mean() - b * u.mean()
    assert estimates.c == pytest.approx(c, rel=1e-9, abs=1e-9 * (1 + abs(y).max() * (1 + scale_a)))


@given(experiments())
@settings(max_examples=150)
def test_a_fit_without_offset_is_numpys_least_squares(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    u, y, y_next = rows
    moments = moments_of(*rows)
    assume(condition(moments, offset=False) < 100)
    estimates = solve(moments, offset=False)
    assert estimates is not None
    a, b = np.linalg.lstsq(np.column_stack([y, u]), y_next, rcond=None)[0]
    size = np.linalg.norm(y_next)
    assert estimates.a == pytest.approx(a, rel=1e-9, abs=1e-9 * size / np.linalg.norm(y))
    assert estimates.b == pytest.approx(b, rel=1e-9, abs=1e-9 * size / np.linalg.norm(u))
    assert estimates.c == 0


@pytest.mark.parametrize("offset", [True, False])
def test_standard_errors_are_those_of_the_covariance_formula(offset: bool) -> None:
    rng = np.random.default_rng(5)
    u = rng.integers(1, 23, 300).astype(float)
    y = rng.normal(900, 300, 300)
    y_next = 0.3 * y + 55 * u - 20 + rng.normal(0, 40, 300)
    design = np.column_stack([y, u, np.ones(300)] if offset else [y, u])
    theta = np.linalg.lstsq(design, y_next, rcond=None)[0]
    noise = np.sum((y_next - design @ theta) ** 2) / (300 - design.shape[1])
    expected = np.sqrt(np.diag(noise * np.linalg.inv(design.T @ design)))
    estimates = solve(moments_of(u, y, y_next), offset=offset)
    assert estimates is not None
    errors = estimates.standard_errors
    assert [errors.a, errors.b, errors.c][: len(expected)] == pytest.approx(expected, rel=1e-9)
    if not offset:
        assert errors.c == 0


def test_r2_and_rmse_are_those_of_the_residuals_on_rows_never_fitted() -> None:
    rng = np.random.default_rng(6)
    u, y = rng.integers(1, 23, 100).astype(float), rng.normal(900, 300, 100)
    y_next = 0.3 * y + 55 * u - 20 + rng.normal(0, 40, 100)
    estimates = solve(moments_of(u[:70], y[:70], y_next[:70]), offset=True)
    assert estimates is not None
    residuals = (y_next - estimates.a * y - estimates.b * u - estimates.c)[70:]
    told = agreement(moments_of(u[70:], y[70:], y_next[70:]), estimates)
    assert told is not None
    assert told.rows == 30
    assert told.rmse == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-9)
    assert told.r2 == pytest.approx(1 - np.mean(residuals**2) / np.var(y_next[70:]), rel=1e-9)


def test_the_condition_number_is_the_ratio_of_singular_values_of_scaled_regressors() -> None:
    rng = np.random.default_rng(7)
    u = rng.normal(10, 3, 50)
    y = 40 * u + rng.normal(0, 30, 50)
    for offset in (True, False):
        design = np.column_stack([u, y])
        if offset:
            design -= design.mean(axis=0)
        singular = np.linalg.svd(design / np.linalg.norm(design, axis=0), compute_uv=False)
        told = condition(moments_of(u, y, y), offset=offset)
        assert told == pytest.approx(singular[0] / singular[1], rel=1e-9)


def test_rows_that_do_not_determine_the_model_are_not_solved() -> None:
    u = np.full(20, 5.0)
    y = np.linspace(1, 2, 20)
    assert math.isinf(condition(moments_of(u, y, y), offset=True))
    assert solve(moments_of(u, y, y), offset=True) is None
    assert solve(moments_of(u[:2], y[:2], y[:2]), offset=False) is None


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.sampled_from([0.0, 1e6]))
@settings(max_examples=50)
def test_moments_of_parts_add_up_to_those_of_the_whole(seed: int, parts: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(shift, 10, (3, 40))
    cut = np.array_split(rows, parts, axis=1)
    pieces = [moments_of(*piece) for piece in cut]
    whole = moments_of(*rows)
    union = merged(
        np.array([piece.count for piece in pieces]),
        np.array([piece.mean for piece in pieces]),
        np.array([piece.products for piece in pieces]),
    )
    assert union.count == 40
    assert union.mean == pytest.approx(whole.mean, rel=1e-12)
    assert union.products == pytest.approx(whole.products, rel=1e-9, abs=1e-6)
