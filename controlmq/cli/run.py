"""``controlmq run``: a ready consumer that holds its goal."""

from __future__ import annotations

import json
import math
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from controlmq.cli.arguments import count, number, option
from controlmq.cli.live import SEVERAL_URLS, add_consumer, consume_from
from controlmq.cli.observing import add_observing, serve_observers
from controlmq.cli.output import fail
from controlmq.controllers.limits import Limits
from controlmq.errors import InputError
from controlmq.extras import Needs, needs
from controlmq.goals import WORDS
from controlmq.loop import Step

SUMMARY = "consume a queue and hold a goal"
NEEDS: Needs = needs()

TEACHING = f"""\
Without any goal the consumer finds the least prefetch that loses no throughput; with --prefetch
alone it stays there. Goals combine: the smallest prefetch that one of them asks for is in force.
A goal alone needs no model; --controller holds it by a law of your own.

A connection that is lost is made again, after pauses that grow from 0.2 to 30 s; prefetch and
controller go on where they were.

SIGTERM and Ctrl-C cancel the consumer, let handlers at work finish within --grace seconds and
acknowledge what is handled; heartbeats go on, because handlers run in threads of their own.
A second one ends it at once.

What a handler that raises means is --on-error:
  stop     (default) the message goes back to the queue and the command ends with code 1
  requeue  the message goes back after a pause of 1 s, doubled up to 30 s with each of its tries;
           one that fails ten times, or keeps coming back, is rejected
  reject   the message is rejected: it goes to the dead-letter exchange of its queue, and is
           dropped where there is none

--health-file exists while messages can be consumed and is written again every second;
--health-port answers with 200 or 503 on 127.0.0.1. CONTROLMQ_OFF and CONTROLMQ_OFF_FILE switch
adapting off (docs/runbook.md).

exit codes:
  0    stopped by a signal or --samples; all that was handled is acknowledged
  1    not to be started again as it is: a handler failed with --on-error stop, the queue is not
       there, or the broker refuses the user
  2    an option, a file or the handler's name is wrong
  75   try again: no broker answered at the start, or messages were left unacknowledged because
       handlers took longer than --grace or the connection was lost while stopping
  130  interrupted by a second Ctrl-C or SIGTERM

{SEVERAL_URLS}
examples:
  controlmq run --queue orders --handler shop.orders:handle
  controlmq run --queue orders --goal 400/s --handler shop.orders:handle
  controlmq run --queue orders --at-most 5/minute --handler shop.orders:handle
  controlmq run --queue orders --at-most 100 --shared orders --handler shop.orders:handle
  controlmq run --queue orders --buffer-time "100 ms" --protect --handler shop.orders:handle
  controlmq run --queue orders --goal 400 --controller model.json --handler shop.orders:handle
  controlmq run --queue orders --goal 50 --controller pi.json --handler shop:handle --workers 8
  controlmq run --queue orders --goal 400 --handler shop:handle --url amqp://a amqp://b \\
      --on-error requeue --grace 60 --health-file /run/orders.healthy
  controlmq run --queue test --prefetch 20 --work 0.001 --samples 30 --json
  controlmq run --queue orders --goal 400 --handler shop:handle --metrics-port 9464 --dashboard
"""

JSON_KEYS = (
    *("sample", "time", "rate", "goal", "prefetch", "next_prefetch", "in_flight", "held"),
    *("starved", "handler_time", "buffer_time", "handlers", "busy", "turnaround"),
    *("gated", "unused", "told"),
)
"""What a line of JSON says of a sample, in this order."""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    add_consumer(parser)
    option(parser, "--goal RATE", "hold this rate: messages/second, or as in 5/minute")
    option(parser, "--at-most RATE", "never start more than this rate")
    option(parser, "--burst N", "messages that may start at once (default: 50 ms' worth)", number)
    option(parser, "--shared NAME", "--at-most is for all consumers with this name together")
    option(parser, "--buffer-time TIME", "let messages wait here: seconds, or as in '100 ms'")
    option(parser, "--protect", "take less while what is behind the handlers is congested")
    option(parser, "--controller LAW|FILE", "p, pi (default), pid, scale or a file")
    option(parser, "--model FILE", "of p, pi and pid: a model file, as 'identify' writes it")
    option(parser, "--prefetch U", "messages of prefetch to start with", number)
    option(parser, "--limits LOW HIGH", "lowest and highest prefetch", number)
    meaning = "length of a sample (default: the model's, or 1)"
    option(parser, "--interval SECONDS", meaning, number)
    option(parser, "--samples SAMPLES", "stop after this number (default: never)", count)
    option(parser, "--trace FOLDER", "record a trace while running")
    choices = ("stop", "requeue", "reject")
    option(parser, "--on-error", "if a handler raises", default="stop", choices=choices)
    option(parser, "--grace SECONDS", "for handlers to finish when stopping", number, 30.0)
    option(parser, "--health-file FILE", "exists while messages can be consumed")
    option(parser, "--health-port PORT", "on 127.0.0.1: HTTP 200 while they can, else 503", count)
    add_observing(parser)


