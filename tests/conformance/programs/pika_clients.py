"""pika: blocking, select and asyncio connections, made again whenever they are lost."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pika
import pika.exceptions
from pika.adapters.asyncio_connection import AsyncioConnection

import controlmq
from tests.conformance.program import LOOK_EVERY_SECONDS, RECONNECT_SECONDS, Program

LOST = (pika.exceptions.AMQPError, OSError)


def subscribe(program: Program, channel: Any, last: list[Any]) -> None:
    """Wrap a channel, which goes on from the ``last`` one, and consume on it."""

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        program.handle(int(body))
        channel.basic_ack(method.delivery_tag)

    controlmq.wrap(channel, go_on_from=last[0] if last else None, **program.settings)
    last[:] = [channel]
    channel.basic_consume(program.queue, on_message)


def again_and_again(program: Program, connect: Callable[[Program, list[Any]], None]) -> None:
    """One connection after another, until it is time to stop."""
    last: list[Any] = []
    while not program.stopping:
        try:
            connect(program, last)
        except LOST as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            time.sleep(RECONNECT_SECONDS)


def run_blocking(program: Program) -> None:
    """``BlockingConnection``."""
    again_and_again(program, connect_blocking)


def connect_blocking(program: Program, last: list[Any]) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(program.url))
    with contextlib.closing(connection):
        channel = connection.channel()
        subscribe(program, channel, last)

        def look() -> None:
            if channel.is_open and program.stopping:
                channel.stop_consuming()
            elif channel.is_open:
                connection.call_later(LOOK_EVERY_SECONDS, look)

        look()
        channel.start_consuming()


def run_select(program: Program) -> None:
    """``SelectConnection``."""
    again_and_again(program, partial(connect_asynchronously, pika.SelectConnection))


def run_asyncio(program: Program) -> None:
    """``AsyncioConnection``."""

    def connect(program: Program, last: list[Any]) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        connect_asynchronously(AsyncioConnection, program, last)

    again_and_again(program, connect)


def connect_asynchronously(kind: Any, program: Program, last: list[Any]) -> None:
    """One connection of pika with callbacks, until it ends or is to stop."""
    ends: list[BaseException] = []

    def on_open(connection: Any) -> None:
        connection.channel(on_open_callback=on_channel)

    def on_channel(channel: Any) -> None:
        channel.add_on_cancel_callback(lambda _: connection.close())
        subscribe(program, channel, last)
        look()

    def on_closed(connection: Any, reason: BaseException) -> None:
        ends.append(reason)
        connection.ioloop.stop()

    def look() -> None:
        if program.stopping and connection.is_open:
            connection.close()
        elif not program.stopping:
            connection.ioloop.call_later(LOOK_EVERY_SECONDS, look)

    connection = kind(
        pika.URLParameters(program.url),
        on_open_callback=on_open,
        on_open_error_callback=on_closed,
        on_close_callback=on_closed,
    )
    loop = connection.ioloop
    loop.run_forever() if hasattr(loop, "run_forever") else loop.start()
    if not isinstance(ends[0], pika.exceptions.ConnectionClosedByClient):
        raise ends[0]
