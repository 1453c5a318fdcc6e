"""Which raw samples cannot be used, and why: a good row is never lost because of a bad one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from controlmq.checks import MOST_PREFETCH
from identification.aggregation import MOST_RATE
from identification.raw import MALFORMED, NAMES

REASONS = (
    "malformed line",
    "missing value",
    "not a number",
    "NaN or infinite",
    "negative rate",
    "rate beyond any real one",
    "prefetch out of range",
    "bad timestamp",
    "bad sample number",
    "bad interval",
    "not true or false",
    "duplicate sample",
)
"""Why a sample may be put in quarantine."""

NUMBERS = ("sample", "interval", "prefetch", "rate")


@dataclass(frozen=True)
class Reason:
    """A reason, the column it is about, and when it holds."""

    what: str
    column: str
    holds: Column

    def __post_init__(self) -> None:
        assert self.what in REASONS


def judged(raw: DataFrame, there: Collection[str]) -> DataFrame:
    """The raw samples with their values parsed (``parsed.*``), and ``reason`` and ``column``.

    ``there`` are the parts of a sample that the sources have; the others are parsed to null
    and not reported as missing. A good sample's reason is null.
    """
    parsed = raw.select("*", F.struct(*_parsed(there)).alias("parsed"))
    what = F.lit(None).cast("string")
    column = F.lit(None).cast("string")
    for reason in reversed(_reasons(there)):
        holds = F.coalesce(reason.holds, F.lit(False))
        what = F.when(holds, reason.what).otherwise(what)
        column = F.when(holds, reason.column).otherwise(column)
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
    reasons = [Reason("malformed line", "", F.col(MALFORMED).isNotNull())]
    present = [name for name in NAMES if name in there]
    reasons += [
        Reason("missing value", name, F.coalesce(F.trim(name) == "", F.lit(True)))
        for name in present
    ]
    for name in present:
        value = F.col(f"parsed.{name}")
        if name in NUMBERS:
            reasons.append(Reason("not a number", name, value.isNull()))
        elif name == "time":
            reasons.append(Reason("bad timestamp", name, value.isNull()))
        elif name == "window_limited":
            reasons.append(Reason("not true or false", name, value.isNull()))
        if name in (*NUMBERS, "time"):
            infinite = ~(F.abs(value) < F.lit(float("inf")))
            reasons.append(Reason("NaN or infinite", name, infinite))
    prefetch, rate = F.col("parsed.prefetch"), F.col("parsed.rate")
    sample, interval = F.col("parsed.sample"), F.col("parsed.interval")
    return [
        *reasons,
        Reason("negative rate", "rate", rate < 0),
        Reason("rate beyond any real one", "rate", rate > MOST_RATE),
        Reason("prefetch out of range", "prefetch", (prefetch < 0) | (prefetch > MOST_PREFETCH)),
        Reason(
            "bad sample number",
            "sample",
            (sample < 0) | (sample > 2**53) | (sample != F.floor(sample)),
        ),
        Reason("bad interval", "interval", interval <= 0),
    ]
