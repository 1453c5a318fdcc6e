"""The Spark half: the rows of a batch that were not counted before, added to the statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from identification.aggregation import cells_of
from identification.continuous.running_statistics import ERA_COLUMN, Options, RunningStatistics
from identification.continuous.seen import Seen

CLOCK_AHEAD_SECONDS = 3600.0
"""Seconds by which the clock of a consumer may be ahead of ours. A row from further in the
future would make every other row old, so it is left out."""


@dataclass(frozen=True)
class Counts:
    """What became of the rows of a batch: ``new`` ones were added to the statistics.

    ``repeated`` ones had been counted before, ``forgotten`` ones are too old to count.
    ``unplaced`` ones lack a group, a trace, a sample number or a time that can be.
    """

    new: int = 0
    repeated: int = 0
    forgotten: int = 0
    unplaced: int = 0


def absorb(
    state: RunningStatistics, transitions: DataFrame, now: float
) -> tuple[RunningStatistics, Counts]:
    """``state`` with those rows added that were not counted before, and what became of all.

    ``now`` is the time, seconds since 1970. Absorbing the same rows again changes nothing: that
    is what makes it safe to repeat a batch.
    """
    options = state.options
    rows, placed, kept = _count(state, transitions, now)
    young = transitions.where(_placed(options, now) & _kept(state)).withColumn(
        ERA_COLUMN, _era(options)
    )
    single = young.dropDuplicates([*options.trace_columns, "sample"]).persist()
    try:
        batch = _spans(single, options)
        latest = batch.latest
        if latest is None:
            return state, Counts(forgotten=placed - kept, unplaced=rows - placed)
        moved = state.moved_on(options.era(latest))
        known = state.seen.overlapping(batch)
        new = batch.samples() - known.shared(batch)
        if new:
            fresh = _without(single, known, options).where(_kept(moved))
            cells = cells_of(fresh, options.sorting(moved.reference))
            moved = moved.with_rows(cells, batch)
    finally:
        single.unpersist()
    return moved, Counts(new, kept - new, placed - kept, rows - placed)


def _count(state: RunningStatistics, transitions: DataFrame, now: float) -> tuple[int, int, int]:
    """How many rows there are, how many have their place, and how many of these are not too old."""
    placed = _placed(state.options, now)
    counts = transitions.agg(
        F.count("*"), F.count_if(placed), F.count_if(placed & _kept(state))
    ).first()
    assert counts is not None
    return int(counts[0]), int(counts[1]), int(counts[2])


def _placed(options: Options, now: float) -> Column:
    named = [F.col(f"`{name}`").isNotNull() for name in (*options.trace_columns, "sample")]
    # Spark orders NaN above infinity, so the comparison excludes it.
    timed = (F.col("time") > float("-inf")) & (F.col("time") <= now + CLOCK_AHEAD_SECONDS)
    return F.coalesce(reduce(and_, named) & timed, F.lit(False))


def _era(options: Options) -> Column:
    return F.floor(F.col("time") / options.era_length)


def _kept(state: RunningStatistics) -> Column:
    if state.oldest is None:
        return F.lit(True)
    return _era(state.options) >= state.oldest


def _spans(rows: DataFrame, options: Options) -> Seen:
    """The spans of sample numbers in rows of which none is there twice.

    Within a span the sample number less the row's own number is the same for all.
    """
    names = options.trace_columns
    place = F.row_number().over(Window.partitionBy(*names).orderBy("sample"))
    table = (
        rows.select(*names, "sample", "time", (F.col("sample") - place).alias("_run"))
        .groupBy(*names, "_run")
        .agg(
            F.min("sample").alias("low"),
            F.max("sample").alias("high"),
            F.max("time").alias("latest"),
        )
        .toArrow()
    )
    return Seen.from_arrow(table, names)


def _without(rows: DataFrame, known: Seen, options: Options) -> DataFrame:
    """The rows that are in none of the spans."""
    if not known.spans:
        return rows
    names = options.trace_columns
    renamed = {name: f"_known_{name}" for name in names}
    table = known.to_arrow(names).rename_columns([*renamed.values(), "low", "high", "latest"])
    spans = F.broadcast(rows.sparkSession.createDataFrame(table))
    same = [rows[name] == spans[other] for name, other in renamed.items()]
    inside = rows["sample"].between(spans["low"], spans["high"])
    return rows.join(spans, reduce(and_, same) & inside, "left_anti")
