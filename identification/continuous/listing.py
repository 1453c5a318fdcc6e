"""A folder as a stream: which complete files it holds, and which version of each.

Spark's own file source reads a path once. A consumer that must lose no row when it dies writes its
whole file again with every row, under the same name (:class:`~controlmq.traces.TraceWriter`), and
the file source would read the first row of each and skip the rest. So the stream carries the
names and versions of files; the batch reads those that are new to it. The offset is a
fingerprint of the whole listing, so that a checkpoint does not grow with the folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from controlmq.traces import complete_files

Version = tuple[str, str]
"""A file's path below the folder, and what changes whenever it is written again."""


def versions(folder: Path) -> Iterator[Version]:
    """The complete files in ``folder`` and below, in order, with their versions.

    A file that is replaced has another inode, whatever its time and size say. A folder that is
    gone or may not be read raises OSError.
    """
    os.scandir(folder).close()
    for file in complete_files(folder):
        try:
            about = file.stat()
        except FileNotFoundError:
            continue  # removed since it was listed
        version = f"{about.st_ino}-{about.st_mtime_ns}-{about.st_size}"
        yield str(file.relative_to(folder)), version


class FolderReader(SimpleDataSourceStreamReader):
    """Reads the listing whenever it has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Before anything was listed."""
        return {"turn": 0, "listing": ""}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Version], dict[str, Any]]:
        """The whole listing, if it is another than at ``start``."""
        found = list(versions(self.folder))
        fingerprint = hashlib.sha256(repr(found).encode()).hexdigest()
        if fingerprint == start["listing"]:
            return iter(()), start
        return iter(found), {"turn": start["turn"] + 1, "listing": fingerprint}

    def readBetweenOffsets(  # noqa: N802 (Spark's name)
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[Version]:
        """The listing as it is now: what was there then has been counted or still is there."""
        return versions(self.folder)


class FolderSource(DataSource):
    """The data source ``trace-folder``, to be registered with a session."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "trace-folder"

    def schema(self) -> str:
        """One row per file."""
        return "file string, version string"

    def simpleStreamReader(self, schema: Any) -> FolderReader:  # noqa: N802 (Spark's name)
        """The reader of the folder that ``load`` was given."""
        return FolderReader(Path(self.options["path"]))
