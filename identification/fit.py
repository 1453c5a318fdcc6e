"""The verdict on one group: its statistics become a model, or a reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from controlmq.model import ArxModel, FitQuality
from identification.knee import Knee, Level, find_knee
from identification.least_squares import Agreement, Estimates, agreement, condition, solve
from identification.statistics import Y_NEXT, Floats, GroupStatistics, Mask, U

LinearRange: TypeAlias = tuple[float, float] | Literal["all"] | None
"""Prefetch between which rows are fitted; None lets the knee of the curve decide."""

FEWEST_ROWS = 10
"""Rows a fit needs: three parameters and enough over to tell noise from model."""

R2_NEEDED = 0.8
"""Share of the variance a good model explains (Rosa & Cavalcanti 2022)."""

CONDITION_ALLOWED = 10.0
"""Scaled condition number up to which a and b can be told apart.

Levels in random order stay below 3. A ramp reaches thousands; noise and several samples a
level bring it down to about 20, where a is still off by 0.4. 10 is where Belsley, Kuh & Welsch,
"Regression Diagnostics" (1980), see dependencies begin to matter.
"""

CONDITION_SOLVABLE = 1e6
"""The same without offset, where only sums that are singular to rounding are refused."""

INTERVAL_TOLERANCE = 0.5
"""Share by which sample intervals may differ: a and b belong to one interval, but a live
consumer closes its intervals when its work lets it, and a rate is per second anyway."""


@dataclass(frozen=True)
class Fit:
    """What came of one group: a ``model``, or the ``reason`` in a sentence why not.

    ``estimates`` and ``condition`` are there whenever the rows determine them, so that a
    refused fit can be looked at. ``train`` tells how well the estimates explain the rows
    they come from, ``test`` the rows held out (None if there are none). ``rows`` counts
    all rows of the group, ``rows_starved`` those left out because the window was not the
    limit, ``rows_outside`` those outside ``linear_range``. ``knee`` is None where none was
    sought or found.
    """

    group: str
    offset: bool
    rows: int
    rows_starved: int
    rows_outside: int = 0
    model: ArxModel | None = None
    reason: str | None = None
    estimates: Estimates | None = None
    condition: float | None = None
    train: Agreement | None = None
    test: Agreement | None = None
    linear_range: tuple[float, float] | None = None
    knee: Knee | None = None


@dataclass(frozen=True)
class Curve:
    """How one group's rate follows its prefetch: mean rate per level, and the knee if any."""

    group: str
    levels: tuple[Level, ...]
    knee: Knee | None


def curve_of(statistics: GroupStatistics) -> Curve:
    """The curve through all rows that were limited by the window."""
    levels = _levels(statistics, np.ones(len(statistics.count), dtype=bool))
    return Curve(statistics.group, levels, find_knee(levels))


def fit_group(
    statistics: GroupStatistics, *, offset: bool = True, linear_range: LinearRange = None
) -> Fit:
    """Fit one group. Never raises on what the rows hold, so that a fleet survives a bad group.

    A cell that straddles an end of the linear range is left out whole.
    """
    fit = Fit(statistics.group, offset, statistics.rows, statistics.starved)
    train = ~statistics.held_out
    reason = _unusable(statistics, train)
    if reason is not None:
        return replace(fit, reason=reason)

    knee = find_knee(_levels(statistics, train)) if linear_range is None else None
    low, high = _range(statistics, train, linear_range, knee)
    inside = (statistics.u_low >= low) & (statistics.u_high <= high)
    outside = int(statistics.count[~inside].sum())
    fit = replace(fit, linear_range=(low, high), knee=knee, rows_outside=outside)
    reason = _too_little(statistics, train & inside, f"between prefetch {low:g} and {high:g}")
    if reason is not None:
        return replace(fit, reason=reason)

    fitted = statistics.moments(train & inside)
    fit = replace(fit, condition=condition(fitted, offset=offset))
    estimates = solve(fitted, offset=offset)
    if estimates is not None:
        tested = statistics.moments(~train & inside)
        fit = replace(
            fit,
            estimates=estimates,
            train=agreement(fitted, estimates),
            test=agreement(tested, estimates),
        )
    reason = _ill_conditioned(fit) or _no_good(fit)
    if reason is not None or estimates is None:
        return replace(fit, reason=reason)
    model = ArxModel(
        a=estimates.a,
        b=estimates.b,
        c=estimates.c,
        interval=float(np.average(statistics.interval_mean, weights=statistics.count)),
        linear_range=(low, high),
        standard_errors=estimates.standard_errors,
        quality=_quality(fit),
    )
    return replace(fit, model=model)


