"""What the fit says of fleets whose truth is known: generated, and simulated event by event.

The generated fleet obeys ``y(k+1) = a*y(k) + b*min(u(k), knee) + c`` plus noise: how often do 95 %
intervals hold the truth, how far off are the knees, are groups that tell nothing refused for the
right reason? The simulated one knows no model: does what was fitted predict the rate on which a
consumer settles at prefetches that it was never fitted on?
"""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from identification import Fit
    from simulator import Scenario

GROUPS = 2_000
ROWS = 400
HIGHEST = 40
UNIDENTIFIABLE = 50
"""Groups of each kind that cannot be identified."""
GIVEN_RANGE = (1.0, 10.0)
"""Messages of prefetch: below every knee of the fleet."""
COVERAGE_WANTED = (0.93, 0.97)
SIMULATED = 40
HELD_OUT_LEVELS = (0.25, 0.45, 0.65)
"""Where predictions are tested, as shares of the knee."""

CAUSES = {
    "constant": "constant prefetch",
    "ramp": "ramp",
    "dead": "dead consumer",
    "ten": "too few rows",
}
"""Kinds of groups that cannot be identified, and what has to be said of them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """What the generated consumers are, one entry each."""

    a: Floats
    b: Floats
    c: Floats
    knee: Floats


def truth(groups: int, seed: int) -> Truth:
    rng = np.random.default_rng(seed)
    return Truth(
        rng.uniform(0, 0.9, groups),
        rng.uniform(20, 100, groups),
        rng.uniform(-20, 50, groups),
        rng.uniform(11, 30, groups),
    )


def driven(fleet: Truth, levels: Floats, seed: int) -> Floats:
    """The rates of all consumers driven through their levels, the first settled."""
    rng = np.random.default_rng(seed)
    rates = np.empty((len(fleet.a), levels.shape[1] + 1))
    rates[:, 0] = (fleet.b * 5 + fleet.c) / (1 - fleet.a)
    for k in range(levels.shape[1]):
        heard = fleet.b * np.minimum(levels[:, k], fleet.knee) + fleet.c
        noise = fleet.b * rng.normal(0, 1, len(fleet.a))
        rates[:, k + 1] = fleet.a * rates[:, k] + heard + noise
    return rates


def write_groups(path: Path, names: list[str], levels: Floats, rates: Floats) -> None:
    """One Parquet file of transitions."""
    groups, rows = levels.shape
    samples = np.tile(np.arange(rows), groups)
    columns: dict[str, Any] = {
        "group": np.repeat(names, rows),
        "trace": ["t"] * (groups * rows),
        "sample": samples,
        "time": samples * 1.0,
        "interval": np.ones(groups * rows),
        "u": levels.ravel(),
        "y": rates[:, :-1].ravel(),
        "y_next": rates[:, 1:].ravel(),
        "window_limited": np.ones(groups * rows, dtype=bool),
    }
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    pq.write_table(table, path)


def generate(folder: Path, groups: int, unidentifiable: int, seed: int) -> Truth:
    """Write a fleet: ``groups`` that can be identified and some of each kind that cannot."""
    rng = np.random.default_rng(seed)
    fleet = truth(groups, seed + 1)
    levels = rng.integers(1, HIGHEST + 1, (groups, ROWS)).astype(float)
    names = [f"good-{number:05d}" for number in range(groups)]
    write_groups(folder / "good.parquet", names, levels, driven(fleet, levels, seed + 2))

    some = truth(unidentifiable, seed + 3)
    straight = replace(some, knee=np.full(unidentifiable, np.inf))
    ramp = np.repeat(np.arange(1.0, HIGHEST + 1), ROWS // HIGHEST)[None].repeat(unidentifiable, 0)
    constant = rng.integers(2, 20, (unidentifiable, 1)).repeat(ROWS, 1).astype(float)
    free = rng.integers(1, HIGHEST + 1, (unidentifiable, ROWS)).astype(float)
    kinds = {
        "constant": (constant, driven(some, constant, seed + 4)),
        "ramp": (ramp, driven(straight, ramp, seed + 5)),
        "dead": (free, np.zeros((unidentifiable, ROWS + 1))),
        "ten": (free[:, :9], driven(some, free[:, :9], seed + 6)),
    }
    for kind, (driven_by, rates) in kinds.items():
        called = [f"{kind}-{number:05d}" for number in range(unidentifiable)]
        write_groups(folder / f"{kind}.parquet", called, driven_by, rates)
    return fleet


def coverage(fits: list[Fit], fleet: Truth) -> dict[str, float]:
    """The share of groups whose 95 % interval holds the truth, for each of a, b and c."""
    held: dict[str, list[bool]] = {"a": [], "b": [], "c": []}
    for number, fit in enumerate(fits):
        for name, hits in held.items():
            low, high = (
                getattr(fit.estimates.intervals, name) if fit.estimates else (np.nan, np.nan)
            )
            hits.append(bool(low <= getattr(fleet, name)[number] <= high))
    return {name: statistics.fmean(hits) for name, hits in held.items()}


def judged(spark: SparkSession, folder: Path, fleet: Truth) -> dict[str, Any]:
    """What the fit makes of a generated fleet."""
    from identification import identify

    found = identify(spark, folder)
    good = [fit for fit in found if fit.group.startswith("good")]
    given = identify(spark, folder / "good.parquet", linear_range=GIVEN_RANGE)
    off = np.array(
        [
            abs(fit.knee.prefetch - knee) / knee if fit.knee else np.inf
            for fit, knee in zip(good, fleet.knee, strict=True)
        ]
    )
    said = Counter(
        (fit.group.split("-")[0], str(fit.cause))
        for fit in found
        if not fit.group.startswith("good")
    )
    return {
        "groups": len(good),
        "models": sum(fit.model is not None for fit in good),
        "coverage_range_found": coverage(good, fleet),
        "coverage_range_given": coverage(given, fleet),
        "knee_within_10_percent": float(np.mean(off < 0.1)),
        "knee_within_10_percent_a_below_half": float(np.mean(off[fleet.a < 0.5] < 0.1)),
        "refused": {
            kind: {"groups": said.total() // len(CAUSES), "for_this_reason": said[kind, cause]}
            for kind, cause in CAUSES.items()
        },
    }


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
