"""What benchmarks share: where processes run, and how a series of measurements is reported."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """Median, quartiles and extremes of repeated measurements."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {
        "median": statistics.median(values),
        "quartile_low": low,
        "quartile_high": high,
        "least": min(values),
        "most": max(values),
        "repetitions": len(values),
    }


@contextmanager
def on_core(number: int) -> Iterator[None]:
    """Run on one core alone, if there are several and the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[number]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
