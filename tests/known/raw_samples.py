"""Raw samples with rows that are spoilt in every known way, and what must come of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

SPOILT = {
    "not a number": ("rate", "fast"),
    "missing value": ("prefetch", ""),
    "NaN or infinite": ("rate", "NaN"),
    "negative rate": ("rate", "-3.5"),
    "prefetch out of range": ("prefetch", "70000"),
    "bad timestamp": ("time", "2026-13-45 99:00:00"),
    "bad sample number": ("sample", "1.5"),
}
"""What is wrong with a bad row, and how it is made so. Beside these there are lines with too few
fields, lines with too many, and samples that come twice."""


MALFORMED = ("7,only four,fields,here", "a,b,c,d,e,f,g,h,i")


@dataclass(frozen=True)
class Written:
    """A file of raw samples, and what must come of it."""

    samples: int
    quarantined: dict[str, int]
    traces: int
    gaps: int
    transitions: int
    good: NDArray[np.bool_]
    """Which samples can be used, a row for each group."""
    prefetch: NDArray[np.float64]
    rate: NDArray[np.float64]


def write_samples(path: Path, groups: int, each: int, bad_share: float, seed: int) -> Written:
    """Write a CSV file of ``groups`` consumers with ``each`` samples, some spoilt in every way."""
    rng = np.random.default_rng(seed)
    total = groups * each
    prefetch = rng.integers(1, 40, total).astype(float)
    rate = np.round(prefetch * 80 + rng.normal(0, 40, total) + 500, 3)
    number = np.tile(np.arange(each), groups)
    columns = {
        "consumer": pa.array(np.char.add("c", np.arange(groups).astype(str))).take(
            np.repeat(np.arange(groups), each)
        ),
        "sample": pa.array(number).cast(pa.string()),
        "time": pa.array(1.7e9 + number * 2.0).cast(pa.string()),
        "prefetch": pa.array(prefetch).cast(pa.string()),
        "rate": pa.array(rate).cast(pa.string()),
    }
    kinds = [*SPOILT, "malformed line", "duplicate sample"]
    count = int(bad_share * total / len(kinds))
    picked = rng.choice(total, count * len(kinds), replace=False).reshape(len(kinds), count)
    for (name, value), places in zip(SPOILT.values(), picked, strict=False):
        columns[name] = _with(columns[name], places, [value] * count)
    lines = pc.binary_join_element_wise(*columns.values(), ",")
    malformed, twice = picked[-2], picked[-1]
    lines = _with(lines, malformed, [MALFORMED[i % 2] for i in range(count)])
    copies = pc.binary_join_element_wise(
        *(columns[name].take(twice) for name in ("consumer", "sample", "time", "prefetch")),
        pa.array(rate[twice] + 1).cast(pa.string()),
        ",",
    )
    with path.open("w") as file:
        file.write(",".join(columns) + "\n")
        for some in (lines, copies):
            for start in range(0, len(some), 1_000_000):
                file.write("\n".join(some.slice(start, 1_000_000).to_pylist()) + "\n")
    usable_rows = np.ones(total, dtype=bool)
    usable_rows[picked[:-1].ravel()] = False
    good = usable_rows.reshape(groups, each)
    pairs = good[:, :-1] & good[:, 1:]
    usable = int(good.sum())
    traces = int(good.any(axis=1).sum())
    return Written(
        samples=total + count,
        quarantined=dict.fromkeys(sorted(kinds), count),
        traces=traces,
        gaps=usable - traces - int(pairs.sum()),
        transitions=int(pairs.sum()),
        good=good,
        prefetch=prefetch.reshape(groups, each),
        rate=rate.reshape(groups, each),
    )


def _with(column: Any, places: NDArray[np.int64], values: list[str]) -> Any:
    """A column with some of its values replaced."""
    chosen = np.zeros(len(column), dtype=bool)
    chosen[places] = True
    order = np.argsort(places, kind="stable")
    return pc.replace_with_mask(column, pa.array(chosen), pa.array([values[i] for i in order]))
