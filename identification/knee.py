"""Where the curve bends: a broken stick through the mean rate per level of prefetch.

The rate of a consumer grows with its prefetch until the handlers are busy all the time.
Two lines that meet, fitted by least squares, find that knee: below it a linear model
holds, above it more prefetch brings nothing. All curves of a fleet are searched at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from identification.statistics import Floats, Integers, Mask

FEWEST_LEVELS = 5
"""Levels of prefetch. Two lines need two levels each; with fewer than five, two lines fit any
curve."""

SLOPE_SHARE_ABOVE_KNEE = 0.5
"""Share of the slope that may remain above a knee; a slighter bend still counts as linear."""

BEND_F_RATIO = 15.0
"""F ratio from which a bend is believed; 1 noisy straight line in 1,000 (22 levels) exceeds it."""

ROUNDING_SHARE_OF_SQUARES = 1e-18
"""Share of the rates' squares below which what a straight line leaves is rounding alone."""

MARGIN_STANDARD_ERRORS = 2.0
"""Standard errors below a knee up to which the curve is taken for straight: a knee placed too
high would bend the line that is fitted below it, one placed too low only costs rows."""

MOST_LEVELS_AT_ONCE = 1_000_000
"""Levels of all curves searched together, which bounds the memory that takes (100 MB)."""


@dataclass(frozen=True)
class Level:
    """The mean rate ``y_next`` (messages/second) over ``count`` rows around one prefetch.

    Where rows have weights, ``count`` adds them up.
    """

    prefetch: float
    rate: float
    count: float


@dataclass(frozen=True)
class Knee:
    """Where the rate stops following the prefetch.

    ``standard_error`` tells how far off ``prefetch`` may be. ``rate`` is the rate at the knee
    (the cap, where the curve is flat beyond it); the slopes are in messages/second per message
    of prefetch.
    """

    prefetch: float
    standard_error: float
    rate: float
    slope_below: float
    slope_above: float


@dataclass(frozen=True, eq=False)
class LevelTable:
    """The levels of many curves as columns, curve by curve and upwards in prefetch.

    ``curve`` says which curve a level belongs to; there are ``number`` of them. ``count`` is the
    rows of each level.
    """

    number: int
    curve: Integers
    prefetch: Floats
    rate: Floats
    count: Floats


@dataclass(frozen=True, eq=False)
class Knees:
    """The knee of each of many curves. Where none was ``found`` the numbers are those of the
    best broken stick, believable or not, or NaN where there are too few levels for one."""

    found: Mask
    prefetch: Floats
    standard_error: Floats
    rate: Floats
    slope_below: Floats
    slope_above: Floats

    @property
    def below(self) -> Floats:
        """The prefetch up to which each curve is straight with some certainty."""
        safe: Floats = self.prefetch - MARGIN_STANDARD_ERRORS * self.standard_error
        return safe

    def one(self, curve: int) -> Knee | None:
        """The knee of one curve, or None."""
        if not self.found[curve]:
            return None
        return Knee(*(float(getattr(self, each.name)[curve]) for each in fields(Knee)))


def find_knees(curves: LevelTable) -> Knees:
    """The knee of every curve. Squares are weighted by the rows of a level.

    Takes time in proportion to the levels.
    """
    found = np.zeros(curves.number, dtype=bool)
    values = np.full((5, curves.number), np.nan)
    for chosen, u, rate, weight in _padded(curves):
        found[chosen], values[:, chosen] = _search(u, rate, weight)
    return Knees(found, *values)


