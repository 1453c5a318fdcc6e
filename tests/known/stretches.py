"""The worst stretch of time: by how much it has more than a rate and a burst allow."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def worst_excess(times: Sequence[float], rate: float, burst: float) -> Fraction:
    """The most by which a stretch from one of ``times`` to a later one exceeds its bound, exactly.

    A stretch of ``T`` seconds, both ends included, may have ``rate * T + burst`` of them.
    """
    exact = Fraction(rate)
    lowest, worst = Fraction(10**9), Fraction(-(10**9))
    for number, time in enumerate(times):
        height = number - exact * Fraction(time)
        lowest = min(lowest, height)
        worst = max(worst, height + 1 - lowest)
    return worst - Fraction(burst)
