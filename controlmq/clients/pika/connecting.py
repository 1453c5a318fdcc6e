"""Connecting by URL, once, without ever letting a password out.

Connecting again after a connection is lost is in :mod:`controlmq.clients.pika.service`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pika
from pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from controlmq.errors import ControlmqError, InputError
from controlmq.urls import shown

DEFAULT_URL = "amqp://guest:guest@localhost:5672/%2F"

REFUSALS = (AuthenticationError, ProbableAuthenticationError, ProbableAccessDeniedError)
"""What pika raises where a broker answers and does not let the user in."""


class UnreachableError(ControlmqError):
    """No broker answers; one may answer later."""


class RefusedError(ControlmqError):
    """The broker answers and refuses what was asked; somebody has to change something."""


def url_parameters(url: str) -> pika.URLParameters:
    """What pika makes of a URL. ``amqps`` checks the server's certificate, whatever else it says.

    Left to themselves, pika before 1.3.2 and some of its options would not.
    """
    if url.partition("://")[0] not in ("amqp", "amqps"):
        raise InputError(f"the URL {shown(url)} is not one of AMQP; give amqp:// or amqps://.")
    try:
        parameters = pika.URLParameters(url)
    except Exception as error:
        # pika checks a URL's parts with whatever exception their parser has.
        raise InputError(
            f"the URL {shown(url)} is not one that pika takes ({type(error).__name__})."
        ) from None
    if parameters.ssl_options is not None:
        # Asks for a valid certificate, too.
        parameters.ssl_options.context.check_hostname = True
    return parameters


def connect(url: str) -> pika.BlockingConnection:
    """A connection; what keeps it from being made is told in one sentence."""
    parameters = url_parameters(url)
    # pika logs every failed attempt at length; the one sentence below says it all.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    try:
        return pika.BlockingConnection(parameters)
    except (AMQPError, OSError, ValueError) as error:  # the last: reset as soon as accepted
        refused = isinstance(error, REFUSALS)
        raise (RefusedError if refused else UnreachableError)(
            f"cannot connect to {shown(url)}: {reason(error)}; is a broker running there, and "
            "do user and password fit?"
        ) from None


@contextmanager
def connection_to(url: str) -> Iterator[pika.BlockingConnection]:
    """A connection for a ``with`` block, closed at its end."""
    connection = connect(url)
    try:
        yield connection
    except (AMQPError, OSError) as error:
        raise ControlmqError(
            f"lost {shown(url)}: {reason(error)}; messages in flight went back to their queue, "
            "start again."
        ) from None
    finally:
        if connection.is_open:
            connection.close()


def check_queue(connection: pika.BlockingConnection, queue: str, *, declare: bool = False) -> int:
    """How many messages wait in ``queue``, which must exist or be declared durable here."""
    channel = connection.channel()
    try:
        if declare:
            answer = channel.queue_declare(queue, durable=True)
        else:
            answer = channel.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as error:
        raise RefusedError(
            f"queue {queue!r}: {error.reply_text}; check its name and arguments, or declare it."
        ) from None
    channel.close()
    return int(answer.method.message_count)


def reason(error: BaseException) -> str:
    """The deepest cause that says something; pika wraps the interesting one in others."""
    text = ""
    seen: BaseException | None = error
    while seen is not None:
        inner = getattr(seen, "exception", None) or (seen.args[0] if seen.args else None)
        if isinstance(inner, BaseException):
            seen = inner
            continue
        text = str(seen)
        break
    return (text or type(error).__name__).rstrip(".")
