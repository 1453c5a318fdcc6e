"""The ``controlmq`` command: reads the arguments, runs a command, says what went wrong."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from functools import cache

import controlmq
from controlmq.cli import (
    calibrate,
    collect,
    demo,
    design,
    follow,
    identify,
    ingest,
    load,
    run,
    schedule,
    simulate,
    specjms,
    top,
    tournament,
    tune,
)
from controlmq.cli.arguments import keep_negative_numbers
from controlmq.cli.output import fail
from controlmq.errors import ControlmqError
from controlmq.extras import check

COMMANDS = (
    *(demo, run, top, collect, ingest, identify, design, simulate),
    *(tune, tournament, schedule, follow, load, calibrate, specjms),
)
"""In the order of the help; each module says what its command is for and which options it has."""

TEACHING = """\
In the order you meet them:
  controlmq demo        all of it in simulation, with a report: start here
  controlmq collect     a trace of your consumer on its live queue
  controlmq ingest      traces from samples that were measured otherwise
  controlmq identify    a model of your consumer from that trace
  controlmq design      gains for that model, and what the loop will do with them
  controlmq simulate    a controller on a simulated consumer before it meets a real one
  controlmq tune        the best of many controllers, each tried in simulation
  controlmq tournament  laws for goals beside those of other projects, in simulation
  controlmq schedule    a controller for each of several workloads, blended as it runs
  controlmq run         your consumer, holding its goal
  controlmq top         running consumers in a terminal
  controlmq follow      models that keep up with consumers as they run
  controlmq load        messages to try it with
  controlmq calibrate   a simulated broker that behaves like yours
  controlmq specjms     a published workload on a simulated or live broker, with its audit

Every command explains itself with --help and prints data with --json.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the user's mistakes get one sentence."""
    arguments = parsed(sys.argv[1:] if argv is None else argv)
    try:
        check(arguments.needs, f"controlmq {arguments.command}")
        return int(arguments.run(arguments))
    except ControlmqError as error:
        return fail(str(error), 2)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("controlmq", "identification", "simulator"):
            raise
        return fail(
            f"this needs {error.name}, which is not installed; run: pip install 'controlmq[all]'", 2
        )
    except KeyboardInterrupt:
        return fail("stopped.", 130)
    except BrokenPipeError:
        # The reader of our output left; pointing stdout elsewhere keeps the exit quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return fail(str(error), 1)


def parsed(argv: Sequence[str]) -> Namespace:
    """What a command line asks for; argparse ends the process on one that it cannot read."""
    return command_parser().parse_args(keep_negative_numbers(argv))


@cache
def command_parser() -> ArgumentParser:
    """All commands with their options; the reference of the commands is made from it, too."""
    parser = ArgumentParser(
        prog="controlmq",
        description=controlmq.__doc__ and controlmq.__doc__.splitlines()[0],
        epilog=TEACHING,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"controlmq {controlmq.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        added = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=command.SUMMARY[0].upper() + command.SUMMARY[1:] + ".",
            epilog=command.TEACHING,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_options(added)
        added.add_argument("--json", action="store_true", help="print the result as JSON")
        added.set_defaults(run=command.run, needs=command.NEEDS, command=name)
    return parser


if __name__ == "__main__":
    sys.exit(main())
