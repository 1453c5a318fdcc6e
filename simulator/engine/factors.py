"""Factors of a rate or a duration that change over time, as linear pieces.

An interval is drawn at the scenario's own rate. At ``f(t)`` times that rate it ends when the
integral of ``f`` has reached it, so a ramp or a pause takes effect at once and exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from simulator.engine.compiled import compiled
from simulator.engine.timers import NEVER
from simulator.scenario.changes import Change


def phases(changes: Sequence[Change]) -> list[tuple[float, float, float]]:
    """The linear pieces of a schedule: start, factor at the start, slope per second."""
    if not changes:
        return []
    pieces, factor = [(0.0, 1.0, 0.0)], 1.0
    for change in changes:
        if change.over > 0:
            pieces.append((change.at, factor, (change.factor - factor) / change.over))
        factor = change.factor
        pieces.append((change.at + change.over, factor, 0.0))
    return pieces


@compiled
def factor_at(phases: Any, first: int, count: int, now: float) -> float:
    """The factor at an instant; 1 without a schedule."""
    factor = 1.0
    for piece in range(first, first + count):
        if phases[piece].start > now:
            break
        factor = phases[piece].factor + phases[piece].slope * (now - phases[piece].start)
    return factor


@compiled
def end_of(phases: Any, first: int, count: int, now: float, left: float) -> float:
    """When an interval ends that has ``left`` seconds left at factor 1, or NEVER."""
    for piece in range(first, first + count):
        end = phases[piece + 1].start if piece + 1 < first + count else NEVER
        if end <= now:
            continue
        slope = phases[piece].slope
        factor = phases[piece].factor + slope * (now - phases[piece].start)
        if slope == 0.0 and factor == 0.0:
            needed = NEVER
        else:
            # The root of factor * t + slope / 2 * t**2 = left, in the form without cancellation.
            root = factor * factor + 2.0 * slope * left
            needed = 2.0 * left / (factor + math.sqrt(root)) if root >= 0.0 else NEVER
        if now + needed <= end:
            return now + needed
        left -= (factor + 0.5 * slope * (end - now)) * (end - now)
        left = max(left, 0.0)
        now = end
    return NEVER


@compiled
def progress(phases: Any, first: int, count: int, start: float, end: float) -> float:
    """The integral of the factor from ``start`` to ``end``."""
    total = 0.0
    for piece in range(first, first + count):
        last = phases[piece + 1].start if piece + 1 < first + count else NEVER
        low, high = max(start, phases[piece].start), min(end, last)
        if low < high:
            middle = 0.5 * (low + high) - phases[piece].start
            total += (phases[piece].factor + phases[piece].slope * middle) * (high - low)
    return total
