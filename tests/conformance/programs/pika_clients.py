"""pika: blocking, select and asyncio connections, made again whenever they are lost."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
from pika.adapters.asyncio_connection import AsyncioConnection

import controlmq
from tests.conformance.program import LOOK_EVERY_SECONDS, RECONNECT_SECONDS, Program

LOST = (pika.exceptions.AMQPError, OSError)


def subscribe(program: Program, channel: Any) -> Any:
    """Wrap a channel and consume on it."""

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        program.handle(int(body))
        channel.basic_ack(method.delivery_tag)

    channel = controlmq.wrap(channel, **program.settings)
    channel.basic_consume(program.queue, on_message)
    return channel


def again_and_again(program: Program, connect: Callable[[Program], None]) -> None:
    """One connection after another, until it is time to stop."""
    while not program.stopping:
        try:
            connect(program)
        except LOST as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            time.sleep(RECONNECT_SECONDS)


def run_blocking(program: Program) -> None:
    """``BlockingConnection``."""
    again_and_again(program, connect_blocking)


def connect_blocking(program: Program) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(program.url))
    with contextlib.closing(connection):
        channel = subscribe(program, connection.channel())

        def look() -> None:
            if channel.is_open and program.stopping:
                channel.stop_consuming()
            elif channel.is_open:
                connection.call_later(LOOK_EVERY_SECONDS, look)

        look()
        channel.start_consuming()


def run_select(program: Program) -> None:
    """``SelectConnection``."""
    again_and_again(program, lambda program: connect_asynchronously(program, pika.SelectConnection))


def run_asyncio(program: Program) -> None:
    """``AsyncioConnection``."""

    def connect(program: Program) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        connect_asynchronously(program, AsyncioConnection)

    again_and_again(program, connect)


def connect_asynchronously(program: Program, kind: Any) -> None:
    """One connection of pika with callbacks, until it ends or is to stop."""
    ends: list[BaseException] = []

    def on_open(connection: Any) -> None:
        connection.channel(on_open_callback=on_channel)

    def on_channel(channel: Any) -> None:
        channel.add_on_cancel_callback(lambda _: connection.close())
        subscribe(program, channel)
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
