"""The solver alone, without Spark, against numpy's own least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from identification.least_squares import Solutions, agreement, condition, solve
from identification.statistics import Moments


def moments_of(u: np.ndarray, y: np.ndarray, y_next: np.ndarray) -> Moments:
    rows = np.stack([u, y, y_next])
    apart = rows - rows.mean(axis=1, keepdims=True)
    one = np.array([float(len(u))])
    mean = rows.mean(axis=1)
    return Moments(np.array([len(u)]), one, one, mean[None], (apart @ apart.T)[None])


def estimates_of(moments: Moments, *, offset: bool) -> tuple[float, float, float]:
    solutions = solve(moments, offset=offset)
    assert solutions.determined.all()
    a, b, c = solutions.theta[0].tolist()
    return a, b, c


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
    assume(condition(moments, offset=True)[0] < 100)
    found = estimates_of(moments, offset=True)
    # numpy sees centred columns, since it would lose digits to offsets of 1e6 itself.
    design = np.column_stack([y - y.mean(), u - u.mean()])
    a, b = np.linalg.lstsq(design, y_next - y_next.mean(), rcond=None)[0]
    scale_a = np.std(y_next) / np.std(y)
    assert found[0] == pytest.approx(a, rel=1e-9, abs=1e-9 * scale_a)
    assert found[1] == pytest.approx(b, rel=1e-9, abs=1e-9 * np.std(y_next) / np.std(u))
    c = y_next.mean() - a * y.mean() - b * u.mean()
    assert found[2] == pytest.approx(c, rel=1e-9, abs=1e-9 * (1 + abs(y).max() * (1 + scale_a)))


@given(experiments())
@settings(max_examples=150)
def test_a_fit_without_offset_is_numpys_least_squares(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    u, y, y_next = rows
    moments = moments_of(*rows)
    assume(condition(moments, offset=False)[0] < 100)
    found = estimates_of(moments, offset=False)
    a, b = np.linalg.lstsq(np.column_stack([y, u]), y_next, rcond=None)[0]
    size = np.linalg.norm(y_next)
    assert found[0] == pytest.approx(a, rel=1e-9, abs=1e-9 * size / np.linalg.norm(y))
    assert found[1] == pytest.approx(b, rel=1e-9, abs=1e-9 * size / np.linalg.norm(u))
    assert found[2] == 0


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
    errors = solve(moments_of(u, y, y_next), offset=offset).standard_errors[0]
    assert errors[: len(expected)] == pytest.approx(expected, rel=1e-9)
    if not offset:
        assert errors[2] == 0


def test_r2_and_rmse_are_those_of_the_residuals_on_rows_never_fitted() -> None:
    rng = np.random.default_rng(6)
    u, y = rng.integers(1, 23, 100).astype(float), rng.normal(900, 300, 100)
    y_next = 0.3 * y + 55 * u - 20 + rng.normal(0, 40, 100)
    theta = solve(moments_of(u[:70], y[:70], y_next[:70]), offset=True).theta
    a, b, c = theta[0]
    residuals = (y_next - a * y - b * u - c)[70:]
    told = agreement(moments_of(u[70:], y[70:], y_next[70:]), theta)
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
    assert math.isinf(condition(moments_of(u, y, y), offset=True)[0])
    assert not solve(moments_of(u, y, y), offset=True).determined[0]
    assert not solve(moments_of(u[:2], y[:2], y[:2]), offset=False).determined[0]


@pytest.mark.parametrize("free", [1.0, 2.0, 3.5, 7.0, 29.9, 30.0, 1e4])
def test_a_confidence_interval_is_students(free: float) -> None:
    from scipy.stats import t as student_t

    found = Solutions(np.array([True]), np.zeros((1, 3)), np.ones((1, 3)), np.array([free]))
    assert found.half_widths == pytest.approx(student_t.ppf(0.975, free), rel=1e-3)
    if free >= 4:
        assert found.half_widths == pytest.approx(student_t.ppf(0.975, free), rel=1e-5)


def test_equal_weights_change_nothing_and_age_nothing() -> None:
    rng = np.random.default_rng(8)
    u, y = rng.integers(1, 23, 100).astype(float), rng.normal(900, 300, 100)
    plain = moments_of(u, y, 0.3 * y + 55 * u + rng.normal(0, 40, 100))
    fresh, old = solve(plain, offset=True), solve(plain.scaled(1e-6), offset=True)
    assert old.theta == pytest.approx(fresh.theta, rel=1e-12)
    assert old.standard_errors == pytest.approx(fresh.standard_errors, rel=1e-12)
    assert old.free_rows == pytest.approx(fresh.free_rows)
    before, after = agreement(plain, fresh.theta), agreement(plain.scaled(1e-6), fresh.theta)
    assert after.r2 == pytest.approx(before.r2)
    assert after.rmse == pytest.approx(before.rmse)


def test_standard_errors_of_forgotten_rows_are_those_seen_in_repetitions() -> None:
    rng = np.random.default_rng(9)
    weight = np.exp2(-np.arange(400)[::-1] / 60)
    u = rng.integers(1, 23, (300, 400)).astype(float)
    y = rng.normal(900, 300, (300, 400))
    y_next = 0.3 * y + 55 * u - 20 + rng.normal(0, 40, (300, 400))
    fits = []
    for values in zip(u, y, y_next, strict=True):
        rows = np.stack(values)
        mean = rows @ weight / weight.sum()
        apart = rows - mean[:, None]
        products = (apart * weight) @ apart.T
        sums = np.array([weight.sum()]), np.array([np.sum(weight**2)])
        fits.append(solve(Moments(np.array([400]), *sums, mean[None], products[None]), offset=True))
    seen = np.std([fit.theta[0] for fit in fits], axis=0)
    told = np.mean([fit.standard_errors[0] for fit in fits], axis=0)
    assert told == pytest.approx(seen, rel=0.15)
