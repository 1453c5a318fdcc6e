"""From raw samples to transitions, clustered by group, with what cannot be used set apart.

    OUT/part-*.parquet     transitions: what ``controlmq identify OUT`` reads
    OUT/_quarantine/       raw samples that cannot be used, each with its reason
    OUT/_ingested.json     the counts, written last: a folder without it is not complete

Everything is written beside OUT under a hidden name and renamed when it is complete, so that a
run that fails or is stopped leaves OUT as it was, and running again gives the same
(:mod:`controlmq.replacing`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from controlmq.checks import above_zero, finite
from controlmq.errors import InputError
from controlmq.replacing import NEW, Here
from controlmq.traces import COLUMNS
from identification.elsewhere import Elsewhere
from identification.failures import in_a_sentence
from identification.quarantine import judged
from identification.raw import MALFORMED, Columns, Raw, read_raw
from identification.reading import GLOB_CHARACTERS, SPARK_TYPES

SUMMARY = "_ingested.json"
QUARANTINE = "_quarantine"

GAP_FACTOR = 1.5
"""Times the usual distance between samples from which on two are not neighbours."""


@dataclass(frozen=True)
class Ingested:
    """What became of the raw samples.

    ``samples`` were read; ``quarantined`` of them, by reason, were set apart. Of the others each
    but the last before an end or a gap makes a transition:
    ``samples = sum(quarantined) + transitions + traces + gaps``. A gap is a sample number left
    out, or a distance in time of more than 1.5 times the usual (or less than that part of it).
    """

    samples: int
    transitions: int
    traces: int
    gaps: int
    quarantined: dict[str, int]


def ingest(
    spark: SparkSession,
    sources: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    columns: Columns | None = None,
    interval: float | None = None,
    gap: float = GAP_FACTOR,
) -> Ingested:
    """Write the transitions in raw samples to the folder ``out``; a scheme says where else it is.

    ``interval`` is the length of a sample in seconds where the samples do not say it, by a column
    or by their times. Two samples further apart than ``gap`` times what is usual in their trace
    make no transition.
    """
    columns = columns or Columns()
    if interval is not None:
        above_zero("interval", interval)
    if finite("gap", gap) <= 1:
        raise InputError(f"gap is {gap:g}; give more than 1.")
    read = str(sources[0]) if len(sources) == 1 else f"one of {len(sources)} places to read"
    with in_a_sentence(out):
        target: Elsewhere | Here
        target = Elsewhere(spark, str(out)) if "://" in str(out) else Here(out)
        target.restore()
        names = target.names()
        if names and SUMMARY not in names:
            raise InputError(f"{out} holds files that ingest did not write; name another --out.")
        with target.replacement() as hidden, in_a_sentence(read):
            raw = read_raw(spark, sources, columns)
            done = _write(spark, raw, hidden, columns, interval, gap)
            target.write(f"{hidden}/{NEW}/{SUMMARY}", json.dumps(asdict(done), indent=2) + "\n")
    return done


def _write(
    spark: SparkSession, raw: Raw, hidden: str, columns: Columns, interval: float | None, gap: float
) -> Ingested:
    """Read the raw samples once, into good and bad ones; then make transitions of the good."""
    there = raw.there
    parsed, out = f"{hidden}/parsed", f"{hidden}/{NEW}"
    quarantine = f"{out}/{QUARANTINE}"
    _parse(raw.rows, there, columns).write.partitionBy("bad").parquet(parsed)
    everything = _written(spark, parsed)
    bad, good = (everything.where(F.col("bad") == flag) for flag in (1, 0))
    samples = _numbered(good, there, columns, interval)
    copies = samples.where(F.col("copy") > 1)
    first = bad.select("reason", "column", "raw", "file")
    second = copies.select(
        F.lit("duplicate sample").alias("reason"),
        F.lit("sample" if "sample" in there else "time").alias("column"),
        F.to_json(F.struct("group", "trace", "sample", "time", "prefetch", "rate")).alias("raw"),
        "file",
    )
    first.unionByName(second).coalesce(1).write.parquet(quarantine)
    transitions = _transitions(samples.where(F.col("copy") == 1), there, columns, interval, gap)
    transitions.write.parquet(out, mode="append")

    counts = _written(spark, quarantine).groupBy("reason").count().collect()
    found = {row["reason"]: row["count"] for row in counts}
    made = _written(spark, out).count()
    total = everything.count()
    traces = good.select("group", "trace").distinct().count()
    left = total - sum(found.values())
    return Ingested(total, made, traces, left - made - traces, dict(sorted(found.items())))


def _written(spark: SparkSession, folder: str) -> DataFrame:
    """What was written to a folder; a name is a pattern to Spark when it reads."""
    return spark.read.parquet(folder.translate(GLOB_CHARACTERS))


def _parse(raw: DataFrame, there: Sequence[str], columns: Columns) -> DataFrame:
    """Every sample in its types, or its text and the reason against it."""
    bad = F.col("reason").isNotNull()
    kept = (F.col(name).alias(called) for name, called in columns.kept.items())
    text = F.coalesce(F.col(MALFORMED), F.to_json(F.struct(*there, *kept)))
    numbers = ("time", "interval", "prefetch", "rate")
    return judged(raw, there).select(
        "reason",
        "column",
        F.when(bad, text).alias("raw"),
        "file",
        F.trim("group").alias("group"),
        (F.trim("trace") if "trace" in there else F.lit("")).alias("trace"),
        F.col("parsed.sample").try_cast("bigint").alias("sample"),
        *(F.col(f"parsed.{name}").alias(name) for name in numbers),
        F.coalesce(F.col("parsed.window_limited"), F.lit(True)).alias("window_limited"),
        *columns.kept,
        bad.cast("int").alias("bad"),
    )


def _numbered(
    good: DataFrame, there: Sequence[str], columns: Columns, interval: float | None
) -> DataFrame:
    """The good samples in order, with which copy of its number or time each is.

    All of a group go to one partition, where they stay for everything that follows.
    """
    if "time" not in there:
        if interval is None and "interval" not in there:
            raise InputError("the samples have neither time nor interval; give --interval SECONDS.")
        length = F.coalesce(F.col("interval"), F.lit(interval))
        good = good.withColumn("time", (F.col("sample") + 1) * length)
    key = "sample" if "sample" in there else "time"
    values = ("time", "prefetch", "rate", "interval", "window_limited", *columns.kept)
    same = Window.partitionBy("group", "trace", key).orderBy(*values, "file")
    return good.repartition("group").withColumn("copy", F.row_number().over(same))


def _transitions(
    samples: DataFrame, there: Sequence[str], columns: Columns, interval: float | None, gap: float
) -> DataFrame:
    """One row for every two samples that are neighbours."""
    trace = Window.partitionBy("group", "trace")
    order = trace.orderBy("sample" if "sample" in there else "time")

    def following(name: str) -> Column:
        return F.lead(name).over(order)

    distance = F.col("next_time") - F.col("time")
    if "sample" not in there:
        samples = samples.withColumn("sample", F.row_number().over(order) - 1)
    names = ("sample", "time", "interval", "prefetch", "rate", "window_limited")
    pairs = samples.select("*", *(following(name).alias(f"next_{name}") for name in names))
    if "time" in there:
        usual = F.percentile_approx(distance, 0.5).over(trace)
        pairs = pairs.withColumn("usual", usual)
        neighbours = (distance < gap * F.col("usual")) & (distance > F.col("usual") / gap)
    else:
        neighbours = F.lit(True)
    if "sample" in there:
        neighbours &= F.col("next_sample") == F.col("sample") + 1
    if "interval" in there:
        length = F.col("next_interval")
    else:
        length = distance if interval is None else F.lit(interval)
    values = {
        "interval": length,
        "u": F.col("next_prefetch"),
        "y": F.col("rate"),
        "y_next": F.col("next_rate"),
        "window_limited": F.col("window_limited") & F.col("next_window_limited"),
    }
    rows = pairs.where(F.col("next_rate").isNotNull() & neighbours & (length > 0))
    return rows.select(
        *(
            values.get(name, F.col(name)).cast(SPARK_TYPES[kind]).alias(name)
            for name, (kind, _) in COLUMNS.items()
        ),
        *(F.col(name).alias(called) for name, called in columns.kept.items()),
    ).sortWithinPartitions("group", "trace", "sample")
