"""What went wrong inside Spark, in one sentence instead of pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from controlmq.errors import ControlmqError, InputError

SENTENCES = {
    r"No space left on device|Disk quota exceeded": (
        "the disk is full; make room, or set SPARK_LOCAL_DIRS to one with more."
    ),
    r"Permission denied|AccessControlException": (
        "{path} may not be read or written; change its permissions."
    ),
    r"PARQUET_COLUMN_DATA_TYPE_MISMATCH|SchemaColumnConvertNotSupported"
    r"|CSV header does not conform|CANNOT_MERGE_SCHEMAS|_LEGACY_ERROR_TEMP_2075": (
        "{path} holds files whose columns differ; make them agree or ingest them apart."
    ),
    r"FAILED_READ_FILE|is not a Parquet file|CANNOT_READ_FILE_FOOTER": (
        "{path} holds a damaged Parquet file; record it again."
    ),
    r"No FileSystem for scheme|failed on connection exception|UnknownHostException": (
        "Spark knows no file system that answers at {path}; name another place."
    ),
    r"PATH_NOT_FOUND|FileNotFoundException|FILE_NOT_EXIST": (
        "there is no trace at {path}; give a Parquet file or a folder of them."
    ),
    r"Connection refused|stopped SparkContext|All masters are unresponsive|UNAVAILABLE": (
        "Spark is gone: its master or server no longer answers; start it again."
    ),
}
"""What Spark writes, as patterns in the order in which they are tried, and what to say instead.

A sentence about the path is an :class:`~controlmq.errors.InputError`.
"""


@contextmanager
def in_a_sentence(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what Spark raises about ``path`` into one sentence, where the user can fix it."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        # The cause, such as a full disk, may be only in the Java part of the message.
        said = f"{error}\n{getattr(error, '_stackTrace', '')}"
        for pattern, sentence in SENTENCES.items():
            if re.search(pattern, said):
                kind = InputError if "{path}" in sentence else ControlmqError
                raise kind(sentence.format(path=path)) from None
        raise
