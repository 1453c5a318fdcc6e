"""Least squares in closed form: from moments to ``y(k+1) = a*y(k) + b*u(k) + c``.

With ``x' = x - mean(x)`` (fit with offset) or ``x' = x`` (fit without, c = 0):

    a = (S3*S4 - S2*S5) / (S1*S3 - S2^2)      S1 = sum y'^2      S4 = sum y'*y_next'
    b = (S1*S5 - S2*S4) / (S1*S3 - S2^2)      S2 = sum u'*y'     S5 = sum u'*y_next'
    c = mean(y_next) - a*mean(y) - b*mean(u)  S3 = sum u'^2

Without offset these are the formulas of Rosa & Cavalcanti 2022, whose printed S5,
``sum u(k)*u(k+1)``, is a misprint. Sums are weighted where rows are. Everything here works on
any number of fits at once, one per entry of its arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlmq.student import t_quantile
from identification.statistics import Y_NEXT, Floats, Mask, Moments, U, Y


@dataclass(frozen=True, eq=False)
class Solutions:
    """The estimates of least squares, before they are judged.

    ``theta`` and ``standard_errors`` hold a, b and c in columns, NaN where the rows do not
    determine them (``determined`` is False). The standard errors assume that the residuals are
    independent of each other. ``free_rows`` are the degrees of freedom left over.
    """

    determined: Mask
    theta: Floats
    standard_errors: Floats
    free_rows: Floats

    @property
    def half_widths(self) -> Floats:
        """How far a 95 % confidence interval reaches to either side of a, b and c."""
        reach = np.array([t_quantile(free) for free in self.free_rows.tolist()])
        widths: Floats = reach.reshape(-1, 1) * self.standard_errors
        return widths


@dataclass(frozen=True, eq=False)
class Agreements:
    """How well estimates explain some rows; ``rmse`` is in messages/second.

    ``r2`` is the share of the variance of ``y_next`` about its own mean that is explained,
    with and without offset alike, so that the two can be compared. Both are NaN where there
    are no rows or no variance to explain.
    """

    rows: Floats
    r2: Floats
    rmse: Floats


def condition(moments: Moments, *, offset: bool) -> Floats:
    """Condition number of the regressors, each scaled to length 1: 1 is best.

    With an offset they are centred first. It is about 1 for levels in random order and
    grows without bound as ``y`` becomes a function of ``u``, as on a ramp.
    """
    products = moments.products if offset else moments.raw_products
    scale = np.sqrt(products[:, U, U]) * np.sqrt(products[:, Y, Y])
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.minimum(np.abs(products[:, U, Y]) / scale, 1.0)
        number = np.sqrt((1 + correlation) / (1 - correlation))
    return np.where(scale > 0, number, np.inf)


def solve(moments: Moments, *, offset: bool) -> Solutions:
    """The least-squares estimates.

    With weights the noise is estimated from the effective number of rows, and the errors are
    those of rows whose weights are a choice and not their precision, in the approximation that
    weights and regressors have nothing to do with each other. With equal weights both are exact.
    """
    products = moments.products if offset else moments.raw_products
    s1, s2, s3 = products[:, Y, Y], products[:, U, Y], products[:, U, U]
    s4, s5 = products[:, Y, Y_NEXT], products[:, U, Y_NEXT]
    determinant = s1 * s3 - s2 * s2
    free = moments.effective_rows - (3 if offset else 2)
    determined = (free >= 1) & (determinant > 0) & np.isfinite(condition(moments, offset=offset))
    determinant = np.where(determined, determinant, np.nan)
    a = (s3 * s4 - s2 * s5) / determinant
    b = (s1 * s5 - s2 * s4) / determinant
    mean_u, mean_y, mean_next = (moments.mean[:, i] for i in (U, Y, Y_NEXT))
    c = mean_next - a * mean_y - b * mean_u if offset else np.where(determined, 0.0, np.nan)
    theta = np.column_stack([a, b, c])

    with np.errstate(divide="ignore", invalid="ignore"):
        # Covariance of the estimates: noise variance times the inverse of the products.
        noise = squared_residuals(moments, theta) / moments.weight
        noise = noise * moments.effective_rows / np.where(determined, free, np.nan)
        choice = moments.weight2 / moments.weight
        inverse = choice / determinant
        var_a, var_b, cov_ab = s3 * inverse, s1 * inverse, -s2 * inverse
        about_mean = mean_y**2 * var_a + mean_u**2 * var_b + 2 * mean_y * mean_u * cov_ab
        var_c = choice / moments.weight + about_mean if offset else np.zeros_like(a)
        variances = np.column_stack([var_a, var_b, var_c])
        errors = np.sqrt(noise[:, None] * np.maximum(variances, 0.0))
    return Solutions(determined, theta, errors, free)


def agreement(moments: Moments, theta: Floats) -> Agreements:
    """How well ``theta`` explains the rows, whether they were fitted or not."""
    total = moments.products[:, Y_NEXT, Y_NEXT]
    there = (moments.weight > 0) & (total > 0)
    squares = np.where(there, squared_residuals(moments, theta), np.nan)
    r2 = 1 - squares / np.where(there, total, 1.0)
    rmse = np.sqrt(squares / np.where(there, moments.weight, 1.0))
    return Agreements(moments.rows.astype(np.float64), r2, rmse)


def squared_residuals(moments: Moments, theta: Floats) -> Floats:
    """Sum of ``(y_next - a*y - b*u - c)^2``; rounding may not take it below 0."""
    factor = np.empty((len(moments), 3))
    factor[:, Y], factor[:, U], factor[:, Y_NEXT] = -theta[:, 0], -theta[:, 1], 1.0
    about_mean = np.einsum("ni,nij,nj->n", factor, moments.products, factor)
    bias = np.einsum("ni,ni->n", factor, moments.mean) - theta[:, 2]
    squares: Floats = np.maximum(about_mean, 0.0) + moments.weight * bias**2
    return squares
