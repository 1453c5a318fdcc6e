"""Rows per second of the fit beside a grouped sum of the same columns, and beside ``lead()``.

One Spark session on two cores. The peer adds up the columns that the fit reads and nothing else;
``lead()`` is the obvious way from samples to transitions: a window over every trace, in order.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import peak_memory, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS = 5_000
SIZES = {"1M": 1_000_000, "10M": 10_000_000, "50M": 50_000_000}
WARM_UPS = 6
ROUNDS = 5
GROWTH_ROUNDS = 3
TARGET_BY_CASE = {"without_range": 0.5, "with_range_and_held_out": 0.35}
READ = {
    "without_range": ("interval", "u", "y", "y_next", "window_limited"),
    "with_range_and_held_out": ("sample", "interval", "u", "y", "y_next", "window_limited"),
}
MEMORY = (
    "import sys; from benchmarks.identification_speed import memory_of_a_fit; "
    "print(memory_of_a_fit(sys.argv[1]))"
)


def write_fleet(spark: SparkSession, folder: Path, rows: int) -> str:
    """Transitions of 5,000 consumers, clustered by consumer as ``controlmq ingest`` leaves them."""
    from pyspark.sql import functions as F  # noqa: N812

    each = rows // GROUPS
    number = F.floor(F.col("id") / each)
    sample = F.col("id") % each
    u = F.floor(F.rand(2) * 40) + 1.0
    y = F.randn(3) * 300 + 900
    answer = (0.1 + 0.05 * (number % 10)) * y + (50 + 5 * (number % 7)) * F.least(u, F.lit(25.0))
    spark.range(0, rows, 1, 16).select(
        F.format_string("consumer-%05d", number).alias("group"),
        F.lit("t").alias("trace"),
        sample.alias("sample"),
        (sample * 2.0).alias("time"),
        (F.rand(5) * 0.1 + 2.0).alias("interval"),
        u.alias("u"),
        y.alias("y"),
        (answer - 20 + F.randn(1) * 30).alias("y_next"),
        (F.rand(4) > 0.02).alias("window_limited"),
    ).write.parquet(str(folder))
    return str(folder)


def fit(spark: SparkSession, path: str, name: str) -> Callable[[], object]:
    """The job that is measured, from files to models."""
    from identification import identify

    if name == "without_range":
        return lambda: identify(spark, path, linear_range="all", held_out=0.0)
    return lambda: identify(spark, path)


def peer(frame: DataFrame, name: str) -> Callable[[], object]:
    """The grouped sum of the columns that a fit reads."""
    from pyspark.sql import functions as F  # noqa: N812

    sums = [F.sum(F.col(c).cast("double")) for c in READ[name]]
    return lambda: frame.groupBy("group").agg(*sums).toArrow()


def by_lead(frame: DataFrame) -> Callable[[], object]:
    """The same sums of products as a fit needs, from samples in order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    order = Window.partitionBy("group", "trace").orderBy("sample")
    rows = frame.select("group", "u", "y", F.lead("y").over(order).alias("y_next"))
    names = ("u", "y", "y_next")
    products = [
        F.sum(F.col(first) * F.col(second))
        for place, first in enumerate(names)
        for second in names[place:]
    ]
    sums = [F.sum(name) for name in names]
    return lambda: rows.groupBy("group").agg(F.count("*"), *sums, *products).toArrow()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """All works once a round, so that what else the machine does falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work))
    return times


def memory_of_a_fit(path: str) -> float:
    """Megabytes that Python holds at most while it fits the fleet at ``path``, Spark apart."""
    from identification import identify
    from identification.session import session

    with session("local[2]") as spark:
        identify(spark, path)
    return peak_memory()


def run() -> dict[str, Any]:
    from identification.session import session

    with tempfile.TemporaryDirectory() as folder:
        with session("local[2]") as spark:
            paths = {n: write_fleet(spark, Path(folder, n), rows) for n, rows in SIZES.items()}
            result = _measure(spark, paths)
        result["driver_memory_mb"] = {
            name: float(
                subprocess.run(
                    [sys.executable, "-c", MEMORY, paths[name]],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for name in SIZES
        }
    return result


def _measure(spark: SparkSession, paths: dict[str, str]) -> dict[str, Any]:
    def works(size: str) -> dict[str, Callable[[], object]]:
        frame = spark.read.parquet(paths[size])
        pairs: dict[str, Callable[[], object]] = {}
        for name in TARGET_BY_CASE:
            pairs[f"peer_{name}"] = peer(frame, name)
            pairs[name] = fit(spark, paths[size], name)
        return pairs

    in_turn(works("10M"), WARM_UPS)
    large = in_turn(works("50M"), ROUNDS)
    growth = {
        "1M": in_turn(works("1M"), GROWTH_ROUNDS),
        "10M": in_turn(works("10M"), GROWTH_ROUNDS),
        "50M": large,
    }
    frame = spark.read.parquet(paths["10M"])
    beside = {"lead": by_lead(frame), "peer": peer(frame, "without_range")}
    in_turn(beside, 1)
    lead = in_turn(beside, 3)
    return {
        "rows": SIZES["50M"],
        "groups": GROUPS,
        "rows_per_second": {
            name: spread([SIZES["50M"] / t for t in times]) for name, times in large.items()
        },
        "share_of_peer": {
            name: {
                "wanted": wanted,
                **spread(
                    [
                        other / own
                        for other, own in zip(large[f"peer_{name}"], large[name], strict=True)
                    ]
                ),
            }
            for name, wanted in TARGET_BY_CASE.items()
        },
        "lead_share_of_peer_10M": spread(
            [other / own for other, own in zip(lead["peer"], lead["lead"], strict=True)]
        ),
        "seconds": {
            size: {name: spread(values)["median"] for name, values in times.items()}
            for size, times in growth.items()
        },
    }
