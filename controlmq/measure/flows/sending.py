"""Sending: on a channel with or without confirms, stamped with the time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pika

from controlmq.measure.flows.notes import Notes
from controlmq.measure.flows.plan import Outgoing, Plan

STAMP = struct.Struct("dd")
"""When a message was sent, and when the first message of its interaction was."""


def nothing() -> None:
    """What follows a message whose confirm is not waited for."""


class Sender:
    """A channel to publish on; ``ready`` is called when it may be used.

    With confirms, what is to follow a message follows when the broker has it safe.
    """

    def __init__(
        self, connection: Any, confirmed: bool, ready: Callable[[], None], on_close: Any
    ) -> None:
        self.confirmed = confirmed
        self._ready = ready
        self._on_close = on_close
        self._number = 0
        self._follows: dict[int, Callable[[], None]] = {}
        connection.channel(on_open_callback=self._opened)

    def _opened(self, channel: Any) -> None:
        self.channel = channel
        channel.add_on_close_callback(self._on_close)
        if self.confirmed:
            channel.confirm_delivery(self._confirm, callback=lambda _: self._ready())
        else:
            self._ready()

    def followed_by(self, then: Callable[[], None]) -> None:
        """What to do when the message just published is safe."""
        if not self.confirmed:
            then()
            return
        self._number += 1
        self._follows[self._number] = then

    def _confirm(self, frame: Any) -> None:
        # The counts show a message that the broker refused: its queue lacks it.
        upto = frame.method.delivery_tag
        if not frame.method.multiple:
            self._follows.pop(upto)()
            return
        for number in [each for each in self._follows if each <= upto]:
            self._follows.pop(number)()


class Outlet:
    """One kind of message of a location, ready to be sent."""

    def __init__(self, message: Outgoing, plan: Plan, sender: Sender, notes: Notes) -> None:
        self.sender = sender
        self._address = plan.address(message)
        self._properties = pika.BasicProperties(
            type=message.type, delivery_mode=2 if message.persistent else 1
        )
        rest = {size: bytes(max(size - STAMP.size, 0)) for size in message.sizes}
        self._bodies = cycle([rest[size] for size in message.sizes])
        self._sent = notes.sent_to(message.place)

    def send(self, now: float, origin: float, then: Callable[[], None]) -> None:
        """Send the next one, at this time, of an interaction that began at ``origin``."""
        body = STAMP.pack(now, origin) + next(self._bodies)
        self.sender.channel.basic_publish(*self._address, body, self._properties)
        self._sent.append(now)
        self.sender.followed_by(then)
