"""A controller that follows a plan: the open-loop experiment behind every model."""

from __future__ import annotations

import random
from collections.abc import Sequence

from controlmq.checks import prefetch_count
from controlmq.errors import InputError
from controlmq.sample import Sample


class OpenLoop:
    """Puts the planned prefetches in force, one a sample, and stays on the last."""

    kind = "plan"

    def __init__(self, levels: Sequence[float]) -> None:
        if not levels:
            raise InputError("an open-loop experiment needs at least one prefetch level.")
        self.levels = [prefetch_count("prefetch level", level) for level in levels]
        self._next = 0

    def __call__(self, sample: Sample, goal: float) -> float:
        """The next level of the plan."""
        level = self.levels[min(self._next, len(self.levels) - 1)]
        self._next += 1
        return level


def ramp(low: float, high: float, samples_per_level: int = 1) -> list[float]:
    """Levels ``low, low+1, ...`` up to ``high``: shows the curve and its knee.

    Not for fitting dynamics: on a ramp rate and prefetch rise together, and nothing in the
    data tells ``a`` from ``b``.
    """
    low, high = prefetch_count("low end", low), prefetch_count("high end", high)
    count = int(high - low) + 1
    if count < 1 or samples_per_level < 1:
        raise InputError(f"a ramp from {low:g} to {high:g} has no level; give low below high.")
    return [low + step for step in range(count) for _ in range(samples_per_level)]


def random_levels(low: float, high: float, samples: int, seed: int = 0) -> list[float]:
    """``samples`` prefetches drawn evenly from ``low`` to ``high``, in random order.

    Stratified, so that the whole range is covered, then shuffled, so that the prefetch says
    nothing about the rate before it.
    """
    low, high = prefetch_count("low end", low), prefetch_count("high end", high)
    if samples < 2 or not low < high:
        raise InputError(
            f"cannot draw {samples} levels between {low:g} and {high:g}; "
            "give at least 2, and a low end below the high end."
        )
    draw = random.Random(seed)
    width = (high - low) / samples
    levels = [low + width * (step + draw.random()) for step in range(samples)]
    draw.shuffle(levels)
    return levels
