"""Which raw samples cannot be used, and why: a good row is never lost because of a bad one."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from controlmq.checks import MOST_PREFETCH
from identification.aggregation import MOST_RATE
from identification.raw import MALFORMED, NAMES

NUMBERS = ("sample", "interval", "prefetch", "rate")

UNPARSED = {
    **dict.fromkeys(NUMBERS, "not a number"),
    "time": "bad timestamp",
    "window_limited": "not true or false",
}
"""The reason against a value that cannot be parsed, by its column."""


Reason: TypeAlias = tuple[str, str, Column]
"""A reason, the column it is about, and when it holds."""


def judged(raw: DataFrame, there: Collection[str]) -> DataFrame:
    """The raw samples with their values parsed (``parsed.*``), and ``reason`` and ``column``.

    ``there`` are the parts of a sample that the sources have; the others are parsed to null
    and not reported as missing. A good sample's reason is null.
    """
    parsed = raw.select("*", F.struct(*_parsed(there)).alias("parsed"))
    what = F.lit(None).cast("string")
    column = F.lit(None).cast("string")
    for reason, about, condition in reversed(_reasons(there)):
        holds = F.coalesce(condition, F.lit(False))
        what = F.when(holds, reason).otherwise(what)
        column = F.when(holds, about).otherwise(column)
    return parsed.select("*", what.alias("reason"), column.alias("column"))


def _parsed(there: Collection[str]) -> list[Column]:
    """Every value in its type, null where it is none."""

    def text(name: str) -> Column:
        return F.trim(name) if name in there else F.lit(None).cast("string")

    moment = F.try_to_timestamp(text("time")).cast("double")
    return [
        *(text(name).try_cast("double").alias(name) for name in NUMBERS),
        F.coalesce(text("time").try_cast("double"), moment).alias("time"),
        text("window_limited").try_cast("boolean").alias("window_limited"),
    ]


def _reasons(there: Collection[str]) -> list[Reason]:
    """All reasons, the first that holds first."""
    reasons: list[Reason] = [("malformed line", "", F.col(MALFORMED).isNotNull())]
    present = [name for name in NAMES if name in there]
    empty = {name: F.coalesce(F.trim(name) == "", F.lit(True)) for name in present}
    reasons += [("missing value", name, missing) for name, missing in empty.items()]
    for name in present:
        value = F.col(f"parsed.{name}")
        if name in UNPARSED:
            reasons.append((UNPARSED[name], name, value.isNull()))
        if name in (*NUMBERS, "time"):
            reasons.append(("NaN or infinite", name, ~(F.abs(value) < F.lit(float("inf")))))
    prefetch, rate = F.col("parsed.prefetch"), F.col("parsed.rate")
    sample, interval = F.col("parsed.sample"), F.col("parsed.interval")
    whole = (sample >= 0) & (sample <= 2**53) & (sample == F.floor(sample))
    return [
        *reasons,
        ("negative rate", "rate", rate < 0),
        ("rate beyond any real one", "rate", rate > MOST_RATE),
        ("prefetch out of range", "prefetch", (prefetch < 0) | (prefetch > MOST_PREFETCH)),
        ("bad sample number", "sample", ~whole),
        ("bad interval", "interval", interval <= 0),
    ]
