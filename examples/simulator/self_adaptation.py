"""Rules that add consumers beside a controller of the prefetch, alone and together.

``python examples/simulator/self_adaptation.py`` prints a table and draws a picture to this
folder, or to the one given.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from controlmq import ArxModel, Loop, design_controller
from controlmq.controllers import OpenLoop, build
from controlmq.loop import Controller
from simulator import Meter, SimulatedConsumer, load_scenario

HERE = Path(__file__).parent
SECONDS = 120
GOAL = 190.0
"""Messages/second, a little below what the two handlers of a worker can do."""

# A message is in flight for 30 ms, so each of prefetch adds 33 messages a second, at once.
MODEL = ArxModel(a=0.0, b=1 / 0.03, c=0.0, interval=1.0, linear_range=(0.0, 5.7))


@dataclass(frozen=True)
class Outcome:
    """What a minute of surge did to a system: lengths by second, latencies, consumers."""

    lengths: list[int]
    consumers: list[int]
    p50: float
    p90: float


def adapted(*, rules: bool, control: bool) -> Outcome:
    """Two minutes with rules at work, with the prefetch controlled, with both or neither."""
    scenario = load_scenario(HERE / "self-adaptation.toml")
    if not rules:
        scenario = replace(scenario, rules=())
    plant = SimulatedConsumer(scenario, seed=1, consumer="worker")
    simulation = plant.simulation
    controller: Controller = OpenLoop([plant.prefetch])
    if control:
        controller = build(design_controller(MODEL, "pi", settling_samples=6, overshoot=5).tuning)
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
    """All four ways."""
    return {
        "neither": adapted(rules=False, control=False),
        "rules": adapted(rules=True, control=False),
        "prefetch": adapted(rules=False, control=True),
        "both": adapted(rules=True, control=True),
    }


def table(found: dict[str, Outcome]) -> Table:
    """How each did."""
    made = Table(title="a surge of a minute")
    for column in ("adapted by", "most waiting", "p50 s", "p90 s", "most workers", "worker s"):
        made.add_column(column, justify="left" if column == "adapted by" else "right")
    for name, each in found.items():
        made.add_row(
            name,
            str(max(each.lengths)),
            f"{each.p50:.3f}",
            f"{each.p90:.3f}",
            str(max(each.consumers)),
            str(sum(each.consumers)),
        )
    return made


def draw(found: dict[str, Outcome], path: Path) -> None:
    """Queue lengths and consumers over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    lengths, consumers = figure.subplots(2, 1, sharex=True)
    for name, each in found.items():
        lengths.plot(each.lengths, label=name)
        consumers.step(range(SECONDS), each.consumers, where="post")
    lengths.set_yscale("symlog", linthresh=10)
    lengths.set_ylabel("messages waiting")
    lengths.legend(fontsize="small")
    consumers.set_ylabel("workers")
    consumers.set_xlabel("seconds")
    figure.savefig(path)


def main(folder: Path = HERE) -> None:
    """Run, print and draw."""
    found = outcomes()
    Console().print(table(found))
    draw(found, folder / "adaptation-compared.svg")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
