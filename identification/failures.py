"""What went wrong inside Spark, in one sentence instead of pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from controlmq.errors import ControlmqError, InputError

DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
FORBIDDEN = re.compile(r"Permission denied|AccessControlException")
DAMAGED = re.compile(r"FAILED_READ_FILE|is not a Parquet file|CANNOT_READ_FILE_FOOTER")
MISSING = re.compile(r"PATH_NOT_FOUND|FileNotFoundException|FILE_NOT_EXIST")
SCHEMA = re.compile(
    r"PARQUET_COLUMN_DATA_TYPE_MISMATCH|SchemaColumnConvertNotSupported"
    r"|CSV header does not conform|CANNOT_MERGE_SCHEMAS|_LEGACY_ERROR_TEMP_2075"
)
NO_FILE_SYSTEM = re.compile(
    r"No FileSystem for scheme|failed on connection exception|UnknownHostException"
)
GONE = re.compile(
    r"Connection refused|stopped SparkContext|All masters are unresponsive|UNAVAILABLE"
)


@contextmanager
def in_a_sentence(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what Spark raises about ``path`` into one sentence, where the user can fix it."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        # The cause, such as a full disk, may be only in the Java part of the message.
        said = f"{error}\n{getattr(error, '_stackTrace', '')}"
        raise _sentence(said, path) or error from None


def _sentence(said: str, path: str | os.PathLike[str]) -> ControlmqError | None:
    if DISK_FULL.search(said):
        return ControlmqError(
            "the disk is full; make room, or set SPARK_LOCAL_DIRS to one with more."
        )
    if FORBIDDEN.search(said):
        return InputError(f"{path} may not be read or written; change its permissions.")
    if SCHEMA.search(said):
        return InputError(
            f"{path} holds files whose columns differ; make them agree or ingest them apart."
        )
    if DAMAGED.search(said):
        return InputError(f"{path} holds a damaged Parquet file; record it again.")
    if NO_FILE_SYSTEM.search(said):
        return InputError(f"Spark knows no file system that answers at {path}; name another place.")
    if MISSING.search(said):
        return InputError(f"there is no trace at {path}; give a Parquet file or a folder of them.")
    if GONE.search(said):
        return ControlmqError(
            "Spark is gone: its master or server no longer answers; start it again."
        )
    return None
