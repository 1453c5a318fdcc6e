"""Gain scheduling against the best single controller, where the service time jumps.

A consumer with four handlers, a broker 1 ms away and a goal of 400 msg/s; every 10 seconds its
work changes between 1 and 4 ms. The window is the limit at both, so one message of prefetch
adds 1/(round trip + work): 2.4 times as much at 1 ms as at 4 ms.

The schedule is designed once, deadbeat, from models identified at either service time. The
peer is the best of a whole grid of single PI and PID controllers, chosen with hindsight on the
very runs that both are compared on.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controlmq import (
    PID,
    ArxModel,
    Gains,
    InputError,
    Limits,
    Loop,
    Profile,
    Schedule,
    TraceWriter,
)
from controlmq.controllers import OpenLoop, build_schedule, random_levels
from controlmq.student import mean_interval
from simulator import (
    Scenario,
    SimulatedConsumer,
)
from tests.known.jumping_work import (
    FAST,
    SLOW,
    deadbeat,
    faster_published,
    jumping,
    tracking_error,
    working,
)

SEEDS = range(1, 21)


LIMITS = Limits(0.1, 4.0)
"""Messages. With four in flight all four handlers may be busy: the end of the line."""


@dataclass(frozen=True)
class Run:
    """One closed loop of the comparison; without gains, the scheduled one."""

    scenario: Scenario
    schedule: Schedule
    gains: Gains | None
    seed: int


def run() -> dict[str, Any]:
    from identification.session import session

    with tempfile.TemporaryDirectory() as folder, session() as spark:
        models = identified(spark, Path(folder))
        schedule = Schedule(
            [Profile({"service_time": at}, deadbeat(model)) for at, model in models.items()]
        )
        compared = errors(spark, schedule)
    scheduled = compared.pop(None)
    best, single = min(compared.items(), key=lambda item: sum(item[1]))
    assert best is not None
    paired = [ours - theirs for ours, theirs in zip(scheduled, single, strict=True)]
    difference = mean_interval(paired)
    return {
        "peer": f"the best of {len(compared)} single PI and PID controllers, with hindsight",
        "unit": "IAE in messages over 300 samples of 1 s",
        "models": {f"{1000 * at:g} ms": {"a": m.a, "b": m.b} for at, m in models.items()},
        "seeds": len(SEEDS),
        "scheduled": asdict(mean_interval(scheduled)),
        "best_single": asdict(mean_interval(single)) | asdict(best),
        "difference": asdict(difference),
        "ratio": statistics.fmean(scheduled) / statistics.fmean(single),
        "interval_excludes_zero": difference.high < 0,
    }


def identified(spark: Any, folder: Path) -> dict[float, ArxModel]:
    """A model for either service time, each from its own open-loop experiment."""
    from identification import identify

    with TraceWriter(folder) as writer:
        for time in (FAST, SLOW):
            levels = random_levels(0.5, LIMITS.high / 2, 200, seed=7)
            plant = SimulatedConsumer(faster_published(working(time)), seed=7)
            loop = Loop(plant, OpenLoop(levels), 1.0, record=writer, group=str(time))
            list(loop.run(len(levels) + 1))
    models = {}
    for fit in identify(spark, folder, linear_range="all"):
        if fit.model is None:
            raise InputError(f"no model at {fit.group} s: {fit.reason}")
        models[float(fit.group)] = fit.model
    return models


def singles() -> list[Gains]:
    """Gains around what either workload asks for, in thousandths of a message per msg/s."""
    kp = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0)
    ki = (0.8, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0)
    kd = (-0.4, 0.0, 0.4)
    return [Gains(p / 1e3, i / 1e3, d / 1e3) for p, i, d in itertools.product(kp, ki, kd)]


def errors(spark: Any, schedule: Schedule) -> dict[Gains | None, list[float]]:
    """The tracking error of the schedule (under None) and of every single law, seed by seed."""
    from identification.parallel import over

    scenario = jumping()
    laws: list[Gains | None] = [None, *singles()]
    runs = [Run(scenario, schedule, gains, seed) for gains in laws for seed in SEEDS]
    found: dict[int, float] = {}
    for number, error in over(spark, error_of, runs):
        found[number] = error
        if len(found) % 500 == 0:
            print(f"  {len(found)} of {len(runs)} loops", file=sys.stderr)
    return {
        gains: [found[index * len(SEEDS) + k] for k in range(len(SEEDS))]
        for index, gains in enumerate(laws)
    }


def error_of(each: Run) -> float:
    if each.gains is None:
        return tracking_error(each.scenario, build_schedule(each.schedule, LIMITS), each.seed)
    return tracking_error(each.scenario, PID(each.gains, LIMITS), each.seed)
