"""Arguments that the commands on a live broker share, and the start of their service."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import count, number, option
from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.clients.pika.user_handler import Handler
    from controlmq.clients.stopping import Stop

URL_VARIABLE = "CONTROLMQ_URL"
"""The environment variable for the URL: everyone who lists processes sees arguments."""

TLS = """\
The URL is pika's: amqps:// connects with TLS and checks the server's certificate; options such
as heartbeat, ssl_options and virtual host go into it. Without --url it is taken from
CONTROLMQ_URL, else it is amqp://guest:guest@localhost:5672/%2F. No password is ever printed.
"""

SEVERAL_URLS = f"""\
{TLS.rstrip()}
Of several URLs, in --url or in CONTROLMQ_URL with blanks between them, the first that answers is
used.
"""


def add_url(parser: ArgumentParser) -> None:
    """``--url``."""
    option(parser, "--url URL", "the broker, as pika takes it (default: see below)")


def add_queue(parser: ArgumentParser) -> None:
    """``--queue``."""
    option(parser, "--queue QUEUE", "the queue's name", required=True)


def add_broker(parser: ArgumentParser) -> None:
    """``--url`` and ``--queue``."""
    add_url(parser)
    add_queue(parser)


def add_consumer(parser: ArgumentParser) -> None:
    """The queue, and what is done with each of its messages."""
    meaning = "the broker, as pika takes it, or several to try in turn (default: see below)"
    option(parser, "--url URL...", meaning, action="extend")
    add_queue(parser)
    either = parser.add_mutually_exclusive_group(required=True)
    meaning = "called with each message's body and properties; acknowledged when it returns"
    option(either, "--handler MODULE:FUNCTION", meaning)
    meaning = "instead of a handler: wait this long for each message and drop it"
    option(either, "--work SECONDS", meaning, number)
    option(parser, "--workers WORKERS", "threads that run the handler", count, 1)
    meaning = "single for single-active and exclusive consumers and streams"
    option(parser, "--window", meaning, default="auto", choices=("auto", "lanes", "single"))


def broker_urls(arguments: Namespace) -> list[str]:
    """The broker's URLs, from the arguments or the environment."""
    from controlmq.clients.pika.connecting import DEFAULT_URL

    given = arguments.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    # An option inside a URL may have blanks too.
    return given if isinstance(given, list) else re.split(r"\s+(?=amqps?://)", given.strip())


def broker_url(arguments: Namespace) -> str:
    """The broker's URL, or the first of several."""
    return broker_urls(arguments)[0]


def consume_from(arguments: Namespace, stop: Stop, **how: Any) -> None:
    """Consume the queue that the arguments name until ``stop`` or a signal asks to stop."""
    from controlmq.clients.pika.service import Service
    from controlmq.clients.stopping import signals

    service = Service(
        broker_urls(arguments),
        arguments.queue,
        _handler(arguments),
        stop=stop,
        workers=arguments.workers,
        window=arguments.window,
        interval=arguments.interval,
        **how,
    )
    with signals(stop):
        service.run()


def _handler(arguments: Namespace) -> Handler:
    from controlmq.clients.pika.user_handler import load_handler, work_of

    if arguments.handler:
        return load_handler(arguments.handler)
    if arguments.work < 0:
        raise InputError(f"--work is {arguments.work:g}; give 0 seconds or more.")
    return work_of(arguments.work)
