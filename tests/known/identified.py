"""Models identified from simulated traces: by the same statistics and fit as on Spark."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controlmq.controllers import Limits, OpenLoop, build, random_levels
from controlmq.controllers.controller_file import Tuning
from controlmq.design.analysis import RESPONSE_SAMPLES, Analysis, analyse
from controlmq.design.robust import Worst
from controlmq.loop import Loop, Sample, Transition
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


MOST_TIMES_START = 1e6
"""A rate that grows by more is unstable. P on another consumer than its own rests at another rate,
but not at so many times the one where it began."""

REST_SAMPLES, STEP_SHARE = 400, 0.01
"""Samples for which a law finds its rest before its goal moves by this share of itself."""

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


def law_run(tuning: Tuning, consumer: ArxModel) -> Analysis:
    """The analysis on a consumer, with stability, settling and overshoot from running the law.

    The law itself moves the prefetch, and the equation of the consumer says what rate follows. A
    constant of the equation only shifts where that happens, so it is 0 here.
    """
    analysis = analyse(tuning, consumer)
    consumer = replace(consumer, c=0.0)
    law = build(replace(tuning, model=replace(tuning.model, c=0.0)), Limits(0.0, 1e9))
    goal = start = 1000 * consumer.gain
    rate, prefetch = start, consumer.prefetch_for(start)
    rates = []
    for number in range(REST_SAMPLES + RESPONSE_SAMPLES):
        # Rates are real numbers here: an interval that makes arrivals / interval exact.
        sample = Sample(number, float(number), 1000 / rate, prefetch, 1000)
        if number == REST_SAMPLES:
            goal = (1 + STEP_SHARE) * start
        rates.append(rate)
        prefetch = law(sample, goal)
        rate = consumer.next_rate(rate, prefetch)
        if not 0 < rate < MOST_TIMES_START * start:
            return replace(analysis, stable=False, settling_samples=None, overshoot=math.inf)
    rest = rates[REST_SAMPLES]
    response = [(each - rest) / (STEP_SHARE * start) for each in rates[REST_SAMPLES:]]
    final = 1.0 if tuning.gains.ki else response[-1]
    off = [k for k, each in enumerate(response) if abs(each - final) > 0.02 * abs(final)]
    settled = off[-1] + 1 if off else 0
    early, late = response[: RESPONSE_SAMPLES // 2], response[RESPONSE_SAMPLES // 2 :]
    swings = [max(part) - min(part) for part in (early, late)]
    return replace(
        analysis,
        # At the low limit, an unstable loop swings for ever, and no wider.
        stable=2 * swings[1] < swings[0],
        settling_samples=settled if settled < RESPONSE_SAMPLES else None,
        overshoot=100 * max(0.0, max(response) - final),
    )


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
