"""Where the curve bends: a broken stick through the mean rate per level of prefetch.

The rate of a consumer grows with its prefetch until the handlers are busy all the time.
Two lines that meet, fitted by least squares, find that knee: below it a linear model
holds, above it more prefetch brings nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identification.statistics import Floats

FEWEST_LEVELS = 5
"""Two levels a line, and one over: with fewer, a broken stick fits anything."""

BEND = 0.5
"""Share of the slope that may remain above a knee; a slighter bend still counts as linear."""

SIGNIFICANCE = 15.0
"""F ratio from which a bend is believed; 1 noisy straight line in 1,000 (22 levels) exceeds it."""

ROUNDING = 1e-18
"""Share of the rates' squares below which what a straight line leaves is rounding alone."""


@dataclass(frozen=True)
class Level:
    """The mean rate ``y_next`` (messages/second) over ``count`` rows around one prefetch."""

    prefetch: float
    rate: float
    count: int


@dataclass(frozen=True)
class Knee:
    """Where the rate stops following the prefetch.

    ``rate`` is the rate at the knee (the cap, where the curve is flat beyond it);
    the slopes are in messages/second per message of prefetch.
    """

    prefetch: float
    rate: float
    slope_below: float
    slope_above: float


def find_knee(levels: Sequence[Level]) -> Knee | None:
    """The knee of the curve through ``levels`` (ascending), or None where it never bends.

    Squares are weighted by the rows of a level. Takes time in proportion to the levels.
    """
    if len(levels) < FEWEST_LEVELS:
        return None
    u = np.array([level.prefetch for level in levels])
    rate = np.array([level.rate for level in levels])
    weight = np.array([level.count for level in levels], dtype=float)

    _, straight = _fit(np.column_stack([np.ones_like(u), u]), rate, weight)
    if straight <= ROUNDING * float(weight @ rate**2):
        return None
    try:
        at = _best_place(u, rate, weight)
    except np.linalg.LinAlgError:
        # Levels so unevenly apart that rounding hides any bend between them.
        return None
    stick = np.column_stack([np.ones_like(u), u, np.maximum(u - at, 0.0)])
    (start, slope, bend), broken = _fit(stick, rate, weight)
    above = slope + bend
    if slope <= 0 or above > BEND * slope:
        return None
    # F ratio of the two parameters that a bend adds (its place and size), of four in all.
    if (straight - broken) / 2 * (len(levels) - 4) < SIGNIFICANCE * broken:
        return None
    return Knee(at, float(start + slope * at), float(slope), float(above))


def _best_place(u: Floats, rate: Floats, weight: Floats) -> float:
    """The knee with the smallest squares, each line keeping at least two levels.

    It is at a level, or where two lines fitted freely on either side cross between two.
    All candidates are compared at once, from running sums over the levels.
    """
    x = (u - u[0]) / (u[-1] - u[0])
    r = rate - np.average(rate, weights=weight)
    terms = np.stack([weight, weight * x, weight * x * x, weight * r, weight * x * r])
    below = np.cumsum(terms, axis=1)
    total = below[:, -1]

    left = below[:, 1:-2]
    start, slope = _lines(left)
    start_above, slope_above = _lines(total[:, None] - left)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (start_above - start) / (slope - slope_above)
    between = (x[1:-2] < crossing) & (crossing < x[2:-1])
    places = np.concatenate([x[1:-1], crossing[between]])

    # Normal equations of 1, x and max(x - k, 0): what follows are sums over the levels above k.
    k = places
    w, wx, wxx, wr, wxr = total[:, None] - below[:, np.searchsorted(x, k, side="right") - 1]
    hinge, hinge_x, hinge_r = wx - k * w, wxx - k * wx, wxr - k * wr
    hinge_hinge = hinge_x - k * hinge
    normal = np.empty((len(k), 3, 3))
    normal[:, :2, :2] = [[total[0], total[1]], [total[1], total[2]]]
    normal[:, 2, 0] = normal[:, 0, 2] = hinge
    normal[:, 2, 1] = normal[:, 1, 2] = hinge_x
    normal[:, 2, 2] = hinge_hinge
    right = np.column_stack([np.full_like(k, total[3]), np.full_like(k, total[4]), hinge_r])
    solution = np.linalg.solve(normal, right[:, :, None])[:, :, 0]
    explained = np.einsum("ki,ki->k", solution, right)
    return float(u[0] + k[np.argmax(explained)] * (u[-1] - u[0]))


def _lines(sums: Floats) -> tuple[Floats, Floats]:
    """Start and slope of weighted lines, from sums of w, wx, wxx, wr and wxr."""
    w, wx, wxx, wr, wxr = sums
    slope = (w * wxr - wx * wr) / (w * wxx - wx * wx)
    return (wr - slope * wx) / w, slope


def _fit(design: Floats, rate: Floats, weight: Floats) -> tuple[Floats, float]:
    """Weighted least squares: the coefficients and the weighted squares left over."""
    root = np.sqrt(weight)
    solution = np.linalg.lstsq(design * root[:, None], rate * root, rcond=None)[0]
    coefficients = np.asarray(solution, dtype=np.float64)
    return coefficients, float(weight @ (rate - design @ coefficients) ** 2)
