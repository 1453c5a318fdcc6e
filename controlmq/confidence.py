"""A mean and how far it may be off: Student's interval, without a statistics library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.errors import InputError

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean over independent repetitions and its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: Sequence[float]) -> Interval:
    """The interval of the mean of repetitions that differ by their seeds alone."""
    if len(values) < 2:
        raise InputError(f"{len(values)} repetition has no spread; give at least 2 seeds.")
    mean = statistics.fmean(values)
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def t_quantile(freedom: int) -> float:
    """How many standard errors 95 % of Student's distribution lie within."""
    low, high = 0.0, 13.0  # with one degree of freedom it is 12.71, with more it is less
    while high - low > 1e-12:
        middle = (low + high) / 2
        if _within(middle, freedom) < LEVEL:
            low = middle
        else:
            high = middle
    return (low + high) / 2


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
