"""How every benchmark reports a series of measurements."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


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
