"""Latencies in a fixed number of bins, each about 3 % wider than the one below it.

A bin is a range of floating-point numbers with the same exponent and the same first five bits
after it: 32 bins from each power of 2 to the next, found by a shift.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.engine.compiled import compiled

LOWEST_BIN_SECONDS = 2.0**-20
"""About a microsecond. All shorter latencies are in the first bin."""

BIN_OCTAVES = 40
BIN_BITS = 5
BINS = 1 + (BIN_OCTAVES << BIN_BITS)
BIN_SHIFT = 52 - BIN_BITS
FIRST_BIN = int(np.float64(LOWEST_BIN_SECONDS).view(np.int64)) >> BIN_SHIFT


@compiled
def bin_of(seconds: float) -> int:
    """The bin of a latency."""
    if seconds < LOWEST_BIN_SECONDS:
        return 0
    above = (np.float64(seconds).view(np.int64) >> BIN_SHIFT) - FIRST_BIN
    return min(1 + int(above), BINS - 1)


def edges() -> npt.NDArray[np.float64]:
    """Where the bins begin, and where the last one ends."""
    bits = np.arange(FIRST_BIN, FIRST_BIN + BINS, dtype=np.int64) << BIN_SHIFT
    return np.concatenate([[0.0], bits.view(np.float64)])


def quantile(counts: npt.NDArray[Any], share: float) -> float:
    """The latency below which a ``share`` of the messages stayed, to within a bin's width."""
    total = int(counts.sum())
    if total == 0:
        return float("nan")
    below = np.concatenate([[0], np.cumsum(counts)])
    wanted = share * total
    index = min(int(np.searchsorted(below, wanted, side="left")), counts.size)
    index = max(index, 1) - 1
    limits = edges()
    inside = (wanted - below[index]) / counts[index] if counts[index] else 0.0
    return float(limits[index] + inside * (limits[index + 1] - limits[index]))
