"""Traces as Spark reads them: from a folder of this machine or any file system Spark knows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name the PySpark docs use)

from controlmq.errors import InputError
from controlmq.replacing import Here
from controlmq.traces import COLUMNS, check_columns, trace_files

SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double", "bool": "boolean"}
ARROW_NAMES = {
    "string": "string",
    "bigint": "int64",
    "int": "int32",
    "smallint": "int16",
    "tinyint": "int8",
    "double": "double",
    "float": "float",
    "boolean": "bool",
}
"""Spark's names for types, and what Arrow and our messages call them."""

Kinds: TypeAlias = tuple[tuple[str, str], ...]
"""The names and Arrow types of a file's columns."""

GLOB_CHARACTERS = str.maketrans({mark: f"\\{mark}" for mark in "\\*?[]{}"})


def read_traces(
    spark: SparkSession, path: str | os.PathLike[str], by: Sequence[str] = ("group",)
) -> DataFrame:
    """The transitions at ``path``, with the columns ``by`` too; columns are checked and cast.

    A path with a scheme (``hdfs://...``) is Spark's to read. Otherwise it is a Parquet file or a
    folder of them, in which files may differ in their columns' types as long as all can be cast.
    """
    if "://" in str(path):
        return as_traces(spark.read.parquet(str(path)), by)
    if not Path(path).exists():
        Here(path).restore()
    refuse_unreadable(Path(path))
    return read_files(spark, {file: columns_of(file, by) for file in trace_files(path)}, by)


def refuse_unreadable(path: Path) -> None:
    """Refuse a folder that may not be listed: its files would be silently skipped."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, PermissionError):  # a file, or nothing there
            return
        raise InputError(f"the folder {error.filename} may not be read; change its permissions.")

    for folder, below, _ in os.walk(path, onerror=refuse):
        below[:] = [name for name in below if name[0] not in "._"]
        if not os.access(folder, os.X_OK):
            refuse(PermissionError(0, "", folder))


def read_files(
    spark: SparkSession, files: Mapping[Path, Kinds], by: Sequence[str] = ("group",)
) -> DataFrame:
    """The transitions in some files, whose columns are those that :func:`columns_of` says."""
    alike: dict[Kinds, list[Path]] = {}
    for file, kinds in files.items():
        alike.setdefault(kinds, []).append(file)
    parts = [as_traces(_read(spark, names, kinds), by) for kinds, names in alike.items()]
    return reduce(DataFrame.unionByName, parts)


def columns_of(file: Path, by: Sequence[str]) -> Kinds:
    """The names and types of a file's columns, refusing what is no trace."""
    try:
        schema = pq.read_schema(file)
    except PermissionError:
        raise InputError(f"{file} may not be read; change its permissions.") from None
    except (OSError, pa.ArrowException):
        raise InputError(f"{file} is not a readable Parquet file; remove it.") from None
    kinds = tuple((field.name, str(field.type)) for field in schema)
    _check(str(file), kinds, by)
    return kinds


def _check(source: str, kinds: Sequence[tuple[str, str]], by: Sequence[str]) -> None:
    check_columns(source, kinds)
    names = [name for name, _ in kinds]
    missing = [name for name in by if name not in names]
    if missing:
        raise InputError(
            f"{source} has no column {', '.join(missing)} to group by; it has {', '.join(names)}."
        )


def _read(spark: SparkSession, files: list[Path], kinds: Sequence[tuple[str, str]]) -> DataFrame:
    names = [str(file.absolute()).translate(GLOB_CHARACTERS) for file in files]
    if all(kind in SPARK_TYPES for _, kind in kinds):
        # The schema is known: naming it spares Spark a job that would look for it.
        schema = ", ".join(f"`{name}` {SPARK_TYPES[kind]}" for name, kind in kinds)
        return spark.read.schema(schema).parquet(*names)
    return spark.read.parquet(*names)


def as_traces(found: DataFrame, by: Sequence[str]) -> DataFrame:
    """Only the columns of a trace, in their types, and those to group by as they are."""
    _check("the trace", [(name, ARROW_NAMES.get(kind, kind)) for name, kind in found.dtypes], by)
    columns = [
        F.col(f"`{name}`").cast(SPARK_TYPES[kind]).alias(name)
        for name, (kind, _) in COLUMNS.items()
    ]
    return found.select(*columns, *(f"`{name}`" for name in by if name not in COLUMNS))
