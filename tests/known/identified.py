"""Models identified from simulated traces: by the same statistics and fit as on Spark."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controlmq.controllers import OpenLoop, random_levels
from controlmq.design.analysis import Analysis
from controlmq.design.robust import Worst
from controlmq.loop import Loop, Transition
from controlmq.model import ArxModel
from identification.fit import Fit, fit_groups
from identification.statistics import (
    FIRST_HALF,
    HELD_OUT,
    SECOND_HALF,
    Cells,
    Moments,
    distinct,
    lowest,
    merged,
    total,
)
from simulator.plant import SimulatedConsumer
from simulator.studies.tournament.plants import TrialConsumer, drawn

BLOCK_SAMPLES = 5
"""Consecutive samples that are fitted or held out together, as documented."""

TOP_SHARE_OF_KNEE = 0.9
"""Levels of an experiment go up to this share of the prefetch that keeps all handlers busy."""

SAMPLES, MESSAGES_A_SAMPLE = (30, 60, 200), (15.0, 60.0, 300.0)
"""Lengths of traces, and messages of a sample where all handlers are busy: the fewer, the more a
rate is off by chance, and the wider are the intervals of what is identified."""


LEAST_OVERSHOOT_PERCENT = 1.0
"""Of a step. A smaller stated overshoot counts as this one where shares of it are judged."""


@dataclass(frozen=True)
class Identified:
    """A simulated consumer, what identification made of its trace, and how the trace was made."""

    plant: TrialConsumer
    samples: int
    messages_a_sample: float
    fit: Fit


def identified_plants(number: int, draw_seed: int) -> Iterator[Identified]:
    """Plants drawn at random, each identified from a trace of drawn length and noise."""
    draw = random.Random(draw_seed)
    for plant in drawn(number, draw_seed):
        samples, messages = draw.choice(SAMPLES), draw.choice(MESSAGES_A_SAMPLE)
        noisy = replace(plant, interval=messages / plant.phases[0].capacity)
        fit = fit_of(recorded(noisy, samples, draw.randrange(2**31)))
        yield Identified(noisy, samples, messages, fit)


def recorded(plant: TrialConsumer, samples: int, seed: int) -> list[Transition]:
    """The trace of a plant in its first phase, at levels in random order below its knee."""
    first = plant.phases[0]
    knee = first.handlers * (first.round_trip + first.work) / first.work
    levels = random_levels(
        min(0.5, knee / 4), max(TOP_SHARE_OF_KNEE * knee, 1.0), samples, seed=seed
    )
    rows: list[Transition] = []
    consumer = SimulatedConsumer(plant.scenario(), seed=seed)
    for _ in Loop(consumer, OpenLoop(levels), None, record=rows.append).run(samples + 1):
        pass
    return rows


def fit_of(rows: Sequence[Transition]) -> Fit:
    """What ``identification.identify`` finds in the rows of one group, without Spark."""
    limited = [row for row in rows if row.window_limited]
    u, y, y_next, interval = np.array(
        [(row.u, row.y, row.y_next, row.interval) for row in limited]
    ).T
    block = np.array([row.sample for row in limited]) // BLOCK_SAMPLES
    half = np.where((block - block // 4) % 2, SECOND_HALF, FIRST_HALF)
    part = np.where(block % 4 == 3, HELD_OUT, half)
    (parts, bins), into = distinct(part, np.rint(u).astype(np.int64))
    one, count = np.ones(len(limited)), len(parts)
    means, products = np.column_stack([u, y, y_next]), np.zeros((len(limited), 3, 3))
    cells = Cells(
        by=("group",),
        groups=[(limited[0].group,)],
        group=np.zeros(count, dtype=np.int64),
        part=parts,
        bin=bins,
        moments=merged(Moments(one.astype(np.int64), one, one, means, products), into, count),
        u_low=lowest(into, u, count),
        u_high=-lowest(into, -u, count),
        interval_sum=total(into, interval, count),
        interval_low=lowest(into, interval, count),
        interval_high=-lowest(into, -interval, count),
    )
    (fit,) = fit_groups(cells)
    return fit


def drawn_from(model: ArxModel, draw: random.Random) -> ArxModel:
    """A model of the set: ``a`` and ``b`` anywhere in their 95 % intervals."""
    intervals = model.confidence_intervals
    assert intervals is not None
    return replace(model, a=draw.uniform(*intervals.a), b=draw.uniform(*intervals.b))


def exceeded(found: Analysis, stated: Worst) -> dict[str, float]:
    """By which share of what was stated a loop is worse: 0.05 is 5 % more, below 0 is better.

    An unsettled or unstable loop is infinitely worse. Shares of an overshoot are those of at least
    1 % of the step: of about nothing they would mean nothing.
    """
    assert stated.settling_samples is not None
    worse = {"settling": math.inf, "margin": math.inf, "overshoot": math.inf}
    if found.settling_samples is not None:
        worse["settling"] = found.settling_samples / stated.settling_samples - 1
    if found.stable:
        worse["margin"] = 1 - found.modulus_margin / stated.modulus_margin
        least = max(stated.overshoot, LEAST_OVERSHOOT_PERCENT)
        worse["overshoot"] = (found.overshoot - stated.overshoot) / least
    return worse
