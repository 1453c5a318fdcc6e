"""Raw samples as they were written, every value still a string: CSV, JSON lines or Parquet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from controlmq.errors import InputError
from identification.reading import GLOB_CHARACTERS, refuse_unreadable

FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
"""How a file is read, by the end of its name; ``.gz`` may follow."""

NAMES = ("group", "trace", "sample", "time", "interval", "prefetch", "rate", "window_limited")
"""What a sample may consist of; ``group``, ``prefetch``, ``rate`` and one of ``sample`` and
``time`` must be there."""

MALFORMED = "_malformed"
"""The text of a line that is no record, null for all others."""

KEEP_MALFORMED: dict[str, Any] = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}


@dataclass(frozen=True)
class Columns:
    """Which columns of the raw files hold what.

    ``named`` maps the :data:`NAMES` to raw columns of another name. ``keep`` are raw columns that
    transitions keep as they are, to group by.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    keep: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in self.named:
            if name not in NAMES:
                raise InputError(
                    f"{name!r} is no part of a sample; name one of {', '.join(NAMES)}."
                )
        taken = [name for name in self.keep if name in NAMES or name in ("u", "y", "y_next")]
        if taken:
            raise InputError(f"{taken[0]!r} is a column of transitions already; do not keep it.")

    @property
    def kept(self) -> dict[str, str]:
        """The kept columns by the names they have until they are written, unlike any other."""
        return {f"_kept_{place}": name for place, name in enumerate(dict.fromkeys(self.keep))}

    def found(self, given: Sequence[str], source: str) -> dict[str, str]:
        """The raw column of every part of a sample that the source has."""
        absent = [raw for raw in (*self.named.values(), *self.keep) if raw not in given]
        if absent:
            raise InputError(f"{source} has no column {absent[0]!r}; it has {', '.join(given)}.")
        columns = {name: self.named.get(name, name) for name in NAMES}
        there = {name: raw for name, raw in columns.items() if raw in given}
        missing = [name for name in ("group", "prefetch", "rate") if name not in there]
        if "sample" not in there and "time" not in there:
            missing.append("sample or time")
        if missing:
            raise InputError(
                f"{source} has no column {missing[0]}; it has {', '.join(given)}: say which is "
                f"meant with --column {missing[0].split()[0]}=NAME."
            )
        return there


@dataclass(frozen=True)
class Raw:
    """Raw samples: a string for each part of a sample in ``there`` and each kept column (named as
    in ``Columns.kept``), the text of lines that are no record, and the file they come from."""

    rows: DataFrame
    there: tuple[str, ...]


def read_raw(spark: SparkSession, paths: Sequence[str | os.PathLike[str]], columns: Columns) -> Raw:
    """The raw samples at all paths, which must agree in what a sample consists of."""
    by_format: dict[str, list[str]] = {}
    for path in paths:
        for file, kind in _files(path):
            by_format.setdefault(kind, []).append(file)
    parts = [_read(spark, kind, files, columns) for kind, files in by_format.items()]
    for part in parts[1:]:
        differing = sorted({*parts[0].there} ^ {*part.there})
        if differing:
            raise InputError(
                f"some files have a column {differing[0]} and others do not; ingest them apart."
            )
    return Raw(reduce(DataFrame.unionByName, [part.rows for part in parts]), parts[0].there)


def _files(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The files at a path and how to read each."""
    if "://" in str(path):
        return [(str(path), _format(Path(str(path))))]
    root = Path(path)
    if root.is_dir():
        refuse_unreadable(root)
        files = sorted(
            file
            for file in root.rglob("*")
            if all(part[0] not in "._" for part in file.relative_to(root).parts) and file.is_file()
        )
        if not files:
            raise InputError(f"the folder {root} holds no file; give one with raw samples.")
    elif root.exists():
        files = [root]
    else:
        raise InputError(f"there is no file at {root}; give CSV, JSON lines or Parquet.")
    for file in files:
        if not os.access(file, os.R_OK):
            raise InputError(f"{file} may not be read; change its permissions.")
    return [(str(file.absolute()).translate(GLOB_CHARACTERS), _format(file)) for file in files]


def _format(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
    kind = FORMATS.get(suffixes[-1] if suffixes else "")
    if kind is None:
        raise InputError(f"{file} ends in none of {', '.join(FORMATS)}; rename it.")
    return kind


def _read(spark: SparkSession, kind: str, files: list[str], columns: Columns) -> Raw:
    source = files[0] if len(files) == 1 else f"{files[0]} (the first of {len(files)} files)"
    if kind == "parquet":
        raw = spark.read.option("mergeSchema", True).parquet(*files)
        given = raw.columns
        raw = raw.withColumn(MALFORMED, F.lit(None).cast("string"))
    elif kind == "csv":
        given = spark.read.csv(files[:1], header=True).columns
        # Column pruning would pass over lines with too few or too many fields.
        reader = spark.read.schema(_strings(given)).option("columnPruning", False)
        raw = reader.csv(files, header=True, enforceSchema=False, **KEEP_MALFORMED)
    else:
        # Where keys come and go from line to line, the first lines need not have them all.
        given = spark.read.option("primitivesAsString", True).json(files).columns
        given = [name for name in given if name != "_corrupt_record"]
        reader = spark.read.schema(_strings(given))
        raw = reader.json(files, **KEEP_MALFORMED)
    there = columns.found(given, source)
    rows = raw.select(
        *(F.col(f"`{column}`").cast("string").alias(name) for name, column in there.items()),
        *(F.col(f"`{raw}`").cast("string").alias(name) for name, raw in columns.kept.items()),
        F.col(MALFORMED),
        F.col("_metadata.file_path").alias("file"),
    )
    return Raw(rows, tuple(there))


def _strings(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}` string" for name in (*names, MALFORMED))
