"""Records a run as time series, for tables, Parquet files and a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from controlmq.checks import above_zero
from controlmq.errors import InputError
from controlmq.extras import need
from simulator.meter import Meter
from simulator.metrics import PERCENTILES, Latency, Metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

    from simulator.simulation import Simulation

KINDS = ("queues", "consumers", "publishers", "types", "chains", "broker")

Rows: TypeAlias = list[dict[str, Any]]
"""Readings of one kind, or of one entity, in order."""

LEGEND_COLUMN_NAMES, MOST_LEGEND_NAMES = 8, 12
"""Names that fit in one column beside a panel, and the most lines for which there is a legend."""


class Recording:
    """The metrics of a run, one reading every ``interval`` seconds.

    Memory grows with the number of readings and entities, not with the number of messages.
    """

    def __init__(self, simulation: Simulation, interval: float) -> None:
        self.simulation = simulation
        self.interval = above_zero("interval", interval)
        self._readings = 0
        self._rows: dict[str, Rows] = {kind: [] for kind in KINDS}
        self._meter = Meter(simulation)
        self._since_tables = Meter(simulation)
        self._start = simulation.now

    def run_until(self, time: float) -> None:
        """Run the simulation, and read its metrics at the end of every interval."""
        while (end := self._start + (self._readings + 1) * self.interval) <= time:
            self.simulation.run_until(end)
            reading = self._meter.read()
            # A reading has a histogram for every latency; only its percentiles are kept.
            for kind, rows in self._rows.items():
                rows.extend(_rows(reading, kind))
            self._readings += 1
        self.simulation.run_until(time)

    def rows(self, kind: str) -> Rows:
        """Readings of one kind, in order.

        Kinds are "queues", "consumers", "publishers", "types" (of messages), "chains" (types that
        consumers pass on, timed from the first message of the chain) and "broker".
        """
        if kind not in KINDS:
            raise InputError(f"kind is {kind!r}; give one of {', '.join(KINDS)}.")
        return [dict(row) for row in self._rows[kind]]

    def to_parquet(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write one file for each kind, a row per reading and entity; returns their paths."""
        need("pyarrow", "recording")
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = {kind: pa.Table.from_pylist(rows) for kind, rows in self._rows.items()}
        if not self._rows["chains"]:
            tables["chains"] = tables["types"].slice(0, 0)  # no rows, but the columns
        paths = {kind: Path(folder) / f"{kind}.parquet" for kind in tables}
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for kind, table in tables.items():
                pq.write_table(table, paths[kind])
        except OSError as error:
            raise InputError(f"cannot write metrics to {folder}: {error}.") from None
        return list(paths.values())

    def tables(self) -> list[Table]:
        """Tables for a terminal (:mod:`simulator.summary`), of the time since the last call."""
        from simulator.summary import tables

        return tables(self.simulation, self._since_tables.read())

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw publishers, queues and consumers over time, and latencies."""
        need("matplotlib", "reports")
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        publishers, queues, consumers = map(self._series, ("publishers", "queues", "consumers"))
        blocked = any(row["blocked"] > 0 for row in self._rows["publishers"])
        panels = 7 if blocked else 6
        figure = Figure(figsize=(9.0, 1.6 * panels + 0.6), layout="constrained")
        axes = iter(figure.subplots(panels, 1, sharex=True))
        figure.suptitle(self.simulation.scenario.name)
        _panel(next(axes), publishers, "publish_rate", "published (msg/s)", legend=True)
        if blocked:
            _panel(next(axes), publishers, "blocked", "blocked (%)", 100, legend=True)
        _panel(next(axes), queues, "length", "messages waiting", legend=True)
        _panel(next(axes), consumers, "arrival_rate", "arrivals (msg/s)", legend=True)
        _panel(next(axes), consumers, "in_flight", "in flight", legend=False)
        _panel(next(axes), consumers, "utilisation", "busy (%)", 100, legend=False)
        latencies = next(axes)
        for rows in queues.values():
            median = _line(latencies, rows, "p50")
            _line(latencies, rows, "p90", color=median.get_color(), linestyle=":")
        latencies.set_ylabel("latency (s)\np50, p90 dotted")
        latencies.set_xlabel("seconds")
        undated = {"Date": None} if Path(path).suffix == ".svg" else None
        try:
            with rc_context({"svg.hashsalt": "simulator"}):  # the same run gives the same file
                figure.savefig(path, metadata=undated)
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot draw to {path}: {error}; give a .svg, .png or .pdf."
            ) from None

    def _series(self, kind: str) -> dict[str, Rows]:
        """The rows of each entity by its name, in the order in which they joined."""
        series: dict[str, Rows] = {}
        for row in self._rows[kind]:
            series.setdefault(row["name"], []).append(row)
        return series


def _panel(
    axes: Axes, series: dict[str, Rows], key: str, label: str, scale: float = 1.0, *, legend: bool
) -> None:
    for name, rows in series.items():
        _line(axes, rows, key, scale=scale, label=name)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    if legend and 0 < len(series) <= MOST_LEGEND_NAMES:
        columns = 1 if len(series) <= LEGEND_COLUMN_NAMES else 2
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", ncols=columns)


def _line(axes: Axes, rows: Rows, key: str, *, scale: float = 1.0, **style: Any) -> Any:
    times, values = [row["time"] for row in rows], [scale * row[key] for row in rows]
    return axes.plot(times, values, **style)[0]


def _rows(reading: Metrics, kind: str) -> Iterator[dict[str, Any]]:
    when = {"time": reading.time, "interval": reading.interval}
    if kind == "broker":
        yield {**when, **asdict(reading.broker)}
        return
    for name, entity in getattr(reading, kind).items():
        latency = entity if isinstance(entity, Latency) else getattr(entity, "latency", None)
        row: dict[str, Any] = {**when, "name": name}
        if entity is not latency:
            names = (each.name for each in fields(entity))
            row |= {key: getattr(entity, key) for key in names if key != "latency"}
        if latency is not None:
            row["count"], row["mean"] = latency.count, latency.mean
            row |= {name: latency.percentile(percent) for name, percent in PERCENTILES.items()}
        yield row
