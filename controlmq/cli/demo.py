"""``controlmq demo``: the published loop, end to end, in simulation."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import add_seed, option
from controlmq.cli.output import console, print_json, say, spark_bar, table
from controlmq.extras import Needs, needs

if TYPE_CHECKING:
    from rich.console import Console

    from controlmq.experiments.demo.experiment import Outcome

SUMMARY = "measure, model and control a simulated consumer, with a report"
NEEDS: Needs = needs("identification", "simulation", "design", "reports")

TEACHING = """\
What happens: a ramp of the prefetch shows the curve and its knee; levels in random order inside
the linear range are recorded; Spark fits the model; P, PI and PID are designed for it and hold
400 and 450 msg/s, follow a step of the goal and meet two disturbances. No broker is needed.

examples:
  controlmq demo
  controlmq demo --quick --out /tmp/demo
  controlmq demo --scenario my-consumer.toml --seed 7 --json
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    meaning = "where report.html, its pictures, the traces, the model and the controllers go"
    option(parser, "--out FOLDER", meaning, default="demo-report")
    meaning = "a shipped scenario (rosa, rosa-noisy) or a TOML file"
    option(parser, "--scenario SCENARIO", meaning, default="rosa-noisy")
    add_seed(parser)
    option(parser, "--quick", "fewer samples, same parts")


def run(arguments: Namespace) -> int:
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


def _experiment(arguments: Namespace, out: Path, view: Console) -> Outcome:
    from controlmq.experiments.demo.experiment import FULL, QUICK, Demo
    from controlmq.experiments.demo.files import TRACES
    from identification.session import session
    from simulator import load_scenario

    scenario = load_scenario(arguments.scenario)
    extent = QUICK if arguments.quick else FULL
    with spark_bar(view) as update:

        def progress(doing: str) -> None:
            update(doing, advance=1, total=demo.samples)

        demo = Demo(scenario, arguments.seed, extent, out / TRACES, progress)
        with session() as spark:
            return demo.run(spark)


def _show(view: Console, data: dict[str, Any], out: Path) -> None:
    model, ramp = data["model"], data["ramp_without_offset"]
    say(
        view,
        f"\nknee at prefetch {data['curve']['knee']:.1f}; model "
        f"y(k+1) = {model['a']:.4f} y(k) + {model['b']:.2f} u(k) {model['c']:+.2f}, "
        f"R2 {model['r2_test']:.4f} on held-out samples\n",
    )
    rows = []
    for key, goal in (("closed_loop", 400), ("closed_loop_450", 450)):
        for kind, ours in data[key].items():
            published = data["published"]["closed_loop"][kind] if goal == 400 else None
            settled = ours["settling_samples"]
            settling = "never" if settled is None else f"{settled} samples"
            peer = [f"{published[each]:.1f}" if published else "" for each in ("mean", "sd")]
            figures = (str(goal), f"{ours['mean']:.1f}", f"{ours['sd']:.2f}", settling)
            rows.append((kind.upper(), *figures, *peer))
    columns = ("controller", "goal", "mean", "sd", "settling", "published mean", "sd ")
    title = "Held at the goal, beside Rosa & Cavalcanti 2022"
    view.print(table(title, columns, rows, left="controller"))
    say(
        view,
        f"\nA ramp fitted without offset turns {ramp['line']}, which has no dynamics, into "
        f"a = {ramp['a']:.4f} and b = {ramp['b']:.2f}: the published model. With an offset it is "
        f"refused: {ramp['refusal_with_offset']}\n",
    )
    say(view, f"report: {out / 'report.html'}")
