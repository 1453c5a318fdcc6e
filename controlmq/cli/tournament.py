"""``controlmq tournament``: our laws for goals and those of other projects, in simulation."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from controlmq.cli.arguments import count, number, option, whole
from controlmq.cli.output import console, print_json, say, spark_bar
from controlmq.cli.spark import add_spark
from controlmq.errors import InputError
from controlmq.extras import Needs, needs

SUMMARY = "compare laws for goals with those of other projects, in simulation"
NEEDS: Needs = needs("identification", "simulation", "reports")

TEACHING = """\
Every law of controlmq and every peer runs on the same simulated consumers, on Spark's executors:
for a rate, a ceiling, a time in the buffer and the least prefetch. The folder --out gets a page
(tournament.md) with a table and a picture for each.

examples:
  controlmq tournament --out tournament/
  controlmq tournament --plants 4 --tuning 2 --messages 5000 --out quick/
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    option(parser, "--out FOLDER", "a new folder to write", required=True)
    option(parser, "--plants PLANTS", "consumers drawn at random to judge on", count, 12)
    option(parser, "--tuning PLANTS", "others that peers are tuned on", count, 6)
    option(parser, "--seeds SEEDS", "runs on each of them", count, 2)
    option(parser, "--draw SEED", "of the consumers to judge on (default: that of the docs)", whole)
    option(parser, "--messages MESSAGES", "that each phase of a run handles", number, 20000.0)
    add_spark(parser)


def run(arguments: Namespace) -> int:
    """Play with a progress bar, write the folder."""
    from controlmq.experiments.tournament import run_tournament, write
    from controlmq.replacing import new_folder
    from identification.session import session
    from simulator.studies.tournament.plan import HELD_OUT_DRAW, TUNING_DRAW, Plan

    if arguments.plants < 2:
        raise InputError("1 plant has no spread to compare laws by; give more plants.")
    if arguments.messages <= 0:
        raise InputError(f"--messages is {arguments.messages:g}; give a number above 0.")
    draw = HELD_OUT_DRAW if arguments.draw is None else arguments.draw
    if draw == TUNING_DRAW:
        raise InputError(f"--draw is {draw}, on whose consumers peers are tuned; give another.")
    out = Path(arguments.out)
    view = console(to_stderr=arguments.json)
    plan = Plan(arguments.tuning, arguments.plants, arguments.seeds, arguments.messages, draw)
    with new_folder(out) as folder:
        with (
            spark_bar(view) as update,
            session(arguments.master, remote=arguments.remote) as spark,
        ):
            tables = run_tournament(
                spark,
                plan,
                lambda doing, done, total: update(doing, completed=done, total=total),
            )
        write(tables, plan, folder)
    if arguments.json:
        print_json(
            {
                table: [
                    {
                        "law": row.entry.name,
                        "from": row.entry.source,
                        "ours": row.entry.ours,
                        "chosen": dict(row.chosen),
                        "cost": row.cost.mean,
                        **{metric: found.mean for metric, found in row.means.items()},
                    }
                    for row in rows
                ]
                for table, rows in tables.items()
            }
        )
        return 0
    for table, rows in tables.items():
        say(view, f"{table}: {', '.join(row.entry.name for row in rows[:3])} lead")
    say(view, f"written to {out}")
    return 0
