"""The log of consumers that share a rate, on a channel of aiormq of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from aiormq import exceptions
from pamqp import commands as spec
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from controlmq.clients.aio_pika.outbox import Outbox
from controlmq.clients.shared_goal import (
    LOOK_AT_STREAM_SECONDS,
    NEW_STREAM_SECONDS,
    PREFETCH_RECORDS,
    STREAM_ARGUMENTS,
    SharedGoal,
)

CODES = {
    exceptions.ChannelAccessRefused: 403,
    exceptions.ChannelLockedResource: 405,
    exceptions.ChannelPreconditionFailed: 406,
}


class AioPikaLog:
    """A stream that is read from its end on; ``opening`` is done when that works or has failed."""

    def __init__(self, channel: Any, stream: str, reader: SharedGoal) -> None:
        self._loop = channel.loop
        self._connection = channel.connection
        self._stream = stream
        self._reader = reader
        self._channel: Any = None
        self._outbox: Outbox | None = None
        self._wanted = True
        self.opening = self._loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            channel = self._channel = await self._connection.channel(publisher_confirms=False)
            arguments = STREAM_ARGUMENTS
            stream = await channel.queue_declare(self._stream, durable=True, arguments=arguments)
            read_at = self._loop.time() + random.uniform(*NEW_STREAM_SECONDS)
            while not stream.message_count and self._loop.time() < read_at:
                await asyncio.sleep(LOOK_AT_STREAM_SECONDS)
                stream = await channel.queue_declare(self._stream, passive=True)
            await channel.basic_qos(prefetch_count=PREFETCH_RECORDS)
            self._outbox = Outbox(channel)
            await channel.basic_consume(
                self._stream, self._on_message, arguments={"x-stream-offset": "next"}
            )
        except (exceptions.AMQPError, ConnectionError, RuntimeError) as error:
            self._lost(error)
            return
        channel.closing.add_done_callback(
            lambda done: self._lost(None if done.cancelled() else done.exception())
        )
        if self._wanted:
            self._reader.opened()
        else:
            await channel.close()

    async def _on_message(self, message: Any) -> None:
        # Nothing is awaited, so records are read in order.
        if self._wanted and self._outbox is not None:
            self._outbox.put(spec.Basic.Ack(message.delivery.delivery_tag))
            position = int(message.header.properties.headers["x-stream-offset"])
            self._reader.read(position, message.body)

    def _lost(self, error: BaseException | None) -> None:
        if self._wanted:
            self._wanted = False
            self._reader.lost(
                str(error),
                code=CODES.get(type(error)),
                connected=bool(self._connection.is_opened),
            )

    def append(self, record: bytes) -> None:
        """Publish a record through the default exchange."""
        if self._outbox is not None and not self._channel.is_closed:
            properties = spec.Basic.Properties()
            self._outbox.put(
                spec.Basic.Publish(routing_key=self._stream),
                ContentHeader(body_size=len(record), properties=properties),
                ContentBody(record),
            )

    def close(self) -> None:
        """Have a task close the channel as soon as what was appended is written."""
        self._wanted = False
        if self._outbox is not None and not self._channel.is_closed:
            self._closing = self._loop.create_task(self._close(self._outbox))

    async def _close(self, outbox: Outbox) -> None:
        await outbox.written()
        await self._channel.close()

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set a timer of the event loop."""
        return self._loop.call_later(delay, callback)

    def cancel_timer(self, timer: Any) -> None:
        """Remove the timer from the event loop."""
        timer.cancel()
