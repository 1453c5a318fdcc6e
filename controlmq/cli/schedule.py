"""``controlmq schedule``: a controller for every workload in a trace, as one file."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import Commands, new_command, number
from controlmq.cli.spark import add_spark, spark_session

if TYPE_CHECKING:
    from controlmq.controllers.gain_schedule import Schedule
    from identification import Fit

TEACHING = """\
Each row of a trace has the handler time, in bands half an octave wide. Every band with enough
rows gets its own model and controller; a consumer that runs with the file blends neighbouring
controllers by the handler time that it measures. Record levels in random order at
each workload you expect, into one folder.

examples:
  controlmq simulate fast.toml --levels 1 10 --samples 200 --trace traces/
  controlmq simulate slow.toml --levels 1 10 --samples 200 --trace traces/
  controlmq schedule traces/ --settling 2 --out schedule.json
  controlmq run --queue orders --goal 400 --controller schedule.json --handler shop:handle
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(
        commands, "schedule", "fit a controller for every workload in a trace", TEACHING
    )
    parser.add_argument("trace", help="a Parquet file, or a folder of them")
    parser.add_argument("--out", required=True, metavar="FILE", help="the schedule to write")
    parser.add_argument("--controller", choices=("pi", "pid"), default="pi", help="(default pi)")
    parser.add_argument("--settling", type=number, metavar="SAMPLES", help="samples until settled")
    parser.add_argument(
        "--overshoot", type=number, metavar="PERCENT", help="with --settling (default 0)"
    )
    parser.add_argument(
        "--smoothing",
        type=number,
        default=0.0,
        metavar="S",
        help="0 (none, the default) to below 1: share of a measured workload kept each sample",
    )
    add_spark(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Fit every band, place its poles, write the schedule."""
    from controlmq.cli.output import print_json
    from controlmq.experiments.fitted_schedule import fit_workloads, schedule_of

    with spark_session(arguments, "fitting every workload") as spark:
        fits = fit_workloads(spark, arguments.trace)
    schedule = schedule_of(
        fits,
        arguments.controller,
        settling_samples=arguments.settling,
        overshoot=arguments.overshoot,
        smoothing=arguments.smoothing,
    )
    schedule.save(arguments.out)
    if arguments.json:
        print_json({"profiles": [_row(fit) for fit in fits], "written": arguments.out})
    else:
        _show(fits, schedule, arguments.out)
    return 0


def _row(fit: Fit) -> dict[str, Any]:
    return {
        "service_time": fit.key["service_time_band"],
        "rows": fit.rows,
        "estimates": asdict(fit.estimates) if fit.model and fit.estimates else None,
        "reason": fit.reason,
    }


def _show(fits: list[Fit], schedule: Schedule, out: str) -> None:
    from rich.table import Table

    from controlmq.cli.output import console, say

    table = Table(title="A controller for every workload")
    for column in ("service time ms", "b", "Kp", "Ki", "Kd", "up to prefetch"):
        table.add_column(column, justify="right")
    for profile in schedule.profiles:
        tuning = profile.tuning
        gains = (f"{gain:.6g}" for gain in asdict(tuning.gains).values())
        table.add_row(
            f"{1000 * profile.at['service_time']:.3g}",
            f"{tuning.model.b:.2f}",
            *gains,
            f"{tuning.model.linear_range[1]:.1f}",
        )
    view = console()
    view.print(table)
    for fit in fits:
        if fit.model is None:
            at = 1000 * fit.key["service_time_band"]
            say(view, f"{at:.3g} ms: {fit.rows} rows, no model: {fit.reason}")
    say(view, f"written to {out}")
