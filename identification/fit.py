"""The verdict on every group: its statistics become a model, or a reason why there is none.

The arithmetic is done for all groups at once; only the verdicts are found one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from controlmq.model import (
    SAME_INTERVAL_FACTOR,
    ArxModel,
    ConfidenceIntervals,
    FitQuality,
    StandardErrors,
)
from identification.curves import settled_curves
from identification.knee import Knee, Knees, find_knees
from identification.label import label
from identification.least_squares import Agreements, Solutions, agreement, condition, solve
from identification.statistics import (
    BELOW_ZERO,
    FIRST_HALF,
    HELD_OUT,
    LEFT_OUT,
    OUTSIDE,
    SECOND_HALF,
    STARVED,
    UNSOUND,
    Y_NEXT,
    Cells,
    Floats,
    LinearRange,
    Mask,
    Moments,
    lowest,
    merged,
    total,
)

Cause: TypeAlias = Literal[
    "unsound rows",
    "negative prefetch",
    "too few rows",
    "constant prefetch",
    "dead consumer",
    "uneven intervals",
    "ramp",
    "falling rate",
    "unstable",
    "poor fit",
]
"""Why a group has no model, in a word or two that programs can compare."""

FEWEST_ROWS = 10
"""Rows a fit needs: three parameters, and enough more to separate noise from model."""

R2_NEEDED = 0.8
"""Share of the variance a good model explains (Rosa & Cavalcanti 2022)."""

CONDITION_ALLOWED = 7.0
"""Scaled condition number up to which a and b can be separated.

A new level at every sample, in random order, stays below 1.5; levels held for 20 samples each
reach 6. A ramp reaches thousands; noise, several samples a level and a knee bring it down to
about 8, where intervals may miss. Belsley, Kuh & Welsch, "Regression Diagnostics" (1980), see
dependencies begin to matter between 5 and 10.
"""

CONDITION_SOLVABLE = 1e6
"""The same without offset, where only sums that are singular to rounding are refused."""

STILL_SHARE_OF_SQUARES = 1e-24
"""Share of a rate's squares below which its variance is rounding: the rate never changes."""


@dataclass(frozen=True)
class Estimates:
    """The estimates of least squares, before they are judged.

    ``intervals`` are 95 % confidence intervals. Both they and the standard errors assume that the
    residuals are independent of each other.
    """

    a: float
    b: float
    c: float
    standard_errors: StandardErrors
    intervals: ConfidenceIntervals


@dataclass(frozen=True)
class Agreement:
    """How well estimates explain some rows: share of the variance, and messages/second."""

    rows: int
    r2: float
    rmse: float


@dataclass(frozen=True)
class Fit:
    """The result for one group: a ``model``, or a ``reason``: a sentence that says why it has none.

    ``key`` holds the group's columns and their values, ``group`` the values in one word.
    ``cause`` is the reason in a word. ``estimates`` and ``condition`` are there whenever the
    rows determine them, so that a refused fit can be looked at. ``train`` says how well the
    estimates explain the rows they come from, ``test`` the rows held out (None if there are
    none). ``rows`` counts all rows of the group, ``rows_starved`` those left out because the
    window was not the limit, ``rows_outside`` those outside ``linear_range``. ``knee`` is None
    where none was sought or found.
    """

    group: str
    offset: bool
    rows: int
    rows_starved: int
    rows_outside: int = 0
    model: ArxModel | None = None
    reason: str | None = None
    cause: Cause | None = None
    estimates: Estimates | None = None
    condition: float | None = None
    train: Agreement | None = None
    test: Agreement | None = None
    linear_range: tuple[float, float] | None = None
    knee: Knee | None = None
    key: dict[str, Any] = field(default_factory=dict)


def fit_groups(cells: Cells, *, offset: bool = True, linear_range: LinearRange = None) -> list[Fit]:
    """A fit for every group. Never raises on what the rows hold: a fleet survives a bad group.

    ``linear_range`` must be the one that the rows were sorted by (see
    :func:`identification.aggregation.cells_of`).
    """
    fleet = _Fleet(cells, offset, linear_range)
    return [fleet.fit(number) for number in range(len(cells.groups))]


