"""``controlmq calibrate``: measure a live broker and write a scenario that behaves like it."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from controlmq.checks import above_zero, prefetch_count
from controlmq.cli.arguments import Commands, count, new_command, number, seed
from controlmq.cli.live import TLS, add_url, broker_url
from controlmq.cli.output import console, print_json, say
from controlmq.errors import InputError
from controlmq.experiments.calibrated_scenario import comment_of, scenario_of
from controlmq.replacing import write_atomically

SHORTEST_CALIBRATION_SECONDS = 1.0
"""Below this a calibration would measure too few messages."""

TEACHING = f"""\
Measures, from here, what messages cost on this broker, this client and the network between:
round trip, publishing, delivering and acknowledging by message and by byte, what a consumer
takes beyond its work, copies to several queues, persistence. Run it where your consumer runs,
while neither is busy. It publishes to durable queues of its own and deletes them afterwards;
Ctrl-C stops it, and they are deleted too.

The scenario it writes has one consumer, described by --work and --prefetch; without --rate more
is published than it can take. Change it as you like: docs/simulator.md has all words.

{TLS}
examples:
  controlmq calibrate --out calibrated.toml
  controlmq calibrate --url amqp://host --work 0.003 --prefetch 20 --rate 100 --out mine.toml
  controlmq simulate calibrated.toml --ramp 1 40 --plot curve.svg
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(commands, "calibrate", "measure a live broker for simulations", TEACHING)
    add_url(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        default="calibrated.toml",
        help="the scenario (default calibrated.toml)",
    )
    parser.add_argument(
        "--duration",
        type=number,
        default=90.0,
        metavar="SECONDS",
        help="how long to measure, about (default 90)",
    )
    parser.add_argument(
        "--work",
        type=number,
        default=0.001,
        metavar="SECONDS",
        help="of the scenario's consumer a message (default 0.001)",
    )
    parser.add_argument("--prefetch", type=number, default=10.0, help="of it (default 10)")
    parser.add_argument("--rate", type=number, help="messages/second published in the scenario")
    parser.add_argument("--size", type=seed, default=256, help="bytes of a message (default 256)")
    parser.add_argument("--cores", type=count, default=1, help="of the broker (default 1)")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Measure with a progress bar; write the scenario and say what was found."""
    from rich.progress import Progress

    from controlmq.measure.calibration import calibrate
    from simulator.scenario.toml_text import scenario_text

    _check(arguments)
    with Progress(console=console(to_stderr=True), transient=True) as bar:
        task = bar.add_task("calibrating", total=1.0)

        def progress(what: str, share: float) -> None:
            bar.update(task, completed=share, description=f"measured: {what}")

        found = calibrate(broker_url(arguments), arguments.duration, progress)
    scenario = scenario_of(
        found,
        work=arguments.work,
        prefetch=arguments.prefetch,
        rate=arguments.rate,
        size=arguments.size,
        cores=arguments.cores,
    )
    comment = comment_of(found)
    write_atomically(Path(arguments.out), scenario_text(scenario, comment))
    if arguments.json:
        print_json({"scenario": arguments.out, "measured": asdict(found)})
    else:
        view = console()
        say(view, comment)
        say(view, f"written to {arguments.out}; try: controlmq simulate {arguments.out}")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse bad options before the measurement, not after it."""
    if arguments.duration < SHORTEST_CALIBRATION_SECONDS:
        raise InputError(
            f"--duration is {arguments.duration:g}; give {SHORTEST_CALIBRATION_SECONDS:g} seconds "
            "or more."
        )
    above_zero("--work", arguments.work)
    prefetch_count("--prefetch", above_zero("--prefetch", arguments.prefetch))
    if arguments.rate is not None:
        above_zero("--rate", arguments.rate)
    _try_out(arguments)
    if not Path(arguments.out).parent.is_dir():
        raise InputError(f"there is no folder for {arguments.out}; make it first.")
    if Path(arguments.out).is_dir():
        raise InputError(f"{arguments.out} is a folder; give the name of a file in it.")


def _try_out(arguments: argparse.Namespace) -> None:
    """Build what the scenario will make of each option, so that a bad one is named."""
    from simulator import Broker, Duration, Publishers

    every = Duration(1.0)
    made: dict[str, Callable[[], object]] = {
        "work": lambda: Duration(arguments.work),
        "rate": lambda: Publishers("publisher", "queue", Duration(1 / arguments.rate)),
        "size": lambda: Publishers("publisher", "queue", every, message_size=arguments.size),
        "cores": lambda: Broker(cores=arguments.cores),
    }
    for option, make in made.items():
        value = getattr(arguments, option)
        try:
            if value is not None:
                make()
        except InputError as error:
            raise InputError(f"--{option} {value:g} does not fit a scenario: {error}") from None
