"""A cluster that grows with its clients and shrinks when they leave, beside a single queue.

``python examples/simulator/clustered_queue.py`` prints a table and draws a picture to this
folder, or to the one given.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simulator.studies.cluster import CONSUMER, PRODUCER, Cluster, Reading, SimulatedCluster

HERE = Path(__file__).parent
CAPACITY = 63
"""Clients: 21 producers with two consumers each are what one queue can serve."""

PRODUCERS = 48
"""Producers that join, each with the two consumers it needs; then they leave again."""

JOIN_INTERVAL_SECONDS = 2.0
"""Seconds from one producer to the next."""


@dataclass
class Course:
    """What happened: a reading after every step, and the queues that took clients then."""

    readings: list[Reading] = field(default_factory=list)
    staying: list[int] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def course(most: int) -> Course:
    """Producers join and leave, on a cluster of at most ``most`` queues."""
    system = SimulatedCluster(Cluster(CAPACITY, most=most))
    found = Course(removed=system.cluster.removed)
    threes: list[list[str]] = []
    for step in range(2 * PRODUCERS):
        if step < PRODUCERS:
            threes.append([system.join(role) for role in (PRODUCER, CONSUMER, CONSUMER)])
        else:
            for client in threes.pop(0):
                system.leave(client)
        found.readings.append(system.run(JOIN_INTERVAL_SECONDS))
        found.staying.append(len(system.cluster.staying))
    return found


def table(found: dict[str, Course]) -> Table:
    """How each did."""
    made = Table(title=f"{3 * PRODUCERS} clients join and leave")
    for column in ("", "most queues", "messages/ms at best", "most waiting", "removed"):
        made.add_column(column, justify="right")
    for name, each in found.items():
        made.add_row(
            name,
            str(max(reading.queues for reading in each.readings)),
            f"{max(reading.throughput for reading in each.readings) / 1000:.2f}",
            str(max(reading.waiting for reading in each.readings)),
            ", ".join(each.removed) or "-",
        )
    return made


def draw(found: dict[str, Course], path: Path) -> None:
    """Throughput, and the queues there are, over time."""
    from matplotlib.figure import Figure

    from controlmq.experiments.drawing import svg

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    rates, queues = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for (name, each), colour in zip(found.items(), ("#d55e00", "#0072b2"), strict=True):
        times = [reading.time for reading in each.readings]
        worked = [reading.throughput / 1000 for reading in each.readings]
        rates.plot(times, worked, color=colour, lw=2.5, label=f"worked on, {name}")
        there = [reading.queues for reading in each.readings]
        queues.step(times, there, color=colour, lw=2.5, where="post", label=f"there, {name}")
    *_, cluster = found.values()
    sent = [reading.sent / 1000 for reading in cluster.readings]
    rates.plot(times, sent, ":", color="black", label="sent")
    queues.step(times, cluster.staying, ":", color="black", where="post", label="not marked")
    rates.set_ylabel("messages/ms")
    queues.set_ylabel("queues")
    queues.set_ylim(0, 3.5)
    queues.set_xlabel("seconds")
    for axes in (rates, queues):
        axes.legend(loc="upper left", fontsize="small")
    path.write_text(svg(figure), encoding="utf-8")


def outcomes() -> dict[str, Course]:
    """One queue, and as many as the clients need."""
    return {"one queue": course(most=1), "a cluster": course(most=4)}


def main(folder: Path = HERE) -> None:
    """Run, print and draw."""
    found = outcomes()
    Console().print(table(found))
    draw(found, folder / "clustered-queue.svg")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
