"""Rows as consumers of known behaviour would record them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from controlmq.loop import Transition


def arx_rows(
    group: str,
    levels: Sequence[float],
    *,
    a: float,
    b: float,
    c: float,
    noise: float,
    seed: int,
    trace: str = "t",
) -> list[Transition]:
    """What a consumer that obeys the model records when driven through ``levels``."""
    rng = np.random.default_rng(seed)
    y = (b * levels[0] + c) / (1 - a)
    rows = []
    for k, u in enumerate(levels):
        y_next = a * y + b * u + c + rng.normal(0, noise)
        rows.append(Transition(group, trace, k, k * 2.0, 2.0, float(u), y, y_next, True))
        y = y_next
    return rows


def static_rows(
    group: str, levels: Sequence[float], rate: Callable[[float], float], noise: float, seed: int
) -> list[Transition]:
    """What a consumer without memory records: each rate depends on the prefetch alone."""
    rng = np.random.default_rng(seed)
    rates = [rate(u) + rng.normal(0, noise) for u in levels]
    return [
        Transition(group, "t", k, float(k), 1.0, float(levels[k]), rates[k - 1], rates[k], True)
        for k in range(1, len(levels))
    ]


def random_levels(rows: int, seed: int, low: int = 1, high: int = 22) -> list[float]:
    return [float(u) for u in np.random.default_rng(seed).integers(low, high + 1, rows)]


def is_training(row: Transition) -> bool:
    """The documented split at a share of 0.25: every fourth block of 5 samples is held out."""
    return row.sample // 5 % 4 != 3


def columns(rows: Sequence[Transition]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([row.u for row in rows]),
        np.array([row.y for row in rows]),
        np.array([row.y_next for row in rows]),
    )
