"""Workload bands: which rows of a trace belong to one workload, and so to one model."""

from __future__ import annotations

import math

BANDS_PER_OCTAVE = 2
"""Bands are half an octave wide, from 0.84 to 1.19 times their centre: narrower than what
moves a consumer's gain much, wider than the noise of a mean over some thirty messages."""


def band(value: float) -> float:
    """The centre of the band in which a measured value lies; 0 for what was not measured."""
    if not value > 0 or math.isinf(value):
        return 0.0
    return float(2 ** (round(BANDS_PER_OCTAVE * math.log2(value)) / BANDS_PER_OCTAVE))
