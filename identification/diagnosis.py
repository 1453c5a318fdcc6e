"""A closer look at chosen groups: is a first-order model enough?

The first pass adds up rows in any order. Here the order matters, so the rows of a group come
together on an executor: simulated (multi-step) error, what is left in the residuals, and models
of more memory and delay as rivals,

    y(k+1) = a1*y(k) + ... + an*y(k+1-n) + b1*u(k-d) + ... + bn*u(k+1-n-d) + c

of order n up to 3 and delay d up to 5 samples, all fitted on the same rows, the first three
quarters of the group's, and tested on the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from identification.fit import Fit
from identification.label import label
from identification.statistics import Floats, Integers, Mask

if TYPE_CHECKING:
    import pandas as pd

MOST_ORDER = 3
MOST_DELAY = 5

TEST_SHARE = 0.25
"""The last part of a group's rows, on which all candidates are compared."""

BIC_NEEDED = 10.0
"""By how much the BIC must be lower to count: "very strong" for Kass & Raftery (1995)."""

ERROR_SHARE_NEEDED = 0.05
"""By what share the held-out error must be lower, too, for more order to be worth it."""

RESIDUAL_LAGS = 10
"""Lags of the residuals that are tested together; even, so that the test is in closed form."""

FEWEST_ROWS = 40
"""Rows needed to compare 18 candidates with up to 7 parameters."""

CEILING_COLUMN = "_ceiling_"
"""Column that brings a group's knee to its rows."""


@dataclass(frozen=True)
class Diagnosis:
    """What a group's rows, in order, say of a first-order model.

    ``one_step_rmse`` and ``simulated_rmse`` (messages/second) are on rows never fitted:
    predicting from the last measured rate, and from the model's own. ``autocorrelation`` is that
    of neighbouring residuals, ``ljung_box_p`` the probability of residuals as correlated as these
    if they had no memory. ``order`` and ``delay`` are those of the best candidate by BIC,
    ``best_rmse`` its held-out error. ``enough`` is False where both that error and the BIC ask
    for more than first order; ``finding`` says all of it in a sentence.
    """

    group: str
    rows: int
    one_step_rmse: float = math.nan
    simulated_rmse: float = math.nan
    autocorrelation: float = math.nan
    ljung_box_p: float = math.nan
    order: int = 1
    delay: int = 0
    bic_gain: float = math.nan
    best_rmse: float = math.nan
    enough: bool = True
    finding: str = ""


SCHEMA = ", ".join(
    f"`{field.name}` "
    + {"str": "string", "int": "bigint", "float": "double", "bool": "boolean"}[str(field.type)]
    for field in fields(Diagnosis)
)


def diagnose(transitions: DataFrame, fits: Sequence[Fit]) -> list[Diagnosis]:
    """A second pass over the groups of ``fits`` (one or more), in their order.

    Prefetches above a group's knee count as the knee: beyond it they change nothing.
    """
    by = list(fits[0].key)
    columns = {name: [fit.key[name] for fit in fits] for name in by}
    columns[CEILING_COLUMN] = [fit.knee.prefetch if fit.knee else math.inf for fit in fits]
    chosen = F.broadcast(transitions.sparkSession.createDataFrame(pa.table(columns)))
    names = ("trace", "sample", "u", "y", "y_next", "window_limited", CEILING_COLUMN)
    rows = transitions.join(chosen, by).select(*by, *names)
    found = rows.groupBy(*by).applyInPandas(_of_group, SCHEMA).toArrow().to_pylist()
    by_group = {row["group"]: Diagnosis(**row) for row in found}
    return [by_group[fit.group] for fit in fits if fit.group in by_group]


