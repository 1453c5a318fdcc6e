"""Which samples of which trace have been counted, so that none is counted twice.

Sample numbers count up within a trace, so a whole trace is one run, ``low`` to ``high``, however
long it gets; a gap or a file that is late makes a second. That is what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa

Trace: TypeAlias = tuple[Any, ...]
"""The values of the columns that name a trace: those of its group, and its own."""


@dataclass(frozen=True, slots=True)
class Run:
    """Samples ``low`` to ``high`` of one trace, all counted; ``latest`` is the time of the last."""

    low: int
    high: int
    latest: float

    def __len__(self) -> int:
        return self.high - self.low + 1

    def overlap(self, other: Run) -> int:
        """How many samples are in both."""
        return max(0, min(self.high, other.high) - max(self.low, other.low) + 1)


@dataclass(frozen=True)
class Seen:
    """The runs of every trace, in order and apart from each other."""

    runs: Mapping[Trace, tuple[Run, ...]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Trace, Run]]:
        return ((trace, run) for trace, runs in self.runs.items() for run in runs)

    def overlapping(self, others: Seen) -> Seen:
        """Those of these runs that share a sample with one of the others."""
        shared = {
            trace: tuple(
                run for run in self.runs.get(trace, ()) if any(run.overlap(other) for other in runs)
            )
            for trace, runs in others.runs.items()
        }
        return Seen({trace: runs for trace, runs in shared.items() if runs})

    def samples(self) -> int:
        """How many samples there are in all runs."""
        return sum(len(run) for _, run in self)

    def shared(self, others: Seen) -> int:
        """How many samples are in both."""
        return sum(
            run.overlap(other)
            for trace, runs in others.runs.items()
            for run in self.runs.get(trace, ())
            for other in runs
        )

    def union(self, others: Seen) -> Seen:
        """The samples of both."""
        changed = {
            trace: _joined([*self.runs.get(trace, ()), *runs])
            for trace, runs in others.runs.items()
        }
        return Seen({**self.runs, **changed})

    def since(self, time: float) -> Seen:
        """Without the runs whose last sample is earlier than ``time``."""
        kept = {
            trace: tuple(run for run in runs if run.latest >= time)
            for trace, runs in self.runs.items()
        }
        return Seen({trace: runs for trace, runs in kept.items() if runs})

    @property
    def latest(self) -> float | None:
        """The time of the latest sample of all."""
        return max((run.latest for _, run in self), default=None)

    def to_arrow(self, names: Sequence[str]) -> pa.Table:
        """One row per run, for a file or a join; ``names`` are the columns that name a trace."""
        rows = list(self)
        columns: dict[str, Any] = {
            name: [trace[i] for trace, _ in rows] for i, name in enumerate(names)
        }
        columns["low"] = pa.array([run.low for _, run in rows], pa.int64())
        columns["high"] = pa.array([run.high for _, run in rows], pa.int64())
        columns["latest"] = pa.array([run.latest for _, run in rows], pa.float64())
        return pa.table(columns)

    @classmethod
    def from_arrow(cls, table: pa.Table, names: Sequence[str]) -> Seen:
        """The runs in a table with the columns that :meth:`to_arrow` gives it, in any order."""
        traces = zip(*(table[name].to_pylist() for name in names), strict=True)
        columns = (table[name].to_pylist() for name in ("low", "high", "latest"))
        runs = (Run(*values) for values in zip(*columns, strict=True))
        return cls.of(zip(traces, runs, strict=True))

    @classmethod
    def of(cls, rows: Iterable[tuple[Trace, Run]]) -> Seen:
        """Runs in any order, sorted out by trace."""
        by_trace = groupby(sorted(rows, key=itemgetter(0)), key=itemgetter(0))
        return cls({trace: _joined([run for _, run in runs]) for trace, runs in by_trace})


def _joined(runs: list[Run]) -> tuple[Run, ...]:
    """The same samples with runs that touch or overlap made one."""
    done: list[Run] = []
    for run in sorted(runs, key=lambda each: each.low):
        if done and run.low <= done[-1].high + 1:
            last = done.pop()
            run = Run(last.low, max(last.high, run.high), max(last.latest, run.latest))
        done.append(run)
    return tuple(done)
