"""The publisher of a soak, in a process of its own: confirmed messages at little cost.

All messages are alike but for their number, so their frames are made once, and a batch of messages
is written at once. That leaves the processors to the consumer and the broker.
"""

from __future__ import annotations

from typing import Any

import pika
import pika.frame

WAITING_AT_MOST = 40_000
"""Messages in the queue above which none are published: a queue that stays short."""

LOOK_EVERY = 10_000
"""Messages from one look at how many wait to the next."""

PAUSE_SECONDS = 0.2
"""Seconds between looks where enough wait."""

UNCONFIRMED = 4000
"""Messages under way to the broker at once."""

BATCH = 500

DIGITS = 10
"""Of a number, in every message: the length of a body is part of its frames."""

FRAME_END = b"\xce"


class SoakPublisher:
    """Publishes ``count`` numbered messages, persistent, and waits for the confirm of every one."""

    def __init__(self, url: str, queue: str, count: int) -> None:
        self._queue, self._count = queue, count
        self._published = self._confirmed = self._looked_at = 0
        self._failure: str | None = None
        self._connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._begin),
            on_open_error_callback=lambda connection, error: self._ended(error),
            on_close_callback=lambda connection, reason: self._ended(reason),
        )

    def run(self) -> None:
        """Until the broker has confirmed all."""
        self._connection.ioloop.start()
        if self._confirmed < self._count:
            raise RuntimeError(
                f"{self._confirmed} of {self._count} messages were confirmed: {self._failure}"
            )

    def _begin(self, channel: Any) -> None:
        self._channel = channel
        self._unconfirmed: dict[int, None] = {}
        self._before_number = frames_before_number(channel.channel_number, self._queue)
        channel.add_on_return_callback(lambda *_: self._end("there is no such queue"))
        channel.confirm_delivery(self._on_confirm, callback=lambda frame: self._look())

    def _look(self) -> None:
        self._channel.queue_declare(self._queue, passive=True, callback=self._on_looked)

    def _on_looked(self, frame: Any) -> None:
        if frame.method.message_count > WAITING_AT_MOST:
            self._connection.ioloop.call_later(PAUSE_SECONDS, self._look)
        else:
            self._looked_at = self._published
            self._publish()

    def _publish(self) -> None:
        until = min(self._count, self._looked_at + LOOK_EVERY)
        while self._published < until and len(self._unconfirmed) <= UNCONFIRMED - BATCH:
            numbers = range(self._published, min(until, self._published + BATCH))
            before = self._before_number
            data = b"".join(b"%b%0*d%b" % (before, DIGITS, each, FRAME_END) for each in numbers)
            # Delivery tags count from 1 on a channel that confirms.
            self._unconfirmed.update(dict.fromkeys(each + 1 for each in numbers))
            self._published += len(numbers)
            self._connection._output_marshaled_frames([data])

    def _on_confirm(self, frame: Any) -> None:
        confirm = frame.method
        if isinstance(confirm, pika.spec.Basic.Nack):
            self._end("the broker refused a message")
            return
        tags = [confirm.delivery_tag]
        if confirm.multiple:
            # They were put in ascending, and a dict keeps that order.
            tags = []
            for tag in self._unconfirmed:
                if tag > confirm.delivery_tag:
                    break
                tags.append(tag)
        for tag in tags:
            del self._unconfirmed[tag]
        self._confirmed += len(tags)
        if self._confirmed == self._count:
            self._end(None)
        elif self._published == self._looked_at + LOOK_EVERY and not self._unconfirmed:
            self._look()
        elif len(self._unconfirmed) <= UNCONFIRMED // 2:
            self._publish()

    def _end(self, failure: str | None) -> None:
        self._failure = self._failure or failure
        if self._connection.is_open:
            self._connection.close()

    def _ended(self, reason: object) -> None:
        self._failure = self._failure or str(reason)
        self._connection.ioloop.stop()


def frames_before_number(channel_number: int, queue: str) -> bytes:
    """What a message is on the wire, up to its number and the end of its last frame."""
    publish = pika.spec.Basic.Publish(exchange="", routing_key=queue, mandatory=True)
    properties = pika.BasicProperties(delivery_mode=2)
    number = b"0" * DIGITS
    frames = [
        pika.frame.Method(channel_number, publish),
        pika.frame.Header(channel_number, DIGITS, properties),
        pika.frame.Body(channel_number, number),
    ]
    data = b"".join(frame.marshal() for frame in frames)
    return data.removesuffix(number + FRAME_END)


def publish(url: str, queue: str, count: int) -> None:
    """Publish ``count`` messages as the queue empties."""
    SoakPublisher(url, queue, count).run()
