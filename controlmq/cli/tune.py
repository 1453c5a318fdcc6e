"""``controlmq tune``: try thousands of controllers in simulation, and take the best."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from controlmq.cli.arguments import Commands, complex_number, count, new_command, number, seed
from controlmq.cli.spark import add_spark
from controlmq.controllers.controller_file import KINDS
from controlmq.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from controlmq.experiments.tuning_search.search import Outcome, Search

CANDIDATES_SHOWN = 10
"""Candidates in the table on the screen; the files have all."""

TEACHING = """\
Every candidate (a law, a placement, an interval, a limit) runs in every scenario with every
seed, each a simulated closed loop on a Spark executor. What it is designed for is a model: yours
with --model, or one identified from a simulated open-loop experiment on the first scenario. The
disturbances are those that the scenarios schedule (see docs/tuning.md); several goals make goal
steps.

The folder --out gets every loop's score (points.parquet), the ranking with confidence intervals
(ranking.json), the front of error against effort (front.svg) and the best controller
(controller.json), a file that controlmq.wrap, 'controlmq run' and 'controlmq simulate' take.

examples:
  controlmq tune rosa-noisy --goal 400 --out tuned/
  controlmq tune rosa-noisy --goal 400 600 --controller pi --settling 2 4 8 --out tuned/
  controlmq tune a.toml b.toml --goal 400 --random 200 --seeds 10 --unseen c.toml --out tuned/
  controlmq tune rosa-noisy --goal 400 --model model.json --poles 0.1 0.2 --by itae --out tuned/
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(commands, "tune", "search for a controller in simulation", TEACHING)
    parser.add_argument(
        "scenarios", nargs="+", metavar="SCENARIO", help="shipped scenarios or TOML files"
    )
    parser.add_argument(
        "--goal", nargs="+", type=number, required=True, metavar="RATE", help="messages/second"
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="a new folder to write")
    _add_candidates(parser.add_argument_group("candidates"))
    parser.add_argument(
        "--random", type=count, metavar="N", help="draw N candidates between the values given"
    )
    parser.add_argument(
        "--model", metavar="FILE", help="design for this model (default: identify one)"
    )
    parser.add_argument(
        "--levels",
        nargs=2,
        type=number,
        default=[1.0, 40.0],
        metavar=("LOW", "HIGH"),
        help="prefetches of the experiment that identifies one (default 1 40)",
    )
    trial = parser.add_argument_group("what each goes through")
    trial.add_argument(
        "--duration", type=number, default=300.0, metavar="SECONDS", help="(default 300)"
    )
    trial.add_argument("--seeds", type=count, default=5, help="runs of each (default 5)")
    trial.add_argument("--seed", type=seed, default=1, help="the first seed (default 1)")
    trial.add_argument("--consumer", metavar="NAME", help="which, in scenarios with several")
    trial.add_argument(
        "--unseen",
        nargs="+",
        default=[],
        metavar="SCENARIO",
        help="judge the best one on these too, beside the published PI",
    )
    parser.add_argument(
        "--by",
        default="iae",
        metavar="METRIC",
        help="iae (default), itae, sd, overshoot, settling, recovery or effort",
    )
    add_spark(parser)
    return parser


def _add_candidates(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--controller", nargs="+", choices=KINDS, default=["pi", "pid"], help="(default pi pid)"
    )
    group.add_argument("--settling", nargs="+", type=number, metavar="SAMPLES")
    group.add_argument("--overshoot", nargs="+", type=number, metavar="PERCENT")
    group.add_argument(
        "--poles",
        nargs="+",
        type=complex_number,
        action="append",
        metavar="POLE",
        help="instead of settling and overshoot; may be given several times",
    )
    group.add_argument(
        "--interval", nargs="+", type=number, metavar="SECONDS", help="of a sample (default 1)"
    )
    group.add_argument(
        "--upper", nargs="+", type=number, metavar="U", help="limits of the prefetch"
    )


