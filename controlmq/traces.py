"""Traces: transitions in Parquet files, written so that no half-written file is ever read.

A trace folder holds any number of Parquet files with the columns of :data:`COLUMNS`.
:class:`TraceWriter` writes each file beside its final name, hidden behind a leading dot
(Spark and pyarrow pass such names over), and renames it when it is complete.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from controlmq.errors import InputError
from controlmq.extras import need
from controlmq.loop import Transition
from controlmq.replacing import new_file

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: dict[str, tuple[str, str]] = {
    "group": ("string", "the consumer (or any class of them) that gets a model of its own"),
    "trace": ("string", "one recording, within which sample numbers count up"),
    "sample": ("int64", "number k of the sample that y belongs to"),
    "time": ("double", "end of sample k, seconds (of a live consumer: since 1970)"),
    "interval": ("double", "length of the interval in which y_next was counted, seconds"),
    "u": ("double", "prefetch in force during that interval, messages"),
    "y": ("double", "arrival rate counted in sample k, messages/second"),
    "y_next": ("double", "arrival rate counted in sample k+1, messages/second"),
    "window_limited": ("bool", "whether the window, not an empty queue, set both rates"),
}
"""The columns of a trace: name, Arrow type, meaning. No value may be null."""

PROFILE_COLUMNS: dict[str, tuple[str, str]] = {
    "publish_rate_band": ("double", "centre of the band of messages/second published, 0: unknown"),
    "message_size_band": ("double", "centre of the band of bytes of a message, 0: unknown"),
    "service_time_band": ("double", "centre of the band of seconds in the handler, 0: unknown"),
}
"""Columns that a trace may have beyond those, to identify a model for each workload by."""

assert [*COLUMNS, *PROFILE_COLUMNS] == [field.name for field in fields(Transition)]


def schema(columns: Mapping[str, tuple[str, str]] = COLUMNS) -> pa.Schema:
    """The Arrow schema of a trace, meanings included as field metadata."""
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    return pa.schema(
        [
            pa.field(name, types[kind], nullable=False, metadata={"meaning": meaning})
            for name, (kind, meaning) in columns.items()
        ]
    )


class TraceWriter:
    """Writes transitions into a folder, a file for every ``rows_per_file`` of them.

    Use it as a context manager, or call :meth:`close`: rows are on disk once their file is
    full or the writer is closed. With ``every_row`` the whole file is written again with each
    row: a process that dies loses the interval it was in and no other. Two writers may share a
    folder.

    Rows that cannot be written, on a full disk say, are kept for the next attempt, up to
    ``rows_per_file``; beyond that the oldest are lost, so that memory is bounded.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        rows_per_file: int = 10_000,
        every_row: bool = False,
    ) -> None:
        need("pyarrow", "recording")
        if rows_per_file < 1:
            raise InputError(f"rows_per_file is {rows_per_file}; give 1 or more.")
        self.folder = Path(folder)
        self.rows_per_file = rows_per_file
        self.every_row = every_row
        self._rows: list[Transition] = []
        self._run = uuid.uuid4().hex[:12]
        self._files = 0
        self._unwritten = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the trace folder {folder}: {error}") from None

    def __call__(self, transition: Transition) -> None:
        """Add one row."""
        if len(self._rows) >= self.rows_per_file:
            del self._rows[0]
        self._rows.append(transition)
        self._unwritten = True
        full = len(self._rows) >= self.rows_per_file
        if self.every_row or full:
            self.flush()
        if full:
            self._files += 1
            self._rows = []

    def flush(self) -> None:
        """Write the file under way with the rows it has so far."""
        if self._unwritten:
            path = self.folder / f"{self._run}-{self._files:06d}.parquet"
            write_transitions(path, self._rows)
            self._unwritten = False

    def close(self) -> None:
        """Write what is left."""
        self.flush()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def write_transitions(path: Path, transitions: Sequence[Transition]) -> None:
    """Write one Parquet file: hidden until complete, then renamed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(
        [asdict(row) for row in transitions], schema=schema(COLUMNS | PROFILE_COLUMNS)
    )
    with new_file(path) as file:
        pq.write_table(table, file)


def trace_files(path: str | os.PathLike[str]) -> list[Path]:
    """The complete Parquet files of a trace: a file, or a folder and those below it."""
    root = Path(path)
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise InputError(f"there is no trace at {path}; give a Parquet file or a folder of them.")
    if not os.access(root, os.R_OK | os.X_OK):
        raise InputError(f"the trace folder {path} may not be read; change its permissions.")
    files = complete_files(root)
    if not files:
        raise InputError(f"the trace folder {path} holds no Parquet file; record a trace first.")
    return files


def complete_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and below, in order, without those still being written."""
    return sorted(
        file
        for file in folder.rglob("*.parquet")
        if file.is_file() and not any(p[0] in "._" for p in file.relative_to(folder).parts)
    )


def read_transitions(path: str | os.PathLike[str]) -> pa.Table:
    """All transitions of a trace as one Arrow table, columns and values checked."""
    need("pyarrow", "recording")
    import pyarrow as pa

    return pa.concat_tables([_read_file(file) for file in trace_files(path)])


TAKEN_FOR = {
    "string": {"string", "large_string", "string_view"},
    "int64": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"},
    "double": {"double", "float", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"},
    "bool": {"bool"},
}
"""Arrow types that hold the values of a column as well as its own type, and are cast to it."""


def check_columns(source: str, given: Iterable[tuple[str, str]]) -> None:
    """Refuse a file whose columns, as (name, Arrow type), cannot be those of a trace."""
    types = dict(given)
    missing = [name for name in COLUMNS if name not in types]
    if missing:
        raise InputError(
            f"{source} has no column {', '.join(missing)}; a trace needs {', '.join(COLUMNS)}."
        )
    for name, (kind, _) in COLUMNS.items():
        if types[name] not in TAKEN_FOR[kind]:
            raise InputError(f"{source}: column {name} is of type {types[name]}; {kind} is needed.")


def _read_file(file: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} is not a readable Parquet file: {error}") from None
    check_columns(str(file), [(field.name, str(field.type)) for field in table.schema])
    table = table.select(list(COLUMNS))
    table = table.cast(pa.schema([pa.field(f.name, f.type) for f in schema()]))
    for name, (kind, _) in COLUMNS.items():
        column = table[name]
        if column.null_count:
            raise InputError(f"{file}: column {name} has {column.null_count} empty values.")
        if kind == "double" and not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise InputError(f"{file}: column {name} has NaN or infinite values; remove the rows.")
    if table.num_rows:
        if pc.min(table["u"]).as_py() < 0:
            raise InputError(f"{file}: column u has values below 0; give 0 or more.")
        if pc.min(table["interval"]).as_py() <= 0:
            raise InputError(f"{file}: column interval has values of 0 or less; give above 0.")
    return table
