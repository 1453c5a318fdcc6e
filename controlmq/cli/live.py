"""Arguments that the commands on a live broker share."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from controlmq.cli.arguments import count, number
from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.clients.pika.handling import Handler

URL_VARIABLE = "CONTROLMQ_URL"
"""The environment variable for the URL: everyone who lists processes sees arguments."""

TLS = """\
The URL is pika's: amqps:// connects with TLS and checks the server's certificate; options such
as heartbeat, ssl_options and virtual host go into it. Without --url it is taken from
CONTROLMQ_URL, else it is amqp://guest:guest@localhost:5672/%2F. No password is ever printed.
"""


def add_url(parser: ArgumentParser) -> None:
    """``--url``."""
    parser.add_argument("--url", help="the broker, as pika takes it (default: see below)")


def add_broker(parser: ArgumentParser) -> None:
    """``--url`` and ``--queue``."""
    add_url(parser)
    parser.add_argument("--queue", required=True, help="the queue's name")


def add_handler(parser: ArgumentParser) -> None:
    """What is done with each message, one of two."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument(
        "--handler",
        metavar="MODULE:FUNCTION",
        help="called with each message's body and properties; acknowledged when it returns",
    )
    either.add_argument(
        "--work",
        type=number,
        metavar="SECONDS",
        help="instead of a handler: wait this long for each message and drop it",
    )
    parser.add_argument(
        "--workers", type=count, default=1, help="threads that run the handler (default 1)"
    )
    parser.add_argument(
        "--window",
        choices=("auto", "lanes", "single"),
        default="auto",
        help="single for single-active and exclusive consumers and streams (default auto)",
    )


def broker_url(arguments: Namespace) -> str:
    """The broker's URL, from the arguments or the environment."""
    from controlmq.clients.pika.connecting import DEFAULT_URL

    return str(arguments.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)


def handler_from(arguments: Namespace) -> Handler:
    """The handler that the arguments name."""
    from controlmq.clients.pika.handling import load_handler, work_of

    if arguments.handler:
        return load_handler(arguments.handler)
    if arguments.work < 0:
        raise InputError(f"--work is {arguments.work:g}; give 0 seconds or more.")
    return work_of(arguments.work)