class _Fleet:
    """All groups' numbers, as arrays over the groups."""

    def __init__(self, cells: Cells, offset: bool, given: LinearRange) -> None:
        self.cells, self.offset, self.given = cells, offset, given
        self.number = len(cells.groups)
        rows = cells.moments.rows
        self.rows = self._total(rows, np.ones(len(cells), dtype=bool))
        self.left_out = {
            reason: self._total(rows, (cells.part == LEFT_OUT) & (cells.bin == reason))
            for reason in (STARVED, BELOW_ZERO, UNSOUND, OUTSIDE)
        }
        train = (cells.part == FIRST_HALF) | (cells.part == SECOND_HALF)
        test = cells.part == HELD_OUT
        self.all_train = _Extent(cells, train)
        self.knees, inside, self.top = self._range(train)
        self.fitted_extent = _Extent(cells, train & inside)
        self.outside = self._total(rows, (train | test) & ~inside) + self.left_out[OUTSIDE]
        fitted = self._merged(train & inside)
        self.condition = condition(fitted, offset=offset)
        self.solutions: Solutions = solve(fitted, offset=offset)
        self.half_widths = self.solutions.half_widths
        self.train: Agreements = agreement(fitted, self.solutions.theta)
        self.test: Agreements = agreement(self._merged(test & inside), self.solutions.theta)
        raw = fitted.raw_products[:, Y_NEXT, Y_NEXT]
        self.still = fitted.products[:, Y_NEXT, Y_NEXT] <= STILL_SHARE_OF_SQUARES * raw
        self.mean_rate = fitted.mean[:, Y_NEXT]

    def _total(self, values: Any, chosen: Mask) -> Any:
        group = self.cells.group[chosen]
        return total(group, values[chosen], self.number).astype(np.int64)

    def _merged(self, chosen: Mask) -> Moments:
        return merged(self.cells.moments[chosen], self.cells.group[chosen], self.number)

    def _range(self, train: Mask) -> tuple[Knees | None, Mask, Floats]:
        """The knees, which cells lie below them, and the top of each group's linear range.

        All rows decide whether there is a knee. The first half decides where it is for the second
        half, and the second for the first, so that the fit does not use the noise that moved the
        knee. If a half shows no bend of its own, all rows decide.
        """
        cells = self.cells
        everything = np.ones(len(cells), dtype=bool)
        if self.given is not None:
            return None, everything, self.all_train.u_high
        knees = find_knees(settled_curves(cells, train))
        tops = []
        for half in (FIRST_HALF, SECOND_HALF):
            found = find_knees(settled_curves(cells, cells.part == half))
            tops.append(np.where(found.found, found.below, knees.below))
        first, second = tops
        top = np.where(knees.found, np.minimum(first, second), self.all_train.u_high)
        limit = np.where(
            cells.part == FIRST_HALF,
            second[cells.group],
            np.where(cells.part == SECOND_HALF, first[cells.group], top[cells.group]),
        )
        inside = ~knees.found[cells.group] | (cells.u_high <= limit)
        return knees, inside, top

    def fit(self, number: int) -> Fit:
        """The verdict on one group."""
        key = self.cells.groups[number]
        found: dict[str, Any] = {
            "group": label(key),
            "offset": self.offset,
            "rows": int(self.rows[number]),
            "rows_starved": int(self.left_out[STARVED][number]),
            "key": dict(zip(self.cells.by, key, strict=True)),
        }
        refused = self._unusable(number)
        if refused is None:
            low, high = self._ends(number)
            found["rows_outside"] = int(self.outside[number])
            found["linear_range"] = low, high
            found["knee"] = self.knees.one(number) if self.knees is not None else None
            where = f"between prefetch {low:g} and {high:g}"
            refused = self._too_little(self.fitted_extent, number, where) or self._dead(number)
        if refused is None:
            found["condition"] = float(self.condition[number])
            found["estimates"] = self._estimates(number)
            found["train"] = _agreement(self.train, number)
            found["test"] = _agreement(self.test, number)
            fit = Fit(**found)
            refused = _ill_conditioned(fit) or _no_good(fit)
            if refused is None:
                found["model"] = self._model(fit, number)
        if refused is not None:
            found["cause"], found["reason"] = refused
        return Fit(**found)

    def _ends(self, number: int) -> tuple[float, float]:
        """Where rows are fitted: from the lowest prefetch to the knee or the highest.

        A range that was given is cut to where there are rows: a model holds where it was seen to.
        """
        low, high = float(self.all_train.u_low[number]), float(self.top[number])
        if isinstance(self.given, tuple) and not low < high:
            return self.given
        return low, high

    def _unusable(self, number: int) -> tuple[Cause, str] | None:
        """Why the rows as a whole cannot be fitted."""
        unsound, below_zero = (int(self.left_out[why][number]) for why in (UNSOUND, BELOW_ZERO))
        if unsound:
            return "unsound rows", (
                f"{unsound} rows hold missing, NaN or infinite values, or a prefetch or "
                "rate beyond any real one; remove them."
            )
        if below_zero:
            return "negative prefetch", (f"{below_zero} rows have a prefetch below 0; remove them.")
        starved, outside = (int(self.left_out[why][number]) for why in (STARVED, OUTSIDE))
        where = f"once {starved} starved ones are left out"
        if outside and isinstance(self.given, tuple):
            where = f"between prefetch {self.given[0]:g} and {self.given[1]:g}"
        refused = self._too_little(self.all_train, number, where)
        if refused is not None:
            return refused
        low, high = self.all_train.interval(number)
        if low <= 0:
            return "uneven intervals", f"a sample interval is {low:g} s; it must be above 0."
        if high > low * SAME_INTERVAL_FACTOR:
            return "uneven intervals", (
                f"sample intervals range from {low:g} to {high:g} s and a model holds for one;"
                " identify each interval apart."
            )
        return None

    def _too_little(self, extent: _Extent, number: int, where: str) -> tuple[Cause, str] | None:
        """Why the rows are no experiment."""
        rows, level = int(extent.rows[number]), float(extent.u_low[number])
        if rows < FEWEST_ROWS:
            return "too few rows", (
                f"{rows} rows to fit {where}, {FEWEST_ROWS} are needed; record a longer trace."
            )
        if level == extent.u_high[number]:
            return "constant prefetch", (
                f"the prefetch is {level:g} in every row {where}; vary it."
            )
        return None

    def _dead(self, number: int) -> tuple[Cause, str] | None:
        if not self.still[number]:
            return None
        return "dead consumer", (
            f"the rate is {self.mean_rate[number]:g} messages/second in every row, whatever the "
            "prefetch; see that the consumer runs."
        )

    def _estimates(self, number: int) -> Estimates | None:
        if not self.solutions.determined[number]:
            return None
        theta = self.solutions.theta[number]
        wide = self.half_widths[number]
        ends = zip((theta - wide).tolist(), (theta + wide).tolist(), strict=True)
        errors = StandardErrors(*self.solutions.standard_errors[number].tolist())
        a, b, c = theta.tolist()
        return Estimates(a, b, c, errors, ConfidenceIntervals(*ends))

    def _model(self, fit: Fit, number: int) -> ArxModel:
        found = fit.estimates
        assert found is not None
        assert fit.linear_range is not None
        return ArxModel(
            *(found.a, found.b, found.c),
            interval=float(self.all_train.interval_mean[number]),
            linear_range=fit.linear_range,
            standard_errors=found.standard_errors,
            quality=_quality(fit),
            confidence_intervals=found.intervals,
        )


