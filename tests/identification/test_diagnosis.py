"""The second look: what rows in order tell that their sums do not."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession

from controlmq.loop import Transition
from identification import diagnose_traces, identify
from identification.diagnosis import RESIDUAL_LAGS, Diagnosis, diagnosis, ljung_box
from tests.identification.conftest import Record

SAMPLES = 600


def rates(a: list[float], b: float, delay: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random levels, and what a consumer of this order and delay answers."""
    rng = np.random.default_rng(seed)
    u = rng.integers(1, 20, SAMPLES).astype(float)
    y = np.full(SAMPLES + 1, 10 * b / (1 - sum(a)))
    for k in range(SAMPLES):
        memory = sum(part * y[max(k - lag, 0)] for lag, part in enumerate(a))
        y[k + 1] = memory + b * u[max(k - delay, 0)] + rng.normal(0, 10)
    return u, y


def told(a: list[float], delay: int = 0, seed: int = 1) -> Diagnosis:
    u, y = rates(a, 50.0, delay, seed)
    everything = np.ones(SAMPLES, dtype=bool)
    trace = np.array(["t"] * SAMPLES, dtype=object)
    return diagnosis("g", trace, np.arange(SAMPLES), u, y[:-1], y[1:], everything)


def test_first_order_is_enough_for_a_first_order_consumer() -> None:
    found = [told([0.4], seed=seed) for seed in range(10)]
    assert all(each.enough for each in found)
    for each in found:
        # Noise of 10 is what one step cannot foresee; left to itself the model forgets errors.
        assert each.one_step_rmse == pytest.approx(10, rel=0.25)
        assert each.simulated_rmse == pytest.approx(10 / np.sqrt(1 - 0.16), rel=0.3)
    assert sum(each.ljung_box_p < 0.01 for each in found) <= 2
    assert found[0].finding == "first order is enough."


@pytest.mark.parametrize(("a", "delay", "order"), [([0.5, 0.3], 0, 2), ([0.4], 2, 1)])
def test_more_memory_or_delay_is_found_and_said(a: list[float], delay: int, order: int) -> None:
    found = told(a, delay)
    assert not found.enough
    assert (found.order, found.delay) == (order, delay)
    assert found.best_rmse == pytest.approx(10, rel=0.25)
    assert found.one_step_rmse > 1.05 * found.best_rmse
    assert "first order is not enough" in found.finding


def test_gaps_and_starved_rows_are_never_bridged() -> None:
    u, y = rates([0.4], 50.0, 0, 3)
    limited = np.ones(SAMPLES, dtype=bool)
    limited[100::100] = False
    sample = np.arange(SAMPLES) + np.where(np.arange(SAMPLES) >= 300, 50, 0)
    trace = np.array(["t"] * SAMPLES, dtype=object)
    spoilt = y[:-1].copy()
    spoilt[~limited] = 1e6
    found = diagnosis("g", trace, sample, u, spoilt, y[1:], limited)
    # Seven rows before each must be there: 8 rows are lost at each of 5 stops (one of which is
    # also the gap), 7 at the start.
    assert found.rows == SAMPLES - 5 * 8 - 7
    assert found.enough
    assert found.one_step_rmse == pytest.approx(10, rel=0.25)


def test_too_few_rows_are_said_and_not_judged() -> None:
    u, y = rates([0.4], 50.0, 0, 3)
    few = slice(0, 30)
    trace = np.array(["t"] * 30, dtype=object)
    found = diagnosis("g", trace, np.arange(30), u[few], y[:30], y[1:31], np.ones(30, dtype=bool))
    assert found.enough
    assert "record a longer trace" in found.finding


def test_ljung_box_is_the_textbooks() -> None:
    from scipy.stats import chi2

    residuals = np.random.default_rng(4).normal(0, 1, 200)
    apart = residuals - residuals.mean()
    r = [np.sum(apart[k:] * apart[:-k]) / np.sum(apart**2) for k in range(1, RESIDUAL_LAGS + 1)]
    q = 200 * 202 * sum(value**2 / (200 - k) for k, value in enumerate(r, start=1))
    neighbour, probability = ljung_box(residuals)
    assert neighbour == pytest.approx(r[0])
    assert probability == pytest.approx(chi2.sf(q, RESIDUAL_LAGS))


@pytest.mark.spark
def test_chosen_groups_are_diagnosed_on_spark(spark: SparkSession, record: Record) -> None:
    rows = []
    for name, a in (("first", [0.4]), ("second", [0.5, 0.3]), ("other", [0.2])):
        u, y = rates(a, 50.0, 0, 5)
        rows += [
            Transition(name, "t", k, float(k), 1.0, float(u[k]), float(y[k]), float(y[k + 1]), True)
            for k in range(SAMPLES)
        ]
    path = record(rows)
    fits = [fit for fit in identify(spark, path) if fit.group != "other"]
    found = diagnose_traces(spark, path, fits)
    assert [(each.group, each.enough) for each in found] == [("first", True), ("second", False)]
    assert found[1].order == 2