def run(arguments: argparse.Namespace) -> int:
    """Search with a progress bar, write the folder, print the best."""
    from controlmq.cli.output import console, print_json
    from controlmq.experiments.tuning_search.files import as_data, write
    from controlmq.experiments.tuning_search.search import run_search
    from controlmq.replacing import new_folder
    from identification.session import session

    out = Path(arguments.out)
    view = console(to_stderr=arguments.json)
    with new_folder(out) as folder:
        search = _search(arguments)
        with (
            _progress(view) as progress,
            session(arguments.master, remote=arguments.remote) as spark,
        ):
            outcome = run_search(spark, search, folder, progress)
        data = as_data(outcome)
        write(outcome, data, folder)
    if arguments.json:
        print_json(data | {"written": str(out)})
    else:
        _show(view, outcome, out)
    return 0


def _search(arguments: argparse.Namespace) -> Search:
    """What is asked for, every mistake in it refused before Spark starts."""
    from controlmq.experiments.tuning_search.search import Search
    from controlmq.model import ArxModel
    from simulator import load_scenario
    from simulator.studies.tuning_search import METRICS, Trial

    if arguments.by not in METRICS:
        raise InputError(f"--by is {arguments.by!r}; give one of {', '.join(METRICS)}.")
    if arguments.poles and (arguments.settling or arguments.overshoot):
        raise InputError("give --poles, or --settling and --overshoot, not both.")
    model = ArxModel.load(arguments.model) if arguments.model else None
    if model is not None and arguments.interval:
        raise InputError("--model has an interval of its own; leave --interval out.")

    def trials(names: list[str]) -> list[Trial]:
        return [
            Trial(
                load_scenario(name), tuple(arguments.goal), arguments.duration, arguments.consumer
            )
            for name in names
        ]

    placements = {
        name: tuple(given)
        for name in ("settling", "overshoot", "poles", "upper")
        if (given := getattr(arguments, name))
    }
    return Search(
        trials=trials(arguments.scenarios),
        unseen=trials(arguments.unseen),
        seeds=range(arguments.seed, arguments.seed + arguments.seeds),
        by=arguments.by,
        kinds=tuple(arguments.controller),
        placements=placements,
        intervals=tuple(arguments.interval or [1.0]),
        draws=arguments.random,
        model=model,
        levels=tuple(arguments.levels),
    )


@contextmanager
def _progress(view: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar; call it with what is being done, how much of it is, and how much there is."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from controlmq.cli.output import say

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    shown = ""
    with Progress(*columns, console=view, transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def progress(doing: str, done: int, total: int) -> None:
            nonlocal shown
            bar.update(task, description=doing, completed=done, total=total)
            if doing != shown and not view.is_terminal:
                say(view, doing)
            shown = doing

        yield progress


def _show(view: Console, outcome: Outcome, out: Path) -> None:
    from rich.table import Table

    from controlmq.cli.output import say
    from simulator.studies.tuning_search import METRICS

    table = Table(title=f"The best of {len(outcome.ranked)} candidates by {outcome.search.by}")
    for column in ("", "controller", *METRICS):
        table.add_column(column, justify="left" if column == "controller" else "right")
    for place, each in enumerate(outcome.ranked[:CANDIDATES_SHOWN], 1):
        candidate = each.candidate
        cells: list[str] = []
        for metric in METRICS:
            found = each.means[metric]
            cells.append(f"{found.mean:.4g} ± {found.high - found.mean:.2g}")
        table.add_row(str(place), f"{candidate.tuning.kind} {candidate.asked}", *cells)
    view.print(table)
    best = outcome.ranked[0].candidate
    gains = best.tuning.gains
    say(
        view,
        f"best: {best.tuning.kind} with Kp {gains.kp:.6g}, Ki {gains.ki:.6g}, Kd {gains.kd:.6g}; "
        f"samples of {best.interval:g} s, prefetch up to {best.upper:.3g}",
    )
    if outcome.unseen is not None:
        difference = outcome.unseen.difference[outcome.search.by]
        say(
            view,
            f"unseen scenarios: {outcome.search.by} {difference.mean:+.4g} against the published "
            f"PI, 95 % interval {difference.low:+.4g} to {difference.high:+.4g} "
            f"{METRICS[outcome.search.by]}",
        )
    say(view, f"written to {out}")
