"""``controlmq run``: a ready consumer that holds its goal."""

from __future__ import annotations

import argparse
import json
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path

from controlmq.cli.arguments import Commands, count, new_command, number
from controlmq.cli.live import TLS, add_broker, add_handler, broker_url, handler_from
from controlmq.controllers.limits import LOWEST_PREFETCH, Limits
from controlmq.controllers.resolve import ControllerSpec
from controlmq.controllers.unmodelled import Unmodelled
from controlmq.errors import InputError
from controlmq.loop import Step

TEACHING = f"""\
With a goal and no controller, an integral law that needs no model takes its gain from the rate
itself, within --limits (0.1 to 250); one made from a model settles sooner and is quieter. With
neither the prefetch stays at --prefetch. Ctrl-C lets the handler at work finish,
acknowledges what is handled and closes the connection; a handler that raises ends the command,
and its message goes back to the queue.

{TLS}
examples:
  controlmq run --queue orders --goal 400 --handler shop.orders:handle
  controlmq run --queue orders --goal 400 --controller model.json --handler shop.orders:handle
  controlmq run --queue orders --goal 50 --controller pi.json --handler shop:handle --workers 8
  controlmq run --queue test --prefetch 20 --work 0.001 --samples 30 --json
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(commands, "run", "consume a queue and hold a goal", TEACHING)
    add_broker(parser)
    add_handler(parser)
    parser.add_argument("--goal", type=number, help="messages/second to hold")
    parser.add_argument(
        "--controller", metavar="LAW|FILE", help="p, pi (default), pid with --model, or a file"
    )
    parser.add_argument("--model", metavar="FILE", help="a model file, as 'identify' writes it")
    parser.add_argument("--prefetch", type=number, metavar="U", help="where to start")
    parser.add_argument(
        "--limits", nargs=2, type=number, metavar=("LOW", "HIGH"), help="of the prefetch"
    )
    parser.add_argument(
        "--interval",
        type=number,
        metavar="SECONDS",
        help="of a sample (default: the model's, or 1)",
    )
    parser.add_argument("--samples", type=count, help="stop after this number (default: never)")
    parser.add_argument("--trace", metavar="FOLDER", help="record a trace while running")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Consume, printing a line a sample, until stopped."""
    from controlmq.clients.pika.ready_consumer import consume

    if arguments.controller and arguments.goal is None:
        raise InputError("a controller needs a goal; give --goal in messages/second.")
    seen = 0

    def on_step(step: Step) -> bool:
        nonlocal seen
        seen += 1
        try:
            print(_json_line(step) if arguments.json else _line(step, arguments.goal), flush=True)
        except BrokenPipeError:
            return False  # the reader of our output has closed it
        return arguments.samples is None or seen < arguments.samples

    with ExitStack() as stack:
        record = None
        if arguments.trace:
            from controlmq.traces import TraceWriter

            record = stack.enter_context(
                TraceWriter(Path(arguments.trace), rows_per_file=600, every_row=True)
            )
        consume(
            broker_url(arguments),
            arguments.queue,
            handler_from(arguments),
            workers=arguments.workers,
            goal=arguments.goal,
            controller=controller_of(arguments),
            model=arguments.model,
            interval=arguments.interval,
            prefetch=arguments.prefetch,
            limits=limits_of(arguments),
            window=arguments.window,
            record=record,
            on_step=on_step,
        )
    return 0


def controller_of(arguments: argparse.Namespace) -> ControllerSpec | None:
    """What was asked for; for a goal alone, the law that needs no model."""
    from controlmq.consumer.consumer import DEFAULT_MAX_HELD

    if arguments.goal is None:
        return None
    limits = limits_of(arguments) or Limits(LOWEST_PREFETCH, DEFAULT_MAX_HELD)
    return arguments.controller or arguments.model or Unmodelled(limits)


def limits_of(arguments: argparse.Namespace) -> Limits | None:
    """The limits that the arguments give."""
    return Limits(*arguments.limits) if arguments.limits else None


def _line(step: Step, goal: float | None) -> str:
    sample = step.sample
    words = [
        f"{sample.rate:9.1f} msg/s",
        f"goal {goal:g}" if goal is not None else "",
        f"prefetch {sample.prefetch:7.3f}",
        f"in flight {sample.in_flight:6.1f}",
        f"held {sample.held:5.1f}",
        "" if sample.window_limited else f"starved {100 * sample.starved:.0f} %",
    ]
    return "  ".join(word for word in words if word)


def _json_line(step: Step) -> str:
    sample = step.sample
    return json.dumps(
        {
            "sample": sample.number,
            "time": sample.time,
            "rate": sample.rate,
            "goal": step.goal,
            "prefetch": sample.prefetch,
            "next_prefetch": step.prefetch,
            "in_flight": sample.in_flight,
            "held": sample.held,
            "starved": sample.starved,
            "handler_time": sample.handler_time,
            "buffer_time": sample.buffer_time,
        }
    )
