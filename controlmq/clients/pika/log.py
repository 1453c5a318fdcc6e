"""The log of consumers that share a rate, on a channel of pika of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pika.exceptions import ChannelClosedByBroker

from controlmq.clients.channel_runner import clock
from controlmq.clients.pika import private
from controlmq.clients.shared_goal import (
    LOOK_AT_STREAM_SECONDS,
    NEW_STREAM_SECONDS,
    PREFETCH_RECORDS,
    STREAM_ARGUMENTS,
    SharedGoal,
)


class PikaLog:
    """A stream that is read from its end on. The channel is asynchronous in any case."""

    def __init__(self, channel: Any, stream: str, reader: SharedGoal) -> None:
        self._stream = stream
        self._reader = reader
        self._wanted = True
        self._read_at = clock() + random.uniform(*NEW_STREAM_SECONDS)
        self._channel = private.further_channel(channel, self._on_open)
        self._channel.add_on_close_callback(self._on_close)

    def append(self, record: bytes) -> None:
        """Publish a record through the default exchange."""
        if self._channel.is_open:
            self._channel.basic_publish("", self._stream, record)

    def close(self) -> None:
        """Close the channel, without waiting for the answer."""
        self._wanted = False
        if self._channel.is_open:
            self._channel.close()

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """A timer of the loop underneath, which a blocking connection runs inside of callbacks."""
        return private.call_later(self._channel, delay, callback)

    def cancel_timer(self, timer: Any) -> None:
        """Remove the timer from the loop."""
        private.cancel_timer(self._channel, timer)

    def _on_open(self, channel: Any) -> None:
        if not self._wanted:
            channel.close()
            return
        channel.add_on_cancel_callback(lambda _frame: channel.close())  # the stream was deleted
        channel.queue_declare(
            self._stream, durable=True, arguments=STREAM_ARGUMENTS, callback=self._on_declared
        )

    def _on_declared(self, frame: Any) -> None:
        if not frame.method.message_count and clock() < self._read_at:
            self.call_later(LOOK_AT_STREAM_SECONDS, self._look)
            return
        self._channel.basic_qos(prefetch_count=PREFETCH_RECORDS)
        self._channel.basic_consume(
            self._stream,
            self._on_message,
            arguments={"x-stream-offset": "next"},
            callback=lambda _frame: self._reader.opened(),
        )

    def _look(self) -> None:
        if self._channel.is_open:
            self._channel.queue_declare(self._stream, passive=True, callback=self._on_declared)

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if self._wanted and channel.is_open:
            channel.basic_ack(method.delivery_tag)
            self._reader.read(int(properties.headers["x-stream-offset"]), body)

    def _on_close(self, channel: Any, reason: Exception) -> None:
        if self._wanted:
            self._wanted = False
            code, said = None, str(reason)
            if isinstance(reason, ChannelClosedByBroker):
                code, said = reason.reply_code, reason.reply_text
            self._reader.lost(said, code=code, connected=bool(channel.connection.is_open))
