"""Arguments that the commands on a live broker share."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import count, number, option
from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.clients.pika.user_handler import Handler

URL_VARIABLE = "CONTROLMQ_URL"
"""The environment variable for the URL: everyone who lists processes sees arguments."""

TLS = """\
The URL is pika's: amqps:// connects with TLS and checks the server's certificate; options such
as heartbeat, ssl_options and virtual host go into it. Without --url it is taken from
CONTROLMQ_URL, else it is amqp://guest:guest@localhost:5672/%2F. No password is ever printed.
"""


def add_url(parser: ArgumentParser) -> None:
    """``--url``."""
    option(parser, "--url URL", "the broker, as pika takes it (default: see below)")


def add_broker(parser: ArgumentParser) -> None:
    """``--url`` and ``--queue``."""
    add_url(parser)
    option(parser, "--queue QUEUE", "the queue's name", required=True)


def add_consumer(parser: ArgumentParser) -> None:
    """The queue, and what is done with each of its messages."""
    add_broker(parser)
    either = parser.add_mutually_exclusive_group(required=True)
    meaning = "called with each message's body and properties; acknowledged when it returns"
    option(either, "--handler MODULE:FUNCTION", meaning)
    meaning = "instead of a handler: wait this long for each message and drop it"
    option(either, "--work SECONDS", meaning, number)
    option(parser, "--workers WORKERS", "threads that run the handler", count, 1)
    meaning = "single for single-active and exclusive consumers and streams"
    option(parser, "--window", meaning, default="auto", choices=("auto", "lanes", "single"))


def broker_url(arguments: Namespace) -> str:
    """The broker's URL, from the arguments or the environment."""
    from controlmq.clients.pika.connecting import DEFAULT_URL

    return str(arguments.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)


def consume_from(arguments: Namespace, **how: Any) -> bool:
    """Consume the queue that the arguments name; whether a signal ended it."""
    from controlmq.clients.pika.ready_consumer import consume

    return consume(
        broker_url(arguments),
        arguments.queue,
        _handler(arguments),
        workers=arguments.workers,
        window=arguments.window,
        interval=arguments.interval,
        **how,
    )


def _handler(arguments: Namespace) -> Handler:
    from controlmq.clients.pika.user_handler import load_handler, work_of

    if arguments.handler:
        return load_handler(arguments.handler)
    if arguments.work < 0:
        raise InputError(f"--work is {arguments.work:g}; give 0 seconds or more.")
    return work_of(arguments.work)
