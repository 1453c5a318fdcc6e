"""``controlmq schedule``: a controller for every workload in a trace, as one file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import add_placement, number, option
from controlmq.cli.output import console, print_json, say, table
from controlmq.cli.spark import add_spark, spark_session
from controlmq.extras import Needs, needs

if TYPE_CHECKING:
    from controlmq.controllers.gain_schedule import Schedule
    from identification import Fit

SUMMARY = "fit a controller for every workload in a trace"
NEEDS: Needs = needs("identification")

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


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("trace", help="a Parquet file, or a folder of them")
    option(parser, "--out FILE", "the schedule to write", required=True)
    option(parser, "--controller", "the law", default="pi", choices=("pi", "pid"))
    add_placement(parser)
    meaning = "0 (none) to below 1: share of a measured workload kept each sample"
    option(parser, "--smoothing S", meaning, number, 0.0)
    add_spark(parser)


def run(arguments: Namespace) -> int:
    """Fit every band, place its poles, write the schedule."""
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
    rows = []
    for profile in schedule.profiles:
        gains, model = profile.tuning.gains, profile.tuning.model
        known = (f"{1000 * profile.at['service_time']:.3g}", f"{model.b:.2f}")
        shown = (f"{gain:.6g}" for gain in asdict(gains).values())
        rows.append((*known, *shown, f"{model.linear_range[1]:.1f}"))
    columns = ("service time ms", "b", "Kp", "Ki", "Kd", "up to prefetch")
    view = console()
    view.print(table("A controller for every workload", columns, rows))
    for fit in fits:
        if fit.model is None:
            at = 1000 * fit.key["service_time_band"]
            say(view, f"{at:.3g} ms: {fit.rows} rows, no model: {fit.reason}")
    say(view, f"written to {out}")
