"""Two thread pools with a visibility timeout: theory as lines, simulation as points.

``python examples/simulator/visibility_sweeps.py`` prints a table and draws a picture to this
folder, or to the one given.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from simulator.studies.visibility import TwoPools, measure

HERE = Path(__file__).parent
POOLS = TwoPools(rate=30.3, sender_threads=6, broker_threads=6)

SWEEPS: dict[str, tuple[tuple[str, ...], list[float]]] = {
    "threads in each pool": (("sender_threads", "broker_threads"), [4, 5, 6, 7, 8, 9, 10]),
    "messages/second": (("rate",), [5.0, 10.0, 20.0, 30.0, 40.0, 45.0]),
    "sending one takes, ms": (("sender_speed", "broker_speed"), [50.0, 80.0, 100.0, 130.0, 150.0]),
}


def at(sweep: str, value: float, arrives: float) -> TwoPools:
    """The pools with one thing changed."""
    keys, _ = SWEEPS[sweep]
    setting: Any = 1000 / value if sweep.endswith("ms") else value
    return replace(POOLS, arrives=arrives, **dict.fromkeys(keys, setting))


def main(folder: Path = HERE, seconds: float = 500.0, replications: int = 5) -> None:
    """Run, print and draw."""
    from matplotlib.figure import Figure

    from controlmq.experiments.drawing import svg

    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    table = Table(title="seconds in both pools: theory, simulated")
    for column in ("", "", "q = 0.99", "", "q = 0.88", ""):
        table.add_column(column, justify="right")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (sweep, (_, values)) in zip(panels, SWEEPS.items(), strict=True):
        cells: dict[float, list[str]] = {value: [sweep, f"{value:g}"] for value in values}
        for arrives, colour in ((0.99, "#0072b2"), (0.88, "#d55e00")):
            pools = [at(sweep, value, arrives) for value in values]
            theory = [each.time for each in pools]
            points = [measure(each, seconds, range(replications)).time for each in pools]
            axes.plot(values, theory, color=colour, label=f"q = {arrives}")
            axes.plot(values, points, "o", color=colour, markersize=4)
            for value, *times in zip(values, theory, points, strict=True):
                cells[value] += [f"{time:.4f}" for time in times]
        for row in cells.values():
            table.add_row(*row)
        axes.set_xlabel(sweep)
        axes.set_ylim(0, 0.8)
    panels[0].set_ylabel("W (seconds)")
    panels[0].legend(fontsize="small")
    Console().print(table)
    path = folder / "visibility-sweeps.svg"
    path.write_text(svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
