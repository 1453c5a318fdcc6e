"""The statistics of all rows so far: one value, one file, replaced as a whole.

Time is cut into eras of a few half-lives. A row belongs to the era of its own time, however late
it comes, and weighs ``2^((time - reference) / half_life)``; the reference is the end of the newest
era, so that weights never grow large. Statistics are kept per era and merged to be fitted. An era
that has become too old goes with everything it counted (rows, starved rows, the shortest interval,
the highest prefetch), which forgetting by weights alone would never let go of.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from controlmq.checks import above_zero
from controlmq.errors import InputError
from controlmq.files import read_json
from controlmq.replacing import write_atomically
from identification.aggregation import Sorting
from identification.continuous.seen import Seen
from identification.fit import Fit, fit_groups
from identification.job import checked_range
from identification.statistics import (
    BELOW_ZERO,
    EXTREMES,
    LEFT_OUT,
    UNSOUND,
    Cells,
    Forgetting,
    LinearRange,
    Moments,
)

ERA_HALF_LIVES = 5
"""Half-lives in an era."""

ERAS_KEPT = 5
"""Eras whose rows count, the newest included: a row counts until it is 20 to 25 half-lives old,
when it weighs a millionth of a new one."""

ERA_COLUMN = "_era"

FORMAT = "controlmq-statistics"
VERSION = 1


@dataclass(frozen=True)
class Options:
    """How rows become models. ``half_life`` is in seconds; the others are those of
    :func:`identification.identify`.
    """

    half_life: float
    by: tuple[str, ...] = ("group",)
    offset: bool = True
    linear_range: LinearRange = None
    held_out: float = 0.25

    def __post_init__(self) -> None:
        above_zero("the half-life", self.half_life)
        object.__setattr__(self, "by", tuple(self.by))
        object.__setattr__(self, "linear_range", checked_range(self.linear_range))
        self.sorting(0.0)

    def sorting(self, reference: float) -> Sorting:
        """How rows are sorted to be added up, era by era."""
        return Sorting(
            by=(*self.by, ERA_COLUMN),
            held_out=self.held_out,
            linear_range=self.linear_range,
            forgetting=Forgetting(self.half_life, reference),
        )

    @property
    def era_length(self) -> float:
        """Seconds."""
        return ERA_HALF_LIVES * self.half_life

    def era(self, time: float) -> int:
        """The number of the era in which ``time`` lies."""
        return math.floor(time / self.era_length)

    @property
    def trace_columns(self) -> tuple[str, ...]:
        """The columns that name a trace within which sample numbers count up."""
        return tuple(dict.fromkeys((*self.by, "trace")))


@dataclass(frozen=True)
class RunningStatistics:
    """What has been counted so far, and what of it is remembered.

    ``cells`` are statistics by group and era, with weights as of ``reference``. ``newest`` is the
    newest era of any row (None before the first). ``files`` are the versions of the files that
    were there when the last batch was read.
    """

    options: Options
    newest: int | None = None
    cells: Cells | None = None
    seen: Seen = field(default_factory=Seen)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> float:
        """The time at which a row weighs 1, seconds: the end of the newest era."""
        return 0.0 if self.newest is None else (self.newest + 1) * self.options.era_length

    @property
    def oldest(self) -> int | None:
        """The oldest era whose rows count."""
        return None if self.newest is None else self.newest - ERAS_KEPT + 1

    def moved_on(self, newest: int) -> RunningStatistics:
        """The same as of a newer era, without what has become too old."""
        if self.newest is not None and newest <= self.newest:
            return self
        moved = replace(self, newest=newest)
        assert moved.oldest is not None
        cells = self.cells
        if cells is not None:
            # Both references are floats that lie close: their distance, and with it the
            # factor, is exact, whatever was rounded when they were computed.
            forgetting = Forgetting(self.options.half_life, self.reference)
            factor = forgetting.ageing(moved.reference - self.reference)
            cells = _since(cells, moved.oldest).scaled(factor)
        # An era longer than its rows count, so that rounding at the border can do no harm.
        seen = self.seen.since((moved.oldest - 1) * self.options.era_length)
        return replace(moved, cells=cells, seen=seen)

    def with_rows(self, cells: Cells, counted: Seen) -> RunningStatistics:
        """With rows added, none of which was counted before."""
        merged = cells if self.cells is None else self.cells.merge(cells)
        return replace(self, cells=merged, seen=self.seen.union(counted))

    def statistics(self) -> Cells:
        """The statistics of every group over all its eras: those of one batch over all rows."""
        by = self.options.by
        if self.cells is None:
            return _no_cells(by)
        era_of = np.array([key[-1] for key in self.cells.groups], dtype=np.int64)
        tables = (
            self.cells.only(era_of[self.cells.group] == era).to_arrow() for era in np.unique(era_of)
        )
        eras = (Cells.from_arrow(table.drop_columns([ERA_COLUMN]), by) for table in tables)
        return reduce(Cells.merge, eras, _no_cells(by))

    def fits(self, statistics: Cells) -> list[Fit]:
        """A fit for every group, from what :meth:`statistics` gave.

        Rows that no consumer can have recorded are passed over: a batch job refuses the group
        and has the user remove them, here they may be gone from the disk already.
        """
        spoilt = (statistics.part == LEFT_OUT) & np.isin(statistics.bin, (UNSOUND, BELOW_ZERO))
        sound, options = statistics.only(~spoilt), self.options
        return fit_groups(sound, offset=options.offset, linear_range=options.linear_range)

    def save(self, path: Path) -> None:
        """Replace the file at ``path``: a zip of one JSON document and three Parquet tables."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            about = {"format": FORMAT, "version": VERSION}
            about |= {"options": asdict(self.options), "newest_era": self.newest}
            archive.writestr("about.json", json.dumps(about, indent=2) + "\n")
            if self.cells is not None:
                archive.writestr("cells.parquet", _bytes(self.cells.to_arrow()))
            seen = self.seen.to_arrow(self.options.trace_columns)
            archive.writestr("seen.parquet", _bytes(seen))
            files = {"file": list(self.files), "version": list(self.files.values())}
            schema = pa.schema([("file", pa.string()), ("version", pa.string())])
            archive.writestr("files.parquet", _bytes(pa.table(files, schema=schema)))
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> RunningStatistics:
        """What :meth:`save` wrote."""
        try:
            with zipfile.ZipFile(path) as archive:
                return cls._from_archive(archive, str(path))
        except (OSError, KeyError, TypeError, zipfile.BadZipFile, pa.ArrowException):
            raise InputError(
                f"{path} is not what was written there; remove its folder to count again."
            ) from None

    @classmethod
    def _from_archive(cls, archive: zipfile.ZipFile, source: str) -> RunningStatistics:
        about = read_json(archive.read("about.json").decode(), source, FORMAT, VERSION)
        options = Options(**about["options"])
        cells = None
        if "cells.parquet" in archive.namelist():
            cells = Cells.from_arrow(_table(archive, "cells"), (*options.by, ERA_COLUMN))
        seen = Seen.from_arrow(_table(archive, "seen"), options.trace_columns)
        files = _table(archive, "files")
        versions = zip(files["file"].to_pylist(), files["version"].to_pylist(), strict=True)
        return cls(options, about["newest_era"], cells, seen, dict(versions))


def start(path: Path, options: Options) -> RunningStatistics:
    """The state at ``path``, or an empty one; other options than it was made with are refused."""
    if not path.exists():
        return RunningStatistics(options)
    state = RunningStatistics.load(path)
    before, now = asdict(state.options), asdict(options)
    for name, value in before.items():
        if value != now[name]:
            raise InputError(
                f"the statistics in {path.parent} were made with {name} = {value}, not "
                f"{now[name]}; give that, or another checkpoint."
            )
    return state


def _since(cells: Cells, oldest: int) -> Cells:
    """The cells of that era and later ones; groups without any are gone."""
    era_of = np.array([key[-1] for key in cells.groups], dtype=np.int64)
    table = cells.only(era_of[cells.group] >= oldest).to_arrow()
    return Cells.from_arrow(table, cells.by)


def _no_cells(by: tuple[str, ...]) -> Cells:
    none, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
    moments = Moments(whole, none, none, np.zeros((0, 3)), np.zeros((0, 3, 3)))
    return Cells(by, [], whole, whole, whole, moments, *(none for _ in EXTREMES))


def _bytes(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _table(archive: zipfile.ZipFile, name: str) -> Any:
    return pq.read_table(io.BytesIO(archive.read(f"{name}.parquet")))
