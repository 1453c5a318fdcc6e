"""The broken stick, on curves whose knee is known."""

from __future__ import annotations

import numpy as np
import pytest

from identification.knee import Knee, Level, LevelTable, find_knees


def find_knee(levels: list[Level]) -> Knee | None:
    """The knee of one curve through ``levels`` (ascending), or None where it never bends."""
    curves = LevelTable(
        1,
        np.zeros(len(levels), dtype=np.int64),
        np.array([level.prefetch for level in levels]),
        np.array([level.rate for level in levels]),
        np.array([level.count for level in levels], dtype=np.float64),
    )
    return find_knees(curves).one(0)


def levels(rates: np.ndarray, count: int = 10) -> list[Level]:
    return [Level(float(u), float(rate), count) for u, rate in enumerate(rates, start=1)]


def test_the_knee_of_a_saturating_curve_is_where_its_two_lines_meet() -> None:
    u = np.arange(1, 61)
    knee = find_knee(levels(np.minimum(80 * u, 1774.5)))
    assert knee is not None
    assert knee.prefetch == pytest.approx(1774.5 / 80, rel=1e-9)
    assert knee.rate == pytest.approx(1774.5, rel=1e-9)
    assert knee.slope_below == pytest.approx(80, rel=1e-9)
    assert knee.slope_above == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_knee_leaves_smaller_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    u = np.arange(1, 41.0)
    rate = np.minimum(80 * u, 1774.5) + rng.normal(0, 60, 40)
    weight = rng.integers(1, 30, 40)

    def squares(knee: float) -> float:
        root = np.sqrt(weight)
        design = np.column_stack([np.ones(40), u, np.maximum(u - knee, 0)]) * root[:, None]
        solution = np.linalg.lstsq(design, rate * root, rcond=None)[0]
        return float(np.sum((rate * root - design @ solution) ** 2))

    knee = find_knee([Level(*row) for row in zip(u, rate, weight.tolist(), strict=True)])
    assert knee is not None
    assert knee.prefetch == pytest.approx(1774.5 / 80, rel=0.1)
    grid = np.linspace(2, 39, 500)
    assert squares(knee.prefetch) <= min(squares(k) for k in grid) * (1 + 1e-9)


def test_a_straight_line_has_no_knee_with_noise_or_without() -> None:
    u = np.arange(1, 23)
    assert find_knee(levels(81.06 * u - 28.94)) is None
    rng = np.random.default_rng(1)
    found = [find_knee(levels(81.06 * u + rng.normal(0, 50, 22))) for _ in range(200)]
    assert sum(knee is not None for knee in found) <= 2


def test_a_curve_that_grows_steeper_or_falls_from_the_start_has_no_knee() -> None:
    u = np.arange(1, 41)
    assert find_knee(levels(np.maximum(10 * u, 80 * u - 1400))) is None
    assert find_knee(levels(-10.0 * u)) is None


def test_two_levels_show_no_knee() -> None:
    assert find_knee([Level(5, 400, 50), Level(15, 1200, 50)]) is None


def test_an_empty_curve_shows_no_knee() -> None:
    assert find_knee([]) is None
