"""How the rate of every group follows its prefetch: the curve in which a knee is searched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identification.knee import Knee, Level, LevelTable, find_knees
from identification.label import label
from identification.statistics import (
    LEFT_OUT,
    Y_NEXT,
    Cells,
    Integers,
    Mask,
    Moments,
    U,
    Y,
    distinct,
    merged,
    total,
)

LARGEST_SETTLING_A = 0.95
"""The a beyond which a level never settles within a trace, and its rate is unknown."""


@dataclass(frozen=True)
class Curve:
    """How one group's rate follows its prefetch: mean rate per level, and the knee if any."""

    group: str
    levels: tuple[Level, ...]
    knee: Knee | None


def curves_of(cells: Cells) -> list[Curve]:
    """The curve of every group through all rows that were limited by the window."""
    curves = mean_curves(cells, cells.part != LEFT_OUT)
    knees = find_knees(curves)
    ends = np.searchsorted(curves.curve, np.arange(curves.number + 1)).tolist()
    found = []
    for number, key in enumerate(cells.groups):
        chosen = slice(ends[number], ends[number + 1])
        columns = (curves.prefetch[chosen], curves.rate[chosen], curves.count[chosen])
        levels = zip(*(column.tolist() for column in columns), strict=True)
        found.append(Curve(label(key), tuple(Level(*row) for row in levels), knees.one(number)))
    return found


def _levels(cells: Cells, chosen: Mask) -> tuple[Integers, Moments]:
    """The moments per bin of u over the chosen cells and their group, group by group, ascending."""
    (group, _), into = distinct(cells.group[chosen], cells.bin[chosen])
    return group, merged(cells.moments[chosen], into, len(group))


def mean_curves(cells: Cells, chosen: Mask) -> LevelTable:
    """Mean rate per level of prefetch."""
    group, levels = _levels(cells, chosen)
    prefetch, rate = levels.mean[:, U], levels.mean[:, Y_NEXT]
    return LevelTable(len(cells.groups), group, prefetch, rate, levels.weight)


def settled_curves(cells: Cells, chosen: Mask) -> LevelTable:
    """The rate on which each level would settle, ``(y_next - a*y) / (1 - a)`` in the mean.

    Where levels follow each other in random order, the memory of the level before is what
    scatters ``y_next`` most. The rows of one level show how long that memory is: there u is the
    same and only y differs.
    """
    group, levels = _levels(cells, chosen)
    number = len(cells.groups)
    spread, answer = (total(group, levels.products[:, Y, other], number) for other in (Y, Y_NEXT))
    a = np.divide(answer, spread, out=np.zeros(number), where=spread > 0)
    a = np.clip(a, -LARGEST_SETTLING_A, LARGEST_SETTLING_A)[group]
    rate = (levels.mean[:, Y_NEXT] - a * levels.mean[:, Y]) / (1 - a)
    return LevelTable(number, group, levels.mean[:, U], rate, levels.weight)
