"""Time series of a run: to a table, to Parquet, to a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.checks import above_zero
from controlmq.errors import InputError
from simulator.metrics import Latency, Meter, Metrics

if TYPE_CHECKING:
    from rich.table import Table

    from simulator.simulation import Simulation

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}

KINDS = ("queues", "consumers", "publishers", "types", "broker")


class Recording:
    """The metrics of a run, one reading every ``interval`` seconds.

    Memory grows with the number of readings, not with that of messages.
    """

    def __init__(self, simulation: Simulation, interval: float) -> None:
        self.simulation = simulation
        self.interval = above_zero("interval", interval)
        self.readings: list[Metrics] = []
        self._meter = Meter(simulation)
        self._since_table = Meter(simulation)
        self._start = simulation.now

    def run_until(self, time: float) -> None:
        """Run the simulation on, and read its metrics at every end of an interval."""
        while (end := self._start + (len(self.readings) + 1) * self.interval) <= time:
            self.simulation.run_until(end)
            self.readings.append(self._meter.read())
        self.simulation.run_until(time)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Readings of one kind ("queues", "consumers", "publishers", "types", "broker")."""
        if kind not in KINDS:
            raise InputError(f"kind is {kind!r}; give one of {', '.join(KINDS)}.")
        return [row for reading in self.readings for row in _rows(reading, kind)]

    def to_parquet(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write ``queues.parquet`` and so on, a row per reading and entity; their paths."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        made = []
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for kind in KINDS:
                path = Path(folder) / f"{kind}.parquet"
                pq.write_table(pa.Table.from_pylist(self.rows(kind)), path)
                made.append(path)
        except OSError as error:
            raise InputError(f"cannot write metrics to {folder}: {error}.") from None
        return made

    def table(self) -> Table:
        """The queues over the run since this was last asked, for a terminal.

        Messages a second in and out, mean length and length now, and latencies in ms.
        """
        from rich.table import Table

        table = Table("queue", title=f"{self.simulation.scenario.name}: messages, ms")
        for column in ("in/s", "out/s", "length", "now", "mean", "p50", "p90", "p99", "p99.9"):
            table.add_column(column, justify="right")
        for name, queue in self._since_table.read().queues.items():
            latency = queue.latency
            times = [latency.mean, *(latency.percentile(p) for p in PERCENTILES.values())]
            flow = (queue.publish_rate, queue.deliver_rate, queue.mean_length, queue.length)
            cells = [f"{value:.4g}" for value in flow]
            table.add_row(name, *cells, *(f"{1000 * time:.4g}" for time in times))
        return table

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw over time: rates of publishers and consumers, lengths and latencies of queues."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 8.0), layout="constrained")
        published, lengths, rates, latencies = figure.subplots(4, 1, sharex=True)
        figure.suptitle(self.simulation.scenario.name)
        for name in self.simulation.publishers:
            self._line(published, "publishers", name, "publish_rate")
        queues = [queue.name for queue in self.simulation.scenario.queues]
        for name in queues:
            self._line(lengths, "queues", name, "length")
            median = self._line(latencies, "queues", name, "p50")
            self._line(latencies, "queues", name, "p90", color=median.get_color(), linestyle=":")
        for name in self.simulation.consumers:
            self._line(rates, "consumers", name, "arrival_rate")
        published.set_ylabel("published (msg/s)")
        lengths.set_ylabel("messages waiting")
        rates.set_ylabel("arrivals (msg/s)")
        latencies.set_ylabel("latency (s)\np50, p90 dotted")
        latencies.set_xlabel("seconds")
        for axes in (published, lengths, rates):
            axes.set_ylim(bottom=0)
            if len(axes.get_lines()) <= 12:
                axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
        try:
            figure.savefig(path)
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot draw to {path}: {error}; give a .svg, .png or .pdf."
            ) from None

    def _line(self, axes: Any, kind: str, name: str, key: str, **style: str) -> Any:
        rows = [row for row in self.rows(kind) if row["name"] == name]
        times, values = [row["time"] for row in rows], [row[key] for row in rows]
        return axes.plot(times, values, label=name, **style)[0]


def _rows(reading: Metrics, kind: str) -> Iterator[dict[str, Any]]:
    when = {"time": reading.time, "interval": reading.interval}
    if kind == "broker":
        yield {**when, **asdict(reading.broker)}
        return
    for name, entity in getattr(reading, kind).items():
        latency = entity if isinstance(entity, Latency) else getattr(entity, "latency", None)
        row: dict[str, Any] = {**when, "name": name}
        if entity is not latency:
            row |= {
                each.name: getattr(entity, each.name)
                for each in fields(entity)
                if each.name != "latency"
            }
        if latency is not None:
            row["count"], row["mean"] = latency.count, latency.mean
            row |= {name: latency.percentile(percent) for name, percent in PERCENTILES.items()}
        yield row
