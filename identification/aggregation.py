"""The Spark half: one grouped aggregation from transitions to statistics per group.

Spark's own central-moment aggregates (``var_pop``, ``covar_pop``) are used rather than
sums of shifted values: they are accurate without a shift, so that no pass over the data
and no join is needed to find one; that pass and join would cost more than the arithmetic.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from controlmq.checks import MOST_PREFETCH
from controlmq.errors import InputError
from controlmq.traces import COLUMNS, check_columns, trace_files
from identification.statistics import Floats, GroupStatistics

BLOCK = 5
"""Samples in a row that are held out together.

Neighbouring rows share a measurement (the y_next of one is the y of the other); rows held
out one by one would share all of theirs with the rows fitted, blocks of 5 only a fifth.
"""

FITTED, STARVED, BELOW_ZERO, UNSOUND = range(4)
"""What becomes of a row: fitted (or held out), or left out and counted under its reason."""

MOST_RATE = 1e12
"""Messages/second beyond which a rate is a mistake, and its square no longer a number."""

SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double", "bool": "boolean"}
VARIABLES = ("u", "y", "y_next")
GLOB_CHARACTERS = str.maketrans({mark: f"\\{mark}" for mark in "\\*?[]{}"})


def read_traces(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """The transitions at ``path``, a Parquet file or a folder of them, columns checked."""
    files = trace_files(path)
    for file in files:
        _check_file(file)
    # The schema is known: naming it spares Spark a job that would look for it.
    schema = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, (kind, _) in COLUMNS.items())
    names = [str(file.absolute()).translate(GLOB_CHARACTERS) for file in files]
    return spark.read.schema(schema).parquet(*names)


def aggregate(transitions: DataFrame, *, held_out: float, bin_width: float) -> DataFrame:
    """One row per cell: (group, kind of row, held out or not, bin of u), with its moments."""
    sound = F.coalesce(
        F.col("sample").isNotNull()
        & F.col("window_limited").isNotNull()
        & _finite("interval")
        & _finite("u")
        & (F.col("u") <= MOST_PREFETCH)
        & (F.abs(F.col("y")) <= MOST_RATE)
        & (F.abs(F.col("y_next")) <= MOST_RATE),
        F.lit(False),
    )
    kind = (
        F.when(~sound, UNSOUND)
        .when(F.col("u") < 0, BELOW_ZERO)
        .when(~F.col("window_limited"), STARVED)
        .otherwise(FITTED)
    )
    keyed = transitions.select(
        "group",
        kind.alias("kind"),
        is_held_out(F.col("sample"), held_out).alias("held_out"),
        # rint stays a double: a whole number could not hold the bin of an infinite u.
        F.rint(F.col("u") / bin_width).alias("bin"),
        "interval",
        *VARIABLES,
    )
    return keyed.groupBy("group", "kind", "held_out", "bin").agg(
        F.count("*").alias("count"),
        F.min("u").alias("u_low"),
        F.max("u").alias("u_high"),
        F.avg("interval").alias("interval_mean"),
        F.min("interval").alias("interval_low"),
        F.max("interval").alias("interval_high"),
        *(F.avg(name).alias(f"mean_{name}") for name in VARIABLES),
        *(_covariance(i, j) for i in range(3) for j in range(i, 3)),
    )


def is_held_out(sample: Column, share: float) -> Column:
    """Whether a row tests the model instead of shaping it, known from its number alone.

    Blocks of 5 consecutive samples are held out, spread evenly so that they make up
    ``share`` of all blocks: at 0.25 the fourth, the eighth, and so on. No random number and
    no count of the rows enters, so a row's side never changes as a trace grows.
    """
    block = F.floor(sample / BLOCK)
    return F.floor((block + 1) * F.lit(share)) > F.floor(block * F.lit(share))


def statistics(
    spark: SparkSession, path: str | os.PathLike[str], *, held_out: float, bin_width: float
) -> list[GroupStatistics]:
    """The statistics of every group in the traces at ``path``, groups in order."""
    cells = aggregate(read_traces(spark, path), held_out=held_out, bin_width=bin_width)
    try:
        table = cells.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        if "FAILED_READ_FILE" not in str(error):
            raise
        raise InputError(f"{path} holds a damaged Parquet file; record it again.") from None
    table = table.sort_by([(name, "ascending") for name in ("group", "bin", "held_out")])
    if table.num_rows == 0:
        raise InputError(f"the trace at {path} holds no rows; record one first.")
    if table["group"].null_count:
        raise InputError(f"{path} holds rows without a group; name the consumer in each.")
    groups = table["group"].to_numpy()
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1], True]).tolist()
    return [_group_statistics(table.slice(start, end - start)) for start, end in pairwise(starts)]


def _group_statistics(cells: pa.Table) -> GroupStatistics:
    kind, count = cells["kind"].to_numpy(), cells["count"].to_numpy()
    fitted = cells.filter(pa.array(kind == FITTED))

    def rows_of(wanted: int) -> int:
        return int(count[kind == wanted].sum())

    def column(name: str) -> Floats:
        return fitted[name].to_numpy().astype(float)

    products = np.empty((fitted.num_rows, 3, 3))
    for i in range(3):
        for j in range(i, 3):
            products[:, i, j] = products[:, j, i] = column(f"cov_{i}{j}") * column("count")
    return GroupStatistics(
        group=cells["group"][0].as_py(),
        rows=int(count.sum()),
        starved=rows_of(STARVED),
        unsound=rows_of(UNSOUND),
        below_zero=rows_of(BELOW_ZERO),
        held_out=fitted["held_out"].to_numpy().astype(bool),
        bin=column("bin"),
        count=fitted["count"].to_numpy().astype(np.int64),
        mean=np.column_stack([column(f"mean_{name}") for name in VARIABLES]),
        products=products,
        u_low=column("u_low"),
        u_high=column("u_high"),
        interval_mean=column("interval_mean"),
        interval_low=column("interval_low"),
        interval_high=column("interval_high"),
    )


def _check_file(file: Path) -> None:
    try:
        schema = pq.read_schema(file)
    except (OSError, pa.ArrowException):
        raise InputError(f"{file} is not a readable Parquet file; remove it.") from None
    check_columns(str(file), [(field.name, str(field.type)) for field in schema])


def _finite(name: str) -> Column:
    # Spark orders NaN above infinity, so one comparison excludes both.
    return F.abs(F.col(name)) < F.lit(float("inf"))


def _covariance(i: int, j: int) -> Column:
    first, second = VARIABLES[i], VARIABLES[j]
    value = F.var_pop(first) if i == j else F.covar_pop(first, second)
    return value.alias(f"cov_{i}{j}")