def _of_group(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
    """One group's diagnosis; runs on an executor."""
    import pandas as pd

    rows = rows.sort_values(["trace", "sample"])
    diagnosed = diagnosis(
        label(key),
        rows["trace"].to_numpy(),
        rows["sample"].to_numpy(dtype=np.int64),
        np.minimum(rows["u"].to_numpy(dtype=float), rows[CEILING_COLUMN].to_numpy(dtype=float)),
        rows["y"].to_numpy(dtype=float),
        rows["y_next"].to_numpy(dtype=float),
        rows["window_limited"].to_numpy(dtype=bool),
    )
    return pd.DataFrame([asdict(diagnosed)])


def diagnosis(
    group: str, trace: Any, sample: Integers, u: Floats, y: Floats, y_next: Floats, limited: Mask
) -> Diagnosis:
    """The diagnosis of rows that are in order; those not limited by the window break it."""
    sound = limited & np.isfinite(u) & np.isfinite(y) & np.isfinite(y_next)
    lagged = _Lagged(trace, sample, u, y, sound)
    usable = np.flatnonzero(lagged.there)
    if len(usable) < FEWEST_ROWS:
        finding = (
            f"{len(usable)} rows have {MOST_ORDER + MOST_DELAY - 1} others right before them, "
            f"{FEWEST_ROWS} are needed; record a longer trace."
        )
        return Diagnosis(group, len(usable), finding=finding)
    train = usable[: round(len(usable) * (1 - TEST_SHARE))]
    test = usable[len(train) :]
    candidates = {
        (order, delay): _candidate(lagged, y_next, train, test, order, delay)
        for order in range(1, MOST_ORDER + 1)
        for delay in range(MOST_DELAY + 1)
    }
    first = candidates[1, 0]
    (order, delay), best = min(candidates.items(), key=lambda item: item[1].bic)
    bic_gain = first.bic - best.bic
    enough = (order, delay) == (1, 0) or not (
        bic_gain > BIC_NEEDED and best.rmse < (1 - ERROR_SHARE_NEEDED) * first.rmse
    )
    neighbour, probability = ljung_box(first.residuals)
    return Diagnosis(
        group=group,
        rows=len(usable),
        finding=_finding(enough, order, delay, first.rmse, best.rmse, probability),
        one_step_rmse=first.rmse,
        simulated_rmse=_simulated_rmse(first.theta, lagged, u, y, y_next, test),
        autocorrelation=neighbour,
        ljung_box_p=probability,
        order=order,
        delay=delay,
        bic_gain=bic_gain,
        best_rmse=best.rmse,
        enough=enough,
    )


@dataclass(frozen=True, eq=False)
class _Candidate:
    theta: Floats
    residuals: Floats
    bic: float
    rmse: float


class _Lagged:
    """The rows before each row of the same trace, as far as they are there without a gap."""

    def __init__(self, trace: Any, sample: Integers, u: Floats, y: Floats, sound: Mask) -> None:
        self.u, self.y, self.sound = u, y, sound
        follows = np.zeros(len(u), dtype=bool)
        follows[1:] = (trace[1:] == trace[:-1]) & (sample[1:] == sample[:-1] + 1)
        self.follows = follows & sound & np.roll(sound, 1)
        self.there = sound.copy()
        unbroken = sound.copy()
        for _ in range(MOST_ORDER + MOST_DELAY - 1):
            unbroken = np.roll(unbroken, 1) & self.follows
            self.there &= unbroken

    def design(self, rows: Integers, order: int, delay: int) -> Floats:
        """The regressors of a candidate."""
        columns = [self.y[rows - lag] for lag in range(order)]
        columns += [self.u[rows - delay - lag] for lag in range(order)]
        return np.column_stack([*columns, np.ones(len(rows))])


def _candidate(
    lagged: _Lagged, y_next: Floats, train: Integers, test: Integers, order: int, delay: int
) -> _Candidate:
    design = lagged.design(train, order, delay)
    theta = np.asarray(np.linalg.lstsq(design, y_next[train], rcond=None)[0], dtype=np.float64)
    residuals = y_next[train] - design @ theta
    rows, parameters = design.shape
    noise = max(float(residuals @ residuals) / rows, np.finfo(float).tiny)
    missed = y_next[test] - lagged.design(test, order, delay) @ theta
    bic = rows * math.log(noise) + parameters * math.log(rows)
    return _Candidate(theta, residuals, bic, float(np.sqrt(np.mean(missed**2))))


def _simulated_rmse(
    theta: Floats, lagged: _Lagged, u: Floats, y: Floats, y_next: Floats, rows: Integers
) -> float:
    """The error of the model left to itself from the first row of every stretch without a gap."""
    a, b, c = theta.tolist()
    squares = []
    rate, before = 0.0, -2
    for row in rows.tolist():
        if row != before + 1 or not lagged.follows[row]:
            rate = float(y[row])
        rate = a * rate + b * float(u[row]) + c
        squares.append((rate - float(y_next[row])) ** 2)
        before = row
    return math.sqrt(sum(squares) / len(squares))


def ljung_box(residuals: Floats) -> tuple[float, float]:
    """Autocorrelation of neighbours, and the p-value of Ljung & Box over ``RESIDUAL_LAGS`` lags."""
    n = len(residuals)
    apart = residuals - residuals.mean()
    total = float(apart @ apart)
    if total == 0:
        return 0.0, 1.0
    correlations = [
        float(apart[lag:] @ apart[:-lag]) / total for lag in range(1, RESIDUAL_LAGS + 1)
    ]
    q = n * (n + 2) * sum(r * r / (n - lag) for lag, r in enumerate(correlations, start=1))
    # The chi-square tail of an even number of degrees of freedom is a finite sum.
    terms: Iterator[float] = (
        math.exp(-q / 2 + i * math.log(q / 2) - math.lgamma(i + 1)) if q > 0 else float(i == 0)
        for i in range(RESIDUAL_LAGS // 2)
    )
    return correlations[0], min(1.0, sum(terms))


def _finding(
    enough: bool, order: int, delay: int, first: float, best: float, probability: float
) -> str:
    rival = f"order {order} with a delay of {delay} samples"
    if not enough:
        return (
            f"first order is not enough: {rival} predicts with an error of {best:.4g} instead of "
            f"{first:.4g} messages/second; gains designed from first order may be too bold, so "
            "ask for a longer settling or interval."
        )
    if probability < 0.001:
        return "first order predicts as well as any, but its residuals have a memory of their own."
    return "first order is enough."