class _Extent:
    """Between what extremes some of every group's rows lie, as arrays over the groups."""

    def __init__(self, cells: Cells, chosen: Mask) -> None:
        group, number = cells.group[chosen], len(cells.groups)
        self.rows = total(group, cells.moments.rows[chosen], number)
        self.u_low = lowest(group, cells.u_low[chosen], number)
        self.u_high = -lowest(group, -cells.u_high[chosen], number)
        self._interval_low = lowest(group, cells.interval_low[chosen], number)
        self._interval_high = -lowest(group, -cells.interval_high[chosen], number)
        seconds = total(group, cells.interval_sum[chosen], number)
        self.interval_mean = seconds / np.maximum(self.rows, 1)

    def interval(self, number: int) -> tuple[float, float]:
        """The shortest and the longest interval of one group."""
        return float(self._interval_low[number]), float(self._interval_high[number])


def _ill_conditioned(fit: Fit) -> tuple[Cause, str] | None:
    """Why a and b cannot be separated."""
    allowed = CONDITION_ALLOWED if fit.offset else CONDITION_SOLVABLE
    if fit.estimates is not None and fit.condition is not None and fit.condition <= allowed:
        return None
    return "ramp", (
        f"the experiment is ill-conditioned (condition number {fit.condition:.3g}, at most"
        f" {allowed:g} is allowed): the rate before is a function of the prefetch, as on a ramp;"
        " use levels in random order."
    )


def _no_good(fit: Fit) -> tuple[Cause, str] | None:
    """Why the estimates are no model of a consumer."""
    estimates = fit.estimates
    if estimates is None:
        return None
    if estimates.b <= 0:
        return "falling rate", (
            f"b is {estimates.b:.4g}, but more prefetch must mean a higher rate (b above 0)."
        )
    if not -1 < estimates.a < 1:
        return "unstable", f"a is {estimates.a:.4g}, but a consumer's a lies between -1 and 1."
    for agreed, rows in ((fit.train, "rows fitted"), (fit.test, "rows held out")):
        if agreed is not None and agreed.rows >= FEWEST_ROWS and agreed.r2 < R2_NEEDED:
            return "poor fit", f"R2 is {agreed.r2:.2f} on the {rows}, {R2_NEEDED:g} is needed."
    return None


def _agreement(all_groups: Agreements, number: int) -> Agreement | None:
    r2, rmse = float(all_groups.r2[number]), float(all_groups.rmse[number])
    return None if np.isnan(r2) else Agreement(int(all_groups.rows[number]), r2, rmse)


def _quality(fit: Fit) -> FitQuality | None:
    """The model's quality; what was not held out has no test figures."""
    train, test = fit.train, fit.test
    if train is None:
        return None
    r2, rmse, rows = (test.r2, test.rmse, test.rows) if test is not None else (None, None, 0)
    return FitQuality(train.r2, r2, train.rmse, rmse, train.rows, rows)