def _padded(curves: LevelTable) -> Iterator[tuple[Integers, Floats, Floats, Floats]]:
    """Curves of similar length as rows of one table; past its end a curve has levels of weight 0.

    Curves of too few levels are passed over.
    """
    length = np.bincount(curves.curve, minlength=curves.number)
    start = np.cumsum(length) - length
    order = np.argsort(length, kind="stable")
    order = order[length[order] >= FEWEST_LEVELS]
    while len(order):
        width = length[order[-1]]
        chosen = order[-max(1, MOST_LEVELS_AT_ONCE // width) :]
        order = order[: len(order) - len(chosen)]
        place = np.minimum(np.arange(width), length[chosen, None] - 1)
        there = np.arange(width) < length[chosen, None]
        at = start[chosen, None] + place
        yield (chosen, curves.prefetch[at], curves.rate[at], np.where(there, curves.count[at], 0.0))


def _search(u: Floats, rate: Floats, weight: Floats) -> tuple[Mask, Floats]:
    """Which curves bend, and of each: place, its error, rate there, slopes below and above."""
    levels = (weight > 0).sum(axis=1)
    width = u[:, -1:] - u[:, :1]
    x = (u - u[:, :1]) / width
    middle = np.sum(weight * rate, axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
    r = rate - middle
    start, slope = _lines(_terms(x, r, weight).sum(axis=2)[:, :, None])
    straight = np.sum(weight * (r - start - slope * x) ** 2, axis=1)

    at = _best_place(x, r, weight)[:, None]
    hinge = np.maximum(x - at, 0.0)
    # The stick is the straight line plus what a hinge, with its own line taken away, explains.
    hinge_start, hinge_slope = _lines(_terms(x, hinge, weight).sum(axis=2)[:, :, None])
    apart = hinge - hinge_start - hinge_slope * x
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = np.sum(weight * apart * r, axis=1) / np.sum(weight * apart**2, axis=1)
    bend = np.nan_to_num(bend, nan=0.0, posinf=0.0, neginf=0.0)[:, None]
    start, slope = start - bend * hinge_start, slope - bend * hinge_slope
    broken = np.sum(weight * (r - start - slope * x - bend * hinge) ** 2, axis=1)

    below, above = slope[:, 0], (slope + bend)[:, 0]
    curved = straight > ROUNDING_SHARE_OF_SQUARES * np.sum(weight * rate**2, axis=1)
    # F ratio of the two parameters that a bend adds (its place and size), of four in all.
    believed = (straight - broken) / 2 * (levels - 4) >= BEND_F_RATIO * broken
    found = curved & believed & (below > 0) & (above <= SLOPE_SHARE_ABOVE_KNEE * below)
    error = _place_error(x, weight, at, bend[:, 0], broken / np.maximum(levels - 4, 1))
    place, rate_there = u[:, 0] + at[:, 0] * width[:, 0], (middle + start + slope * at)[:, 0]
    per_message = 1 / width[:, 0]
    slopes = below * per_message, above * per_message
    return found, np.stack([place, error * width[:, 0], rate_there, *slopes])


def _best_place(x: Floats, r: Floats, weight: Floats) -> Floats:
    """The knee with the smallest squares, each line keeping at least two levels.

    It is at a level, or where two lines fitted freely on either side cross between two.
    All candidates are compared at once, from running sums over the levels.
    """
    below = np.cumsum(_terms(x, r, weight), axis=2)
    total = below[:, :, -1:]
    above = total - below
    start, slope = _lines(below[:, :, :-1])
    start_above, slope_above = _lines(above[:, :, :-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (start_above - start) / (slope - slope_above)
    place = np.arange(x.shape[1] - 1)
    last = (weight > 0).sum(axis=1, keepdims=True) - 1
    inside = (place >= 1) & (place < last)
    between = inside & (place < last - 1) & (x[:, :-1] < crossing) & (crossing < x[:, 1:])
    at_level = np.where(inside, _explained(x[:, :-1], above[:, :, :-1], total), -1.0)
    crossed = np.where(between, crossing, x[:, :-1])
    at_crossing = np.where(between, _explained(crossed, above[:, :, :-1], total), -1.0)
    explained = np.concatenate([at_level, at_crossing], axis=1)
    places = np.concatenate([x[:, :-1], crossed], axis=1)
    return np.take_along_axis(places, np.argmax(explained, axis=1)[:, None], axis=1)[:, 0]


def _explained(k: Floats, above: Floats, total: Floats) -> Floats:
    """The squares that a hinge at k takes off a straight line, from sums over the levels above."""
    w, wx, wxx, wr, wxr = (above[:, i] for i in range(5))
    hinge, hinge_x, hinge_r = wx - k * w, wxx - k * wx, wxr - k * wr
    hinge_hinge = hinge_x - k * hinge
    all_w, all_x, all_xx, all_r, all_xr = (total[:, i] for i in range(5))
    # What is left of the hinge once the line through it is taken away (Frisch-Waugh).
    spread = all_w * all_xx - all_x**2
    slope = (all_w * hinge_x - all_x * hinge) / spread
    start = (hinge - slope * all_x) / all_w
    apart = hinge_hinge - start * hinge - slope * hinge_x
    answer = hinge_r - start * all_r - slope * all_xr
    usable = apart > 1e-12 * hinge_hinge
    return np.where(usable, answer**2 / np.where(usable, apart, 1.0), -1.0)


def _place_error(x: Floats, weight: Floats, at: Floats, bend: Floats, noise: Floats) -> Floats:
    """Standard error of where two lines cross: that of their distance there, over the bend."""
    variance = np.zeros(len(x))
    for side in (x <= at, x > at):
        w = np.where(side, weight, 0.0)
        rows = np.maximum(w.sum(axis=1), 1e-300)
        middle = np.sum(w * x, axis=1) / rows
        spread = np.sum(w * (x - middle[:, None]) ** 2, axis=1)
        lever = (at[:, 0] - middle) ** 2
        variance += 1 / rows + np.divide(lever, spread, out=np.zeros_like(lever), where=spread > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(noise * variance) / np.abs(bend)
    return np.nan_to_num(error, nan=0.0, posinf=0.0)


def _terms(x: Floats, r: Floats, weight: Floats) -> Floats:
    """The terms of the sums of w, wx, wxx, wr and wxr, along the second axis."""
    return np.stack([weight, weight * x, weight * x * x, weight * r, weight * x * r], axis=1)


def _lines(sums: Floats) -> tuple[Floats, Floats]:
    """Start and slope of weighted lines, from sums of w, wx, wxx, wr and wxr."""
    w, wx, wxx, wr, wxr = (sums[:, i] for i in range(5))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (w * wxr - wx * wr) / (w * wxx - wx * wx)
        start = (wr - slope * wx) / w
    return start, slope
