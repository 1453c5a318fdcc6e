"""``controlmq collect``: the open-loop experiment on a live queue."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from pathlib import Path

from controlmq.cli.arguments import Commands, count, new_command, number, seed
from controlmq.cli.live import TLS, add_broker, add_handler, broker_url, handler_from
from controlmq.cli.output import console, print_json, say
from controlmq.controllers import OpenLoop, ramp, random_levels
from controlmq.controllers.limits import Limits
from controlmq.errors import InputError
from controlmq.loop import Step, Transition

TEACHING = f"""\
Consumes the queue while stepping the prefetch, and records a trace to identify a model from.
Keep the queue filled meanwhile ('controlmq load' does): samples in which it ran dry are kept,
marked, and not fitted. Ctrl-C keeps what was recorded.

Levels in random order inside the linear range identify a model; steps, one after the other,
show the curve and its knee. --settle leaves out the first samples after each step, for curves
of slow consumers; leave it at 0 for levels, whose changes carry the dynamics.

{TLS}
examples:
  controlmq collect --queue orders --levels 1 10 --samples 60 --handler shop:handle --trace t/
  controlmq collect --queue test --steps 1 40 --samples-per-level 3 --work 0.001 --trace curve/
  controlmq identify t/ --out model.json
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(commands, "collect", "record a trace from a live queue", TEACHING)
    add_broker(parser)
    add_handler(parser)
    plan = parser.add_mutually_exclusive_group(required=True)
    plan.add_argument("--levels", nargs=2, type=number, metavar=("LOW", "HIGH"))
    plan.add_argument("--steps", nargs=2, type=number, metavar=("LOW", "HIGH"))
    parser.add_argument("--samples", type=count, default=60, help="levels to draw (default 60)")
    parser.add_argument(
        "--samples-per-level", type=count, default=1, help="samples on each (default 1)"
    )
    parser.add_argument(
        "--settle", type=seed, default=0, metavar="SAMPLES", help="left out after a step"
    )
    parser.add_argument(
        "--interval", type=number, default=1.0, metavar="SECONDS", help="of a sample (default 1)"
    )
    parser.add_argument("--trace", required=True, metavar="FOLDER", help="where the trace goes")
    parser.add_argument("--group", help="the group's name in the trace (default: the queue's)")
    parser.add_argument("--seed", type=seed, default=1, help="of the random levels (default 1)")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run the plan with a progress bar and say what was recorded."""
    from rich.progress import Progress

    from controlmq.clients.pika.ready_consumer import consume
    from controlmq.traces import TraceWriter

    if arguments.settle >= arguments.samples_per_level and arguments.settle:
        raise InputError(
            f"--settle {arguments.settle} leaves nothing of {arguments.samples_per_level} samples "
            "a level; give a larger --samples-per-level."
        )
    levels = plan_of(arguments)
    high = max(levels)
    per_level = arguments.samples_per_level
    rows = starved = 0
    view = console(to_stderr=True)
    with (
        TraceWriter(Path(arguments.trace), rows_per_file=600, every_row=True) as writer,
        Progress(console=view, transient=True) as bar,
    ):
        task = bar.add_task("collecting", total=len(levels) + 1)
        taken = 0

        def record(row: Transition) -> None:
            nonlocal rows, starved
            # Row number k of the plan belongs to level k // per_level.
            if (taken - 1) % per_level >= arguments.settle:
                writer(row)
                rows += 1
                starved += not row.window_limited

        def on_step(step: Step) -> bool:
            nonlocal taken
            taken += 1
            text = f"prefetch {step.sample.prefetch:.2f}: {step.sample.rate:.0f} msg/s"
            bar.update(task, advance=1, description=text)
            return taken <= len(levels)

        interrupted = consume(
            broker_url(arguments),
            arguments.queue,
            handler_from(arguments),
            workers=arguments.workers,
            controller=OpenLoop(levels),
            interval=arguments.interval,
            prefetch=levels[0],
            limits=Limits(0.0, max(high, 1.0)),
            window=arguments.window,
            record=record,
            group=arguments.group,
            on_step=on_step,
        )
    if arguments.json:
        print_json(
            {
                "trace": arguments.trace,
                "rows": rows,
                "rows_starved": starved,
                "interrupted": interrupted,
            }
        )
    else:
        early = ", stopped early" if interrupted else ""
        say(console(), f"{rows} rows in {arguments.trace}, {starved} of them starved{early}")
    return 130 if interrupted else 0


def plan_of(arguments: argparse.Namespace) -> list[float]:
    """The prefetch of every sample."""
    per_level = arguments.samples_per_level
    if arguments.steps:
        low, high = arguments.steps
        return ramp(low, high, per_level)
    low, high = arguments.levels
    drawn = random_levels(low, high, arguments.samples, arguments.seed)
    return [level for level in drawn for _ in range(per_level)]