def _levels(statistics: GroupStatistics, cells: Mask) -> tuple[Level, ...]:
    """Mean rate per bin of u over the chosen cells, ascending in u."""
    count, mean = statistics.count[cells], statistics.mean[cells]
    bins, place = np.unique(statistics.bin[cells], return_inverse=True)

    def per_bin(values: Floats) -> Floats:
        return np.bincount(place, weights=values, minlength=len(bins)).astype(np.float64)

    rows = per_bin(count.astype(float))
    prefetch, rate = (per_bin(count * mean[:, i]) / rows for i in (U, Y_NEXT))
    return tuple(
        Level(float(u), float(y), int(n)) for u, y, n in zip(prefetch, rate, rows, strict=True)
    )


def _range(
    statistics: GroupStatistics, train: Mask, given: LinearRange, knee: Knee | None
) -> tuple[float, float]:
    """Where rows are fitted: from the lowest prefetch to the knee or the highest.

    A range that was given is cut to where there are rows: a model holds where it was seen to.
    """
    low, high = float(statistics.u_low[train].min()), float(statistics.u_high[train].max())
    if isinstance(given, tuple):
        inside = max(low, given[0]), min(high, given[1])
        return inside if inside[0] < inside[1] else given
    return low, high if knee is None else knee.prefetch


def _unusable(statistics: GroupStatistics, train: Mask) -> str | None:
    """Why the rows as a whole cannot be fitted."""
    if statistics.unsound:
        return (
            f"{statistics.unsound} rows hold missing, NaN or infinite values, or a prefetch or "
            "rate beyond any real one; remove them."
        )
    if statistics.below_zero:
        return f"{statistics.below_zero} rows have a prefetch below 0; remove them."
    reason = _too_little(statistics, train, f"once {statistics.starved} starved ones are left out")
    if reason is not None:
        return reason
    low, high = float(statistics.interval_low.min()), float(statistics.interval_high.max())
    if low <= 0:
        return f"a sample interval is {low:g} s; it must be above 0."
    if high > low * (1 + INTERVAL_TOLERANCE):
        return (
            f"sample intervals range from {low:g} to {high:g} s and a model holds for one;"
            " record at one interval."
        )
    return None


def _too_little(statistics: GroupStatistics, cells: Mask, where: str) -> str | None:
    """Why the rows in the chosen cells are no experiment."""
    rows = int(statistics.count[cells].sum())
    if rows < FEWEST_ROWS:
        return f"{rows} rows to fit {where}, {FEWEST_ROWS} are needed; record a longer trace."
    level = float(statistics.u_low[cells].min())
    if level == float(statistics.u_high[cells].max()):
        return f"the prefetch is {level:g} in every row {where}; vary it."
    return None


def _ill_conditioned(fit: Fit) -> str | None:
    """Why a and b cannot be told apart."""
    allowed = CONDITION_ALLOWED if fit.offset else CONDITION_SOLVABLE
    if fit.estimates is not None and fit.condition is not None and fit.condition <= allowed:
        return None
    return (
        f"the experiment is ill-conditioned (condition number {fit.condition:.3g}, at most"
        f" {allowed:g} is allowed): the rate before is a function of the prefetch, as on a ramp;"
        " use levels in random order."
    )


def _no_good(fit: Fit) -> str | None:
    """Why the estimates are no model of a consumer."""
    estimates = fit.estimates
    if estimates is None:
        return None
    if estimates.b <= 0:
        return f"b is {estimates.b:.4g}, but more prefetch must mean a higher rate (b above 0)."
    if not -1 < estimates.a < 1:
        return f"a is {estimates.a:.4g}, but a consumer's a lies between -1 and 1."
    for agreed, rows in ((fit.train, "rows fitted"), (fit.test, "rows held out")):
        if agreed is not None and agreed.rows >= FEWEST_ROWS and agreed.r2 < R2_NEEDED:
            return f"R2 is {agreed.r2:.2f} on the {rows}, {R2_NEEDED:g} is needed."
    return None


def _quality(fit: Fit) -> FitQuality | None:
    """The model's quality; what was not held out has no test figures."""
    train, test = fit.train, fit.test
    if train is None:
        return None
    if test is None:
        return FitQuality(train.r2, None, train.rmse, None, train.rows, 0)
    return FitQuality(train.r2, test.r2, train.rmse, test.rmse, train.rows, test.rows)