def run(arguments: Namespace) -> int:
    """Consume, printing a line a sample, until stopped."""
    from controlmq.clients.health import Health
    from controlmq.clients.settings import settings_from
    from controlmq.clients.stopping import Stop

    if (arguments.controller or arguments.model) and arguments.goal is None:
        raise InputError("a controller or a model needs a goal; give --goal in messages/second.")
    goals = {word: getattr(arguments, word) for word in WORDS}
    # Refuses mistakes before anything is opened.
    settings_from(
        **goals,
        shared=arguments.shared,
        controller=arguments.controller,
        model=arguments.model,
        interval=arguments.interval,
        prefetch=arguments.prefetch,
        limits=limits_of(arguments),
    )
    serve_observers(arguments)
    stop = Stop()
    seen = 0

    def on_step(step: Step) -> None:
        nonlocal seen
        seen += 1
        try:
            print(_json_line(step) if arguments.json else _line(step), flush=True)
        except BrokenPipeError:
            stop.ask()  # the reader of our output has closed it
        if seen == arguments.samples:
            stop.ask()

    with ExitStack() as stack:
        record = None
        if arguments.trace:
            from controlmq.traces import TraceWriter

            record = stack.enter_context(
                TraceWriter(Path(arguments.trace), rows_per_file=600, every_row=True)
            )
        return _exit_code(
            lambda: consume_from(
                arguments,
                stop,
                **goals,
                shared=arguments.shared,
                controller=arguments.controller,
                model=arguments.model,
                prefetch=arguments.prefetch,
                limits=limits_of(arguments),
                record=record,
                on_step=on_step,
                on_error=arguments.on_error,
                grace=arguments.grace,
                health=Health(arguments.health_file, arguments.health_port),
            )
        )


def _exit_code(consume: Callable[[], None]) -> int:
    """Consume, and say how that ended; wrong input is left to the caller."""
    from controlmq.clients.pika.connecting import RefusedError, UnreachableError
    from controlmq.clients.pika.dispatching import HandlerError
    from controlmq.clients.pika.service import UnfinishedError

    try:
        consume()
    except (HandlerError, RefusedError) as error:
        return fail(str(error), 1)
    except (UnreachableError, UnfinishedError) as error:
        return fail(str(error), os.EX_TEMPFAIL)
    return 0


def limits_of(arguments: Namespace) -> Limits | None:
    """The limits that the arguments give."""
    return Limits(*arguments.limits) if arguments.limits else None


def _line(step: Step) -> str:
    sample = step.sample
    words = [
        f"{sample.rate:9.1f} msg/s",
        "" if math.isnan(step.goal) else f"goal {step.goal:g}",
        f"prefetch {sample.prefetch:7.3f}",
        f"in flight {sample.in_flight:6.1f}",
        f"held {sample.held:5.1f}",
        "" if sample.window_limited else f"starved {100 * sample.starved:.0f} %",
    ]
    return "  ".join(word for word in words if word)


def _json_line(step: Step) -> str:
    sample = asdict(step.sample) | {"sample": step.sample.number, "rate": step.sample.rate}
    goal = None if math.isnan(step.goal) else step.goal
    known = sample | {"goal": goal, "next_prefetch": step.prefetch, "told": step.told}
    return json.dumps({key: known[key] for key in JSON_KEYS})
