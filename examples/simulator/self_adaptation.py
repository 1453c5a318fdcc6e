"""Rules that add and remove consumers beside a controller of the prefetch, alone and together.

``python examples/simulator/self_adaptation.py`` prints a table and draws a picture to this
folder, or to the one given.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from controlmq import ArxModel, Limits, Loop, design_controller
from controlmq.controllers import OpenLoop, build
from controlmq.loop import Controller
from simulator import Meter, Scenario, SimulatedConsumer, load_scenario

HERE = Path(__file__).parent
SURGE_SECONDS = (20, 80)
"""Seconds, as in the scenarios."""

SECONDS = 240
"""Long enough to work off what the surge left behind and to take workers away again."""

GOAL = 190.0
"""Messages/second, a little below what the two handlers of a worker can do."""

LONG_QUEUE_MESSAGES = 100
"""Messages waiting: above it the rules by length add a worker."""

# A message is in flight for 30 ms, so each of prefetch adds 33 messages a second, at once.
MODEL = ArxModel(a=0.0, b=1 / 0.03, c=0.0, interval=1.0, linear_range=(0.0, 5.7))


@dataclass(frozen=True)
class Outcome:
    """What a minute of surge did to a system: by second messages waiting and workers; latencies.

    Latencies are in seconds from the publisher to a handler.
    """

    lengths: list[int]
    consumers: list[int]
    p50: float
    p90: float

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells in the table."""
        return (
            str(max(self.lengths)),
            str(sum(length > LONG_QUEUE_MESSAGES for length in self.lengths)),
            f"{self.p50:.3f}",
            f"{self.p90:.3f}",
            str(max(self.consumers)),
            str(sum(self.consumers)),
        )


COLUMNS = (
    "most waiting",
    f"s above {LONG_QUEUE_MESSAGES}",
    "p50 s",
    "p90 s",
    "most workers",
    "worker s",
)


def adapted(scenario: Scenario, *, control: bool) -> Outcome:
    """Run a scenario with the rules it has, its prefetch controlled or left as it is."""
    plant = SimulatedConsumer(scenario, seed=1, consumer="worker")
    simulation = plant.simulation
    controller: Controller = OpenLoop([plant.prefetch])
    if control:
        design = design_controller(MODEL, "pi", settling_samples=6, overshoot=5)
        controller = build(design.tuning, Limits.of(MODEL))
    meter, lengths, consumers = Meter(simulation), [], []
    for step in Loop(plant, controller, GOAL).run(SECONDS):
        workers = simulation.active("worker")
        for name in workers:
            simulation.set_prefetch(name, step.prefetch)  # they are alike: one decision for all
        lengths.append(simulation.counts.queued)
        consumers.append(len(workers))
    latency = meter.read().queues["work"].latency
    return Outcome(lengths, consumers, latency.p50, latency.p90)


def outcomes() -> dict[str, Outcome]:
    """By what is adapted: nothing, workers by one of the metrics, the prefetch, or both."""
    by_length = load_scenario(HERE / "self-adaptation.toml")
    by_latency = load_scenario(HERE / "self-adaptation-latency.toml")
    unruled = replace(by_length, rules=())
    return {
        "nothing": adapted(unruled, control=False),
        "length": adapted(by_length, control=False),
        "latency": adapted(by_latency, control=False),
        "prefetch": adapted(unruled, control=True),
        "length + prefetch": adapted(by_length, control=True),
        "latency + prefetch": adapted(by_latency, control=True),
    }


def table(found: dict[str, Outcome]) -> Table:
    """How each did."""
    made = Table(title="a surge of a minute")
    made.add_column("adapted by", no_wrap=True)
    for column in COLUMNS:
        made.add_column(column, justify="right")
    for name, each in found.items():
        made.add_row(name, *each.row)
    return made


def draw(found: dict[str, Outcome], path: Path) -> None:
    """Messages waiting and workers over time: a colour for the rules, dashes for a controller."""
    from matplotlib.figure import Figure

    from controlmq.experiments.drawing import svg

    figure = Figure(figsize=(8.0, 5.5), layout="constrained")
    lengths, consumers = figure.subplots(2, 1, sharex=True)
    seconds = range(1, SECONDS + 1)
    for name, each in found.items():
        colour = "C0" if "length" in name else "C1" if "latency" in name else "0.5"
        dashes = "--" if "prefetch" in name else "-"
        lengths.plot(seconds, each.lengths, dashes, color=colour, label=name)
        consumers.step(seconds, each.consumers, dashes, color=colour, where="post")
    for axes in (lengths, consumers):
        axes.axvspan(*SURGE_SECONDS, color="0.93", zorder=0)
    lengths.set_yscale("symlog", linthresh=10)
    lengths.set_ylabel("messages waiting")
    lengths.legend(title="adapted by", fontsize="small", ncols=2)
    consumers.set_ylabel("workers")
    consumers.set_xlabel("seconds; shaded: the surge")
    path.write_text(svg(figure), encoding="utf-8")


def main(folder: Path = HERE) -> None:
    """Run, print and draw."""
    found = outcomes()
    Console().print(table(found))
    draw(found, folder / "adaptation-compared.svg")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
