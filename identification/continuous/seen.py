"""Which samples of which trace have been counted, so that none is counted twice.

Sample numbers count up within a trace, so a whole trace is one span, ``low`` to ``high``, however
long it gets; a gap or a file that is late makes a second. That is what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa

Trace: TypeAlias = tuple[Any, ...]
"""The values of the columns that name a trace: those of its group, and its own."""


@dataclass(frozen=True, slots=True)
class Span:
    """Samples ``low`` to ``high`` of one trace, all counted; ``latest`` is the time of the last."""

    low: int
    high: int
    latest: float

    def __len__(self) -> int:
        return self.high - self.low + 1

    def overlap(self, other: Span) -> int:
        """How many samples are in both."""
        return max(0, min(self.high, other.high) - max(self.low, other.low) + 1)


@dataclass(frozen=True)
class Seen:
    """The spans of every trace, in order and apart from each other."""

    spans: Mapping[Trace, tuple[Span, ...]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Trace, Span]]:
        return ((trace, span) for trace, spans in self.spans.items() for span in spans)

    def overlapping(self, others: Seen) -> Seen:
        """Those of these spans that share a sample with one of the others."""
        return self._only(
            lambda trace, span: any(span.overlap(other) for other in others.spans.get(trace, ()))
        )

    def samples(self) -> int:
        """How many samples there are in all spans."""
        return sum(len(span) for _, span in self)

    def shared(self, others: Seen) -> int:
        """How many samples are in both."""
        return sum(
            span.overlap(other)
            for trace, spans in others.spans.items()
            for span in self.spans.get(trace, ())
            for other in spans
        )

    def union(self, others: Seen) -> Seen:
        """The samples of both."""
        changed = {
            trace: _joined([*self.spans.get(trace, ()), *spans])
            for trace, spans in others.spans.items()
        }
        return Seen({**self.spans, **changed})

    def since(self, time: float) -> Seen:
        """Without the spans whose last sample is earlier than ``time``."""
        return self._only(lambda _, span: span.latest >= time)

    def _only(self, wanted: Callable[[Trace, Span], bool]) -> Seen:
        """Those of these spans that are wanted, and the traces that have any."""
        kept = {
            trace: tuple(span for span in spans if wanted(trace, span))
            for trace, spans in self.spans.items()
        }
        return Seen({trace: spans for trace, spans in kept.items() if spans})

    @property
    def latest(self) -> float | None:
        """The time of the latest sample of all."""
        return max((span.latest for _, span in self), default=None)

    def to_arrow(self, names: Sequence[str]) -> pa.Table:
        """One row per span, for a file or a join; ``names`` are the columns that name a trace."""
        rows = list(self)
        columns: dict[str, Any] = {
            name: [trace[i] for trace, _ in rows] for i, name in enumerate(names)
        }
        columns["low"] = pa.array([span.low for _, span in rows], pa.int64())
        columns["high"] = pa.array([span.high for _, span in rows], pa.int64())
        columns["latest"] = pa.array([span.latest for _, span in rows], pa.float64())
        return pa.table(columns)

    @classmethod
    def from_arrow(cls, table: pa.Table, names: Sequence[str]) -> Seen:
        """The spans in a table with the columns that :meth:`to_arrow` gives it, in any order."""
        traces = zip(*(table[name].to_pylist() for name in names), strict=True)
        columns = (table[name].to_pylist() for name in ("low", "high", "latest"))
        spans = (Span(*values) for values in zip(*columns, strict=True))
        return cls.of(zip(traces, spans, strict=True))

    @classmethod
    def of(cls, rows: Iterable[tuple[Trace, Span]]) -> Seen:
        """Spans in any order, sorted out by trace."""
        by_trace = groupby(sorted(rows, key=itemgetter(0)), key=itemgetter(0))
        return cls({trace: _joined([span for _, span in spans]) for trace, spans in by_trace})


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    """The same samples with spans that touch or overlap made one."""
    done: list[Span] = []
    for span in sorted(spans, key=lambda each: each.low):
        if done and span.low <= done[-1].high + 1:
            last = done.pop()
            span = Span(last.low, max(last.high, span.high), max(last.latest, span.latest))
        done.append(span)
    return tuple(done)
