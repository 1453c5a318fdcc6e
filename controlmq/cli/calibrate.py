"""``controlmq calibrate``: measure a live broker and write a scenario that behaves like it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from controlmq.checks import above_zero, prefetch_count
from controlmq.cli.arguments import count, number, option, whole
from controlmq.cli.live import TLS, add_url, broker_url
from controlmq.cli.output import console, print_json, progress_bar, say
from controlmq.errors import InputError
from controlmq.experiments.calibrated_scenario import comment_of, scenario_of
from controlmq.extras import Needs, needs
from controlmq.replacing import write_atomically

SHORTEST_CALIBRATION_SECONDS = 1.0
"""Below this a calibration would measure too few messages."""

SUMMARY = "measure a live broker for simulations"
NEEDS: Needs = needs("simulation")

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


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    add_url(parser)
    option(parser, "--out FILE", "the scenario to write", default="calibrated.toml")
    option(parser, "--duration SECONDS", "about how long to measure", number, 90.0)
    meaning = "work of the scenario's consumer for a message"
    option(parser, "--work SECONDS", meaning, number, 0.001)
    option(parser, "--prefetch PREFETCH", "prefetch of that consumer", number, 10.0)
    option(parser, "--rate RATE", "messages/second published in the scenario", number)
    option(parser, "--size BYTES", "bytes of a message", whole, 256)
    option(parser, "--cores CORES", "cores of the broker", count, 1)


def run(arguments: Namespace) -> int:
    """Measure with a progress bar; write the scenario and say what was found."""
    from controlmq.measure.calibration import calibrate
    from simulator.scenario.toml_text import scenario_text

    _check(arguments)
    with progress_bar("calibrating", total=1.0) as update:

        def progress(what: str, share: float) -> None:
            update(completed=share, description=f"measured: {what}")

        found = calibrate(broker_url(arguments), arguments.duration, progress)
    asked = ("work", "prefetch", "rate", "size", "cores")
    scenario = scenario_of(found, **{name: getattr(arguments, name) for name in asked})
    comment = comment_of(found)
    write_atomically(Path(arguments.out), scenario_text(scenario, comment))
    if arguments.json:
        print_json({"scenario": arguments.out, "measured": asdict(found)})
    else:
        view = console()
        say(view, comment)
        say(view, f"written to {arguments.out}; try: controlmq simulate {arguments.out}")
    return 0


def _check(arguments: Namespace) -> None:
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


def _try_out(arguments: Namespace) -> None:
    """Build what the scenario will make of each option, so that a bad one is named."""
    from simulator import Broker, Duration, Publishers

    every = Duration(1.0)
    made: dict[str, Callable[[], object]] = {
        "work": lambda: Duration(arguments.work),
        "rate": lambda: Publishers("publisher", "queue", Duration(1 / arguments.rate)),
        "size": lambda: Publishers("publisher", "queue", every, message_size=arguments.size),
        "cores": lambda: Broker(cores=arguments.cores),
    }
    for name, make in made.items():
        value = getattr(arguments, name)
        try:
            if value is not None:
                make()
        except InputError as error:
            raise InputError(f"--{name} {value:g} does not fit a scenario: {error}") from None
