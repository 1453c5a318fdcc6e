"""``controlmq demo``: the published loop, end to end, in simulation."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import Commands, new_command, seed
from controlmq.cli.output import console, print_json, say

if TYPE_CHECKING:
    from rich.console import Console

    from controlmq.experiments.demo.experiment import Outcome

TEACHING = """\
What happens: a ramp of the prefetch shows the curve and its knee; levels in random order inside
the linear range are recorded; Spark fits the model; P, PI and PID are designed for it and hold
400 and 450 msg/s, follow a step of the goal and meet two disturbances. No broker is needed.

examples:
  controlmq demo
  controlmq demo --quick --out /tmp/demo
  controlmq demo --scenario my-consumer.toml --seed 7 --json
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(
        commands, "demo", "measure, model and control a simulated consumer, with a report", TEACHING
    )
    parser.add_argument(
        "--out",
        default="demo-report",
        metavar="FOLDER",
        help="where report.html, its pictures, the traces, the model and the controllers go",
    )
    parser.add_argument(
        "--scenario",
        default="rosa-noisy",
        help="a shipped scenario (rosa, rosa-noisy) or a TOML file (default rosa-noisy)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="same seed, same result (default 1)")
    parser.add_argument("--quick", action="store_true", help="fewer samples, same parts")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run the demo with a progress bar, write the report, print what came out."""
    from controlmq.experiments.demo.files import claim, write
    from controlmq.experiments.demo.findings import findings

    out = Path(arguments.out)
    claim(out)
    view = console(to_stderr=arguments.json)
    outcome = _experiment(arguments, out, view)
    data = findings(outcome)
    write(outcome, data, out)
    if arguments.json:
        print_json(data | {"report": str(out / "report.html")})
    else:
        _show(view, data, out)
    return 0


def _experiment(arguments: argparse.Namespace, out: Path, view: Console) -> Outcome:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from controlmq.experiments.demo.experiment import FULL, QUICK, Demo
    from controlmq.experiments.demo.files import TRACES
    from identification.session import session
    from simulator import load_scenario

    scenario = load_scenario(arguments.scenario)
    columns = (TextColumn("{task.description:<36}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=view) as bar:
        task = bar.add_task("starting Spark", total=None)
        shown = ""

        def progress(doing: str) -> None:
            nonlocal shown
            bar.update(task, advance=1, description=doing)
            if doing != shown and not view.is_terminal:
                say(view, doing)
            shown = doing

        extent = QUICK if arguments.quick else FULL
        demo = Demo(scenario, arguments.seed, extent, out / TRACES, progress)
        bar.update(task, total=demo.samples)
        with session() as spark:
            outcome = demo.run(spark)
        bar.update(task, description="done")
    return outcome


def _show(view: Console, data: dict[str, Any], out: Path) -> None:
    from rich.table import Table

    model, ramp = data["model"], data["ramp_without_offset"]
    say(
        view,
        f"\nknee at prefetch {data['curve']['knee']:.1f}; model "
        f"y(k+1) = {model['a']:.4f} y(k) + {model['b']:.2f} u(k) {model['c']:+.2f}, "
        f"R2 {model['r2_test']:.4f} on held-out samples\n",
    )
    table = Table(title="Held at the goal, beside Rosa & Cavalcanti 2022")
    for column in ("controller", "goal", "mean", "sd", "settling", "published mean", "sd "):
        table.add_column(column, justify="left" if column == "controller" else "right")
    for key, goal in (("closed_loop", 400), ("closed_loop_450", 450)):
        for kind, ours in data[key].items():
            published = data["published"]["closed_loop"][kind] if goal == 400 else None
            settled = ours["settling_samples"]
            table.add_row(
                kind.upper(),
                str(goal),
                f"{ours['mean']:.1f}",
                f"{ours['sd']:.2f}",
                "never" if settled is None else f"{settled} samples",
                f"{published['mean']:.1f}" if published else "",
                f"{published['sd']:.1f}" if published else "",
            )
    view.print(table)
    say(
        view,
        f"\nA ramp fitted without offset turns {ramp['line']}, which has no dynamics, into "
        f"a = {ramp['a']:.4f} and b = {ramp['b']:.2f}: the published model. With an offset it is "
        f"refused: {ramp['refusal_with_offset']}\n",
    )
    say(view, f"report: {out / 'report.html'}")
