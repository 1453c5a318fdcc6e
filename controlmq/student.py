"""Student's t: how far a mean or an estimate may be off, without a statistics library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from controlmq.errors import InputError

CONFIDENCE_SHARE = 0.95
NORMAL_95_DEVIATIONS = 1.959963984540054
"""Standard deviations about the mean that hold 95 % of a normal distribution."""

EXPANDED_FROM_DEGREES = 30.0
"""Degrees of freedom from which four terms of the expansion are right to 1e-7."""


@dataclass(frozen=True)
class Interval:
    """A mean over independent repetitions and its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: Sequence[float]) -> Interval:
    """The interval of the mean of repetitions that are independent of each other."""
    if len(values) < 2:
        raise InputError(f"{len(values)} repetition has no spread; give at least 2 seeds.")
    mean = statistics.fmean(values)
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def t_quantile(freedom: float) -> float:
    """How many standard errors 95 % of Student's distribution lie within.

    Exact for whole degrees of freedom. Weighted rows give others; there the corrections of the
    expansion at both neighbours are interpolated. Fewer degrees than 1 count as 1.
    """
    if freedom >= EXPANDED_FROM_DEGREES:
        return _expanded(freedom)
    freedom = max(freedom, 1.0)
    below = math.floor(freedom)
    share = freedom - below
    corrected = (1 - share) * _correction(below) + share * _correction(below + 1)
    return corrected * _expanded(freedom)


def _expanded(freedom: float) -> float:
    """The expansion in 1/freedom (Abramowitz & Stegun 1964, 26.7.5)."""
    z = NORMAL_95_DEVIATIONS
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


@cache
def _correction(freedom: int) -> float:
    """The exact value divided by that of the expansion."""
    low, high = 0.0, 13.0  # with one degree of freedom it is 12.71, with more it is less
    while high - low > 1e-12:
        middle = (low + high) / 2
        if _within(middle, freedom) < CONFIDENCE_SHARE:
            low = middle
        else:
            high = middle
    return (low + high) / 2 / _expanded(freedom)


def _within(t: float, freedom: int) -> float:
    """The probability of -t to t (Abramowitz & Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    odd = freedom % 2 == 1
    term = total = 0.0
    for k in range(freedom // 2):
        if k == 0:
            term = math.cos(angle) if odd else 1.0
        else:
            term *= square * (2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k))
        total += term
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
