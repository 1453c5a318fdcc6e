"""What the fit says of fleets whose truth is known: generated, and simulated event by event.

The generated fleet obeys ``y(k+1) = a*y(k) + b*min(u(k), knee) + c`` plus noise: how often do 95 %
intervals hold the truth, how far off are the knees, are groups that tell nothing refused for the
right reason? The simulated one knows no model: does what was fitted predict the rate on which a
consumer settles at prefetches that it was never fitted on?
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.known.fleet import (
    ROWS,
    generate,
    judged,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from simulator import Scenario

GROUPS = 2_000
UNIDENTIFIABLE = 50
"""Groups of each kind that cannot be identified."""
COVERAGE_WANTED = (0.93, 0.97)
SIMULATED = 40
HELD_OUT_LEVELS = (0.25, 0.45, 0.65)
"""Where predictions are tested, as shares of the knee."""


def consumer(number: int) -> Scenario:
    """One of a fleet of consumers: other work, other way to the broker, other handlers."""
    from simulator import load_scenario
    from simulator.scenario.distributions import Duration

    rng = np.random.default_rng(number)
    scenario = load_scenario("rosa")
    kind = str(rng.choice(["deterministic", "exponential", "lognormal"]))
    work = float(rng.uniform(0.0008, 0.003))
    return replace(
        scenario,
        sample_interval=2.0,
        consumers=[
            replace(
                scenario.consumers[0],
                handlers=int(rng.integers(1, 4)),
                work=Duration(
                    mean=work, distribution=kind, sd=work / 2 if kind == "lognormal" else None
                ),
            )
        ],
        links=[replace(scenario.links[0], round_trip=float(rng.uniform(0.01, 0.03)))],
    )


def busy_at(scenario: Scenario) -> float:
    """The prefetch at which all handlers would be busy all the time."""
    (one,) = scenario.consumers
    service = one.work.mean + one.overhead
    return one.handlers * (1 + scenario.links[0].round_trip / service)


def record(folder: Path, number: int) -> dict[float, float]:
    """Record one simulated consumer; returns its rates at levels that are not in the trace."""
    from controlmq.controllers import OpenLoop
    from controlmq.loop import Loop
    from controlmq.traces import TraceWriter
    from simulator import SimulatedConsumer

    scenario = consumer(number)
    top = busy_at(scenario)
    rng = np.random.default_rng(number)
    tested = sorted({max(1.0, float(round(share * top))) for share in HELD_OUT_LEVELS})
    free = [float(u) for u in range(1, int(1.5 * top) + 2) if u not in tested]
    levels = [float(u) for u in rng.choice(free, ROWS)]
    name = f"simulated-{number:03d}"
    with TraceWriter(folder) as writer:
        plant = SimulatedConsumer(scenario, seed=number)
        loop = Loop(plant, OpenLoop(levels), levels[0], record=writer, group=name, trace="levels")
        for _ in loop.run(len(levels) + 1):
            pass
    settled = {}
    for level in tested:
        plant = SimulatedConsumer(scenario, seed=number + 1)
        steps = list(Loop(plant, OpenLoop([level] * 60), level).run(60))
        settled[level] = statistics.fmean(step.sample.rate for step in steps[10:])
    return settled


def predicted(spark: SparkSession, folder: Path, consumers: int) -> dict[str, Any]:
    """Predictions of the fitted models beside what the simulator settles on."""
    from identification import identify

    settled = [record(folder, number) for number in range(consumers)]
    fits = identify(spark, folder)
    errors = [
        abs(fit.model.rate_at(level) - rate) / rate
        for fit, rates in zip(fits, settled, strict=True)
        if fit.model is not None
        for level, rate in rates.items()
        if fit.model.linear_range[0] <= level <= fit.model.linear_range[1]
    ]
    return {
        "consumers": consumers,
        "models": sum(fit.model is not None for fit in fits),
        "predictions": len(errors),
        "median_error": statistics.median(errors),
        "worst_tenth_error": float(np.quantile(errors, 0.9)),
    }


def run() -> dict[str, Any]:
    from identification.session import session

    with session("local[2]") as spark, tempfile.TemporaryDirectory() as folder:
        generated, simulated = Path(folder, "generated"), Path(folder, "simulated")
        generated.mkdir()
        fleet = generate(generated, GROUPS, UNIDENTIFIABLE, seed=1)
        return {
            "generated": judged(spark, generated, fleet),
            "coverage_wanted": COVERAGE_WANTED,
            "simulated": predicted(spark, simulated, SIMULATED),
        }
