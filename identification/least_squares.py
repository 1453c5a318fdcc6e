"""Least squares in closed form: from moments to ``y(k+1) = a*y(k) + b*u(k) + c``.

With ``x' = x - mean(x)`` (fit with offset) or ``x' = x`` (fit without, c = 0):

    a = (S3*S4 - S2*S5) / (S1*S3 - S2^2)      S1 = sum y'^2      S4 = sum y'*y_next'
    b = (S1*S5 - S2*S4) / (S1*S3 - S2^2)      S2 = sum u'*y'     S5 = sum u'*y_next'
    c = mean(y_next) - a*mean(y) - b*mean(u)  S3 = sum u'^2

Without offset these are the formulas of Rosa & Cavalcanti 2022, whose printed S5,
``sum u(k)*u(k+1)``, is a misprint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from controlmq.model import StandardErrors
from identification.statistics import Y_NEXT, Moments, U, Y


@dataclass(frozen=True)
class Estimates:
    """What least squares says, before anyone asks whether it means something.

    The standard errors take the residuals for independent of each other.
    """

    a: float
    b: float
    c: float
    standard_errors: StandardErrors


@dataclass(frozen=True)
class Agreement:
    """How well estimates explain some rows; ``rmse`` is in messages/second.

    ``r2`` is the share of the variance of ``y_next`` about its own mean that is explained,
    with and without offset alike, so that the two can be compared.
    """

    rows: int
    r2: float
    rmse: float


def condition(moments: Moments, *, offset: bool) -> float:
    """Condition number of the regressors, each scaled to length 1: 1 is best.

    With an offset they are centred first. It is about 1 for levels in random order and
    grows without bound as ``y`` becomes a function of ``u``, as on a ramp.
    """
    products = moments.products if offset else moments.raw_products
    scale = math.sqrt(products[U, U]) * math.sqrt(products[Y, Y])
    if scale == 0:
        return math.inf
    correlation = abs(float(products[U, Y])) / scale
    return math.sqrt((1 + correlation) / (1 - correlation)) if correlation < 1 else math.inf


def solve(moments: Moments, *, offset: bool) -> Estimates | None:
    """The least-squares estimates, or None where the rows do not determine them."""
    free_rows = moments.count - (3 if offset else 2)
    if free_rows < 1 or math.isinf(condition(moments, offset=offset)):
        return None
    products = moments.products if offset else moments.raw_products
    s1, s2, s3 = float(products[Y, Y]), float(products[U, Y]), float(products[U, U])
    s4, s5 = float(products[Y, Y_NEXT]), float(products[U, Y_NEXT])
    determinant = s1 * s3 - s2 * s2
    if determinant <= 0:
        return None
    a = (s3 * s4 - s2 * s5) / determinant
    b = (s1 * s5 - s2 * s4) / determinant
    mean_u, mean_y, mean_next = (float(moments.mean[i]) for i in (U, Y, Y_NEXT))
    c = mean_next - a * mean_y - b * mean_u if offset else 0.0

    # Covariance of the estimates: noise variance times the inverse of the products.
    noise = _squared_residuals(moments, a, b, c) / free_rows
    var_a, var_b, cov_ab = s3 / determinant, s1 / determinant, -s2 / determinant
    var_c = 0.0
    if offset:
        var_c = 1 / moments.count + (
            mean_y**2 * var_a + mean_u**2 * var_b + 2 * mean_y * mean_u * cov_ab
        )
    errors = StandardErrors(*(math.sqrt(noise * max(v, 0.0)) for v in (var_a, var_b, var_c)))
    return Estimates(a, b, c, errors)


def agreement(moments: Moments, estimates: Estimates) -> Agreement | None:
    """How well ``estimates`` explain the rows; None where there is no variance to explain."""
    total = float(moments.products[Y_NEXT, Y_NEXT])
    if moments.count == 0 or total <= 0:
        return None
    squares = _squared_residuals(moments, estimates.a, estimates.b, estimates.c)
    return Agreement(moments.count, 1 - squares / total, math.sqrt(squares / moments.count))


def _squared_residuals(moments: Moments, a: float, b: float, c: float) -> float:
    """Sum of ``(y_next - a*y - b*u - c)^2``; rounding may not take it below 0."""
    weights = np.zeros(3)
    weights[[U, Y, Y_NEXT]] = -b, -a, 1.0
    about_mean = float(weights @ moments.products @ weights)
    bias = float(weights @ moments.mean) - c
    return max(about_mean, 0.0) + moments.count * bias**2
