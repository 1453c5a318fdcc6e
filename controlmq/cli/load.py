"""``controlmq load``: publish a load to a queue."""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from controlmq.cli.arguments import count, number, option, whole
from controlmq.cli.live import TLS, add_broker, broker_url
from controlmq.cli.output import console, print_json, progress_bar, say
from controlmq.errors import InputError
from controlmq.extras import Needs

if TYPE_CHECKING:
    from controlmq.measure.load import Load

SUMMARY = "publish a load to a queue"
NEEDS: Needs = {"reports": ["rich"]}

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


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    add_broker(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    option(what, "--rate RATE", "messages/second", number)
    option(what, "--experiment NAME", "a published load by name: rosa")
    option(parser, "--publishers PUBLISHERS", "how many share the rate (default 1)", count)
    meaning = "sd of the time between two publishes of one publisher (default 0)"
    option(parser, "--sd SECONDS", meaning, number)
    option(parser, "--size BYTES", "bytes of a message (default 256)", whole)
    meaning = "from START for LENGTH seconds, multiply the rate by FACTOR (may be repeated)"
    option(parser, "--burst START LENGTH FACTOR", meaning, number, action="append")
    option(parser, "--duration SECONDS", "stop after this time (default: never)", number)
    option(parser, "--count MESSAGES", "stop after this many messages (default: never)", count)
    option(parser, "--persistent", "messages survive a restart of the broker")
    option(parser, "--declare", "create the queue, durable")
    option(parser, "--seed SEED", "seed of the times between publishes", whole, 1)


def run(arguments: Namespace) -> int:
    """Publish with a progress bar; say how many, and whether the plan could be kept."""
    from controlmq.clients.pika.connecting import check_queue, connection_to
    from controlmq.clients.stopping import Stop, signals
    from controlmq.measure.publish_load import BEHIND_AFTER_SECONDS, publish

    load = load_of(arguments)
    elapsed, behind = 0.0, 0.0
    stop = Stop()
    with connection_to(broker_url(arguments)) as connection:
        check_queue(connection, arguments.queue, declare=arguments.declare)
        total = arguments.count or arguments.duration
        with progress_bar("publishing", total) as update, signals(stop):

            def progress(sent: int, now: float, now_behind: float) -> None:
                nonlocal elapsed, behind
                elapsed, behind = now, now_behind
                done = sent if arguments.count else min(now, arguments.duration or now)
                late = f", {behind:.1f} s behind" if behind > BEHIND_AFTER_SECONDS else ""
                update(completed=done, description=f"{sent} messages{late}")

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
        found = {"queue": arguments.queue, "published": sent, "seconds": elapsed}
        print_json(found | {"behind": behind, "interrupted": stop.by_signal})
    else:
        late = f", {behind:.1f} s behind the plan" if behind > BEHIND_AFTER_SECONDS else ""
        say(console(), f"{sent} messages published to {arguments.queue} in {elapsed:.1f} s{late}")
    return 130 if stop.by_signal else 0


def load_of(arguments: Namespace) -> Load:
    """The load that the arguments describe."""
    from controlmq.measure.load import EXPERIMENTS, Burst, Load

    bursts = tuple(Burst(*burst) for burst in arguments.burst or ())
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
