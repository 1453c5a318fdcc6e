"""``controlmq tune``: try thousands of controllers in simulation, and take the best."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from controlmq.cli.arguments import (
    Options,
    complex_number,
    count,
    number,
    option,
    whole,
)
from controlmq.cli.output import console, print_json, say, spark_bar, table
from controlmq.cli.spark import add_spark
from controlmq.controllers.controller_file import KINDS
from controlmq.errors import InputError
from controlmq.extras import Needs, needs
from controlmq.goals import rate_of

if TYPE_CHECKING:
    from rich.console import Console

    from controlmq.experiments.tuning_search.search import Outcome, Search

CANDIDATES_SHOWN = 10
"""Candidates in the table on the screen; the files have all."""

SUMMARY = "search for a controller in simulation"
NEEDS: Needs = needs("identification", "simulation", "reports")

TEACHING = """\
Every candidate (a law, a placement, an interval, a limit) runs in every scenario with every
seed, each a simulated closed loop on a Spark executor. What it is designed for is a model: yours
with --model, or one identified from a simulated open-loop experiment on the first scenario. The
disturbances are those that the scenarios schedule (see docs/tuning.md); several goals make goal
steps.

The folder --out gets every loop's score (points.parquet), the ranking with confidence intervals
(ranking.json), the front of error against effort (front.svg, report.html) and the best controller
(controller.json), a file that controlmq.wrap, 'controlmq run' and 'controlmq simulate' take.

examples:
  controlmq tune rosa-noisy --goal 400 --out tuned/
  controlmq tune rosa-noisy --goal 400 600 --controller pi --settling 2 4 8 --out tuned/
  controlmq tune a.toml b.toml --goal 400 --random 200 --seeds 10 --unseen c.toml --out tuned/
  controlmq tune rosa-noisy --goal 400 --model model.json --poles 0.1 0.2 --by itae --out tuned/
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "scenarios", nargs="+", metavar="SCENARIO", help="shipped scenarios or TOML files"
    )
    option(parser, "--goal RATE...", "messages/second, or as in 5/minute", required=True)
    option(parser, "--out FOLDER", "a new folder to write", required=True)
    _add_candidates(parser.add_argument_group("candidates"))
    option(parser, "--random N", "draw N candidates between the values given", count)
    option(parser, "--model FILE", "design for this model (default: identify one)")
    meaning = "prefetches of the experiment that identifies one"
    option(parser, "--levels LOW HIGH", meaning, number, [1.0, 40.0])
    trial = parser.add_argument_group("what each goes through")
    option(trial, "--duration SECONDS", "simulated time of a run", number, 300.0)
    option(trial, "--seeds SEEDS", "runs of each candidate, each with its own seed", count, 5)
    option(trial, "--seed SEED", "the first seed", whole, 1)
    option(trial, "--consumer NAME", "the consumer to control, in scenarios with several")
    option(
        trial, "--unseen SCENARIO...", "judge the best one on these too, beside the published PI"
    )
    meaning = "iae, itae, sd, overshoot, settling, recovery or effort"
    option(parser, "--by METRIC", meaning, default="iae")
    add_spark(parser)


def _add_candidates(group: Options) -> None:
    meaning = "laws to try, of p, pi and pid"
    option(group, "--controller LAW...", meaning, default=["pi", "pid"], choices=KINDS)
    option(group, "--settling SAMPLES...", "samples until settled", number)
    option(group, "--overshoot PERCENT...", "overshoot of a goal step, with --settling", number)
    meaning = "instead of settling and overshoot; may be given several times"
    option(group, "--poles POLE...", meaning, complex_number, action="append")
    option(group, "--interval SECONDS...", "length of a sample (default 1)", number)
    option(group, "--upper U...", "upper limits of the prefetch", number)


def run(arguments: Namespace) -> int:
    """Search with a progress bar, write the folder, print the best."""
    from controlmq.experiments.tuning_search.files import as_data, write
    from controlmq.experiments.tuning_search.search import run_search
    from controlmq.replacing import new_folder
    from identification.session import session

    out = Path(arguments.out)
    view = console(to_stderr=arguments.json)
    with new_folder(out) as folder:
        search = _search(arguments)
        with (
            spark_bar(view) as update,
            session(arguments.master, remote=arguments.remote) as spark,
        ):
            outcome = run_search(
                spark,
                search,
                folder,
                lambda doing, done, total: update(doing, completed=done, total=total),
            )
        data = as_data(outcome)
        write(outcome, data, folder)
    if arguments.json:
        print_json(data | {"written": str(out)})
    else:
        _show(view, outcome, out)
    return 0


def _search(arguments: Namespace) -> Search:
    """What is asked for, every mistake in it refused before Spark starts."""
    from controlmq.experiments.tuning_search.search import Search
    from controlmq.model import ArxModel
    from simulator import load_scenario
    from simulator.studies.tuning_candidates import METRICS, Trial

    if arguments.by not in METRICS:
        raise InputError(f"--by is {arguments.by!r}; give one of {', '.join(METRICS)}.")
    if arguments.poles and (arguments.settling or arguments.overshoot):
        raise InputError("give --poles, or --settling and --overshoot, not both.")
    model = ArxModel.load(arguments.model) if arguments.model else None
    if model is not None and arguments.interval:
        raise InputError("--model has an interval of its own; leave --interval out.")

    goals = tuple(rate_of("--goal", goal) for goal in arguments.goal)

    def trials(names: list[str]) -> list[Trial]:
        return [
            Trial(load_scenario(name), goals, arguments.duration, arguments.consumer)
            for name in names
        ]

    placements = {
        name: tuple(given)
        for name in ("settling", "overshoot", "poles", "upper")
        if (given := getattr(arguments, name))
    }
    return Search(
        trials=trials(arguments.scenarios),
        unseen=trials(arguments.unseen or []),
        seeds=range(arguments.seed, arguments.seed + arguments.seeds),
        by=arguments.by,
        kinds=tuple(arguments.controller),
        placements=placements,
        intervals=tuple(arguments.interval or [1.0]),
        draws=arguments.random,
        model=model,
        levels=tuple(arguments.levels),
    )


def _show(view: Console, outcome: Outcome, out: Path) -> None:
    from simulator.studies.tuning_candidates import METRICS

    rows = []
    for place, each in enumerate(outcome.ranked[:CANDIDATES_SHOWN], 1):
        found = (each.means[metric] for metric in METRICS)
        cells = (f"{one.mean:.4g} ± {one.high - one.mean:.2g}" for one in found)
        rows.append((str(place), f"{each.candidate.tuning.kind} {each.candidate.asked}", *cells))
    title = f"The best of {len(outcome.ranked)} candidates by {outcome.search.by}"
    view.print(table(title, ("", "controller", *METRICS), rows, left="controller"))
    best = outcome.best.candidate
    gains = best.tuning.gains
    say(
        view,
        f"best: {best.tuning.kind} with Kp {gains.kp:.6g}, Ki {gains.ki:.6g}, Kd {gains.kd:.6g}; "
        f"samples of {best.interval:g} s, {best.upper_in_words}",
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
