"""A generated fleet whose models are known, and how well a fit finds them."""

from __future__ import annotations

import statistics
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


ROWS = 400


HIGHEST = 40


GIVEN_RANGE = (1.0, 10.0)
"""Messages of prefetch: below every knee of the fleet."""


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
