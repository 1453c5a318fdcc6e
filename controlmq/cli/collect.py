"""``controlmq collect``: the open-loop experiment on a live queue."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from controlmq.checks import above_zero
from controlmq.cli.arguments import count, number, option, whole
from controlmq.cli.live import SEVERAL_URLS, add_consumer, consume_from
from controlmq.cli.output import console, print_json, progress_bar, say
from controlmq.controllers import OpenLoop, ramp, random_levels
from controlmq.controllers.limits import Limits
from controlmq.errors import InputError
from controlmq.extras import Needs
from controlmq.loop import Step, Transition

SUMMARY = "record a trace from a live queue"
NEEDS: Needs = {"recording": ["pyarrow"], "reports": ["rich"]}

TEACHING = f"""\
Consumes the queue while stepping the prefetch, and records a trace to identify a model from.
Keep the queue filled meanwhile ('controlmq load' does): samples in which it ran dry are kept,
marked, and not fitted. Ctrl-C keeps what was recorded.

Levels in random order inside the linear range identify a model; steps, one after the other,
show the curve and its knee. --settle leaves out the first samples after each step, for curves
of slow consumers; leave it at 0 for levels, whose changes carry the dynamics.

{SEVERAL_URLS}
examples:
  controlmq collect --queue orders --levels 1 10 --samples 60 --handler shop:handle --trace t/
  controlmq collect --queue test --steps 1 40 --samples-per-level 3 --work 0.001 --trace curve/
  controlmq identify t/ --out model.json
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    add_consumer(parser)
    plan = parser.add_mutually_exclusive_group(required=True)
    option(plan, "--levels LOW HIGH", "prefetches in random order between these", number)
    option(plan, "--steps LOW HIGH", "every prefetch from LOW to HIGH, one after the other", number)
    option(parser, "--samples SAMPLES", "levels to draw", count, 60)
    option(parser, "--samples-per-level SAMPLES", "samples on each level or step", count, 1)
    option(parser, "--settle SAMPLES", "samples left out after each step", whole, 0)
    option(parser, "--interval SECONDS", "length of a sample", number, 1.0)
    option(parser, "--trace FOLDER", "where the trace goes", required=True)
    option(parser, "--group GROUP", "the group's name in the trace (default: the queue's)")
    option(parser, "--seed SEED", "seed of the random levels", whole, 1)


def run(arguments: Namespace) -> int:
    """Run the plan with a progress bar and say what was recorded."""
    from controlmq.clients.stopping import Stop
    from controlmq.traces import TraceWriter

    if arguments.settle >= arguments.samples_per_level and arguments.settle:
        raise InputError(
            f"--settle {arguments.settle} leaves nothing of {arguments.samples_per_level} samples "
            "a level; give a larger --samples-per-level."
        )
    above_zero("interval", arguments.interval)
    levels = plan_of(arguments)
    per_level = arguments.samples_per_level
    taken = rows = starved = 0
    stop = Stop()
    with (
        TraceWriter(Path(arguments.trace), rows_per_file=600, every_row=True) as writer,
        progress_bar("collecting", total=len(levels) + 1) as update,
    ):

        def record(row: Transition) -> None:
            nonlocal rows, starved
            # Row number k of the plan belongs to level k // per_level.
            if (taken - 1) % per_level >= arguments.settle:
                writer(row)
                rows += 1
                starved += not row.window_limited

        def on_step(step: Step) -> None:
            nonlocal taken
            taken += 1
            text = f"prefetch {step.sample.prefetch:.2f}: {step.sample.rate:.0f} msg/s"
            update(advance=1, description=text)
            if taken > len(levels):
                stop.ask()

        consume_from(
            arguments,
            stop,
            reconnect=False,  # a trace with a gap in its plan is of no use
            controller=OpenLoop(levels),
            prefetch=levels[0],
            limits=Limits(0.0, max(*levels, 1.0)),
            record=record,
            group=arguments.group,
            on_step=on_step,
        )
    interrupted = stop.by_signal
    if arguments.json:
        found = {"trace": arguments.trace, "rows": rows, "rows_starved": starved}
        print_json(found | {"interrupted": interrupted})
    else:
        early = ", stopped early" if interrupted else ""
        say(console(), f"{rows} rows in {arguments.trace}, {starved} of them starved{early}")
    return 130 if interrupted else 0


def plan_of(arguments: Namespace) -> list[float]:
    """The prefetch of every sample."""
    per_level = arguments.samples_per_level
    if arguments.steps:
        low, high = arguments.steps
        return ramp(low, high, per_level)
    low, high = arguments.levels
    drawn = random_levels(low, high, arguments.samples, arguments.seed)
    return [level for level in drawn for _ in range(per_level)]
