"""A folder of any Hadoop file system (``hdfs://...``) that is replaced as a whole.

It does what :mod:`controlmq.replacing` does on this machine, through Spark's own Java. There are no
locks: the next run into the same folder removes what a run that died left there, and two runs at
the same time into one folder disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from controlmq.errors import ControlmqError, InputError
from controlmq.replacing import BEFORE, NEW, hidden_name, is_hidden_name


class Elsewhere:
    """The folder at an address with a scheme."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise InputError(
                f"behind Spark Connect nothing can be written to {address}; name a folder that "
                "this machine shares with the server, or run with a --master."
            )
        java: Any = spark._jvm
        context: Any = spark._jsc
        self._path = java.org.apache.hadoop.fs.Path
        given = self._path(address)
        self._files = given.getFileSystem(context.hadoopConfiguration())
        self.folder = self._files.makeQualified(given)

    def names(self) -> list[str]:
        """What is in the folder, nothing if there is none."""
        there = self._files.exists(self.folder)
        return [path.getName() for path in self._inside(self.folder)] if there else []

    def write(self, address: str, text: str) -> None:
        """Write a small file."""
        stream = self._files.create(self._path(address), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    @contextmanager
    def replacement(self) -> Iterator[str]:
        """A hidden folder to write in, whose ``out`` takes the place of this one at the end.

        If the block raises, the folder stays as it was.
        """
        hidden = self._path(self.folder.getParent(), hidden_name(self.folder.getName()))
        self._files.mkdirs(hidden)
        try:
            yield str(hidden)
            if self._files.exists(self.folder):
                self._rename(self.folder, self._path(hidden, BEFORE))
            self._rename(self._path(hidden, NEW), self.folder)
        finally:
            self._put_back(hidden)
            self._files.delete(hidden, True)

    def restore(self) -> None:
        """Put back what a run that died had moved away, and remove what else it left."""
        parent, name = self.folder.getParent(), self.folder.getName()
        for hidden in self._inside(parent) if self._files.exists(parent) else []:
            if is_hidden_name(hidden.getName(), name):
                self._put_back(hidden)
                self._files.delete(hidden, True)

    def _inside(self, folder: Any) -> list[Any]:
        return [status.getPath() for status in self._files.listStatus(folder)]

    def _put_back(self, hidden: Any) -> None:
        before = self._path(hidden, BEFORE)
        if not self._files.exists(self.folder) and self._files.exists(before):
            self._rename(before, self.folder)

    def _rename(self, here: Any, there: Any) -> None:
        if not self._files.rename(here, there):
            raise ControlmqError(f"{here} could not be renamed to {there}; see its permissions.")
