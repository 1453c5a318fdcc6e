"""``controlmq load``: publish a load to a queue."""

from __future__ import annotations

import argparse
import dataclasses
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from controlmq.cli.arguments import Commands, count, new_command, number, seed
from controlmq.cli.live import TLS, add_broker, broker_url
from controlmq.cli.output import console, print_json, say
from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.measure.load import Load

TEACHING = f"""\
Publishes to the queue through the default exchange until --duration or --count is over, or
until Ctrl-C. --rate is the total; it is shared by --publishers. --burst START LENGTH FACTOR
multiplies the rate for a while, 0 pauses; it may be given several times. --experiment rosa is
the published load: 25 publishers, one message of 256 bytes every 10 ms, sd 1 ms.

{TLS}
examples:
  controlmq load --queue test --declare --experiment rosa --duration 60
  controlmq load --queue orders --rate 500 --size 1000 --count 10000
  controlmq load --queue orders --rate 500 --duration 120 --burst 30 10 0 --burst 40 10 3
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(commands, "load", "publish a load to a queue", TEACHING)
    add_broker(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--rate", type=number, help="messages/second")
    what.add_argument("--experiment", help="a published load by name: rosa")
    parser.add_argument("--publishers", type=count, help="how many share the rate (default 1)")
    parser.add_argument(
        "--sd", type=number, help="of the time between two publishes of one, seconds (default 0)"
    )
    parser.add_argument("--size", type=seed, help="bytes of a message (default 256)")
    parser.add_argument(
        "--burst",
        nargs=3,
        type=number,
        action="append",
        default=[],
        metavar=("START", "LENGTH", "FACTOR"),
    )
    parser.add_argument("--duration", type=number, metavar="SECONDS")
    parser.add_argument("--count", type=count, metavar="MESSAGES")
    parser.add_argument("--persistent", action="store_true", help="messages survive a restart")
    parser.add_argument("--declare", action="store_true", help="create the queue, durable")
    parser.add_argument("--seed", type=seed, default=1)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Publish with a progress bar; say how many, and whether the plan could be kept."""
    from rich.progress import Progress

    from controlmq.clients.pika.connecting import check_queue, connection_to
    from controlmq.clients.stopping import Stop, signals
    from controlmq.measure.publish_load import BEHIND_AFTER_SECONDS, publish

    load = load_of(arguments)
    elapsed, behind = 0.0, 0.0
    stop = Stop()
    with connection_to(broker_url(arguments)) as connection:
        check_queue(connection, arguments.queue, declare=arguments.declare)
        with Progress(console=console(to_stderr=True), transient=True) as bar, signals(stop):
            task = bar.add_task("publishing", total=arguments.count or arguments.duration)

            def progress(sent: int, now: float, now_behind: float) -> None:
                nonlocal elapsed, behind
                elapsed, behind = now, now_behind
                done = sent if arguments.count else min(now, arguments.duration or now)
                late = f", {behind:.1f} s behind" if behind > BEHIND_AFTER_SECONDS else ""
                bar.update(task, completed=done, description=f"{sent} messages{late}")

            sent = publish(
                connection,
                arguments.queue,
                load,
                duration=arguments.duration,
                count=arguments.count,
                persistent=arguments.persistent,
                seed=arguments.seed,
                stop=stop,
                progress=progress,
            )
    if arguments.json:
        print_json(
            {
                "queue": arguments.queue,
                "published": sent,
                "seconds": elapsed,
                "behind": behind,
                "interrupted": stop.by_signal,
            }
        )
    else:
        late = f", {behind:.1f} s behind the plan" if behind > BEHIND_AFTER_SECONDS else ""
        say(console(), f"{sent} messages published to {arguments.queue} in {elapsed:.1f} s{late}")
    return 130 if stop.by_signal else 0


def load_of(arguments: argparse.Namespace) -> Load:
    """The load that the arguments describe."""
    from controlmq.measure.load import EXPERIMENTS, Burst, Load

    bursts = tuple(Burst(*burst) for burst in arguments.burst)
    if arguments.experiment is not None:
        given = [name for name in ("publishers", "sd", "size") if getattr(arguments, name)]
        if given:
            raise InputError(f"--experiment already says --{given[0]}; give one of the two.")
        if arguments.experiment not in EXPERIMENTS:
            known = ", ".join(EXPERIMENTS)
            raise InputError(f"no experiment {arguments.experiment!r}; there is {known}.")
        return dataclasses.replace(EXPERIMENTS[arguments.experiment], bursts=bursts)
    if arguments.rate <= 0:
        raise InputError(f"--rate is {arguments.rate:g}; give messages/second above 0.")
    publishers = arguments.publishers or 1
    return Load(
        publishers=publishers,
        mean=publishers / arguments.rate,
        sd=arguments.sd or 0.0,
        size=256 if arguments.size is None else arguments.size,
        bursts=bursts,
    )
