"""What both adapters of pika do in the same way: cancelling lanes, and what that leaves behind.

The two are in ``blocking.py`` and ``asynchronous.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pika import spec

from controlmq.clients.pika import private
from controlmq.clients.pika.log import PikaLog
from controlmq.clients.shared_goal import SharedGoal
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.lanes import Lane


class PikaAdapter:
    """Cancels on the wire, and the messages that come before they are answered.

    Cancels do not wait for other requests to be answered, nor for each other: none may come
    later than an ack of its lane, or than a message that another lane gives back.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._inner = private.asynchronous(channel)
        self._check_open = private.open_check(self._inner)
        self._send = private.sender(self._inner)
        self._unanswered: dict[str, Consumer | None] = {}
        """Lanes by their tags whose cancels the broker has not confirmed."""

    def open_log(self, stream: str, reader: SharedGoal) -> PikaLog:
        """Open the log on a further channel of the same connection."""
        return PikaLog(self._inner, stream, reader)

    def cancel_lanes(self, lanes: Sequence[Lane]) -> None:
        """Send all cancels, one after the other; messages that come late go back afterwards."""
        for lane in lanes:
            self._cancel(lane.tag)
            self._unanswered[lane.tag] = lane.consumer

    def lane_lost(self, tag: str) -> None:
        """The broker has cancelled a lane: cancel it too, at once.

        RabbitMQ 4.3 does not forget a consumer whose timeout it has reported before it is told.
        Until then messages come for it, which pika would drop and never answer. While the broker
        has a commit to answer it allows no cancel; that of the whole consumer follows then.
        """
        if self._channel._runner.core.commits:
            private.redirect(self._inner, tag, self.on_late_message)
        else:
            self._cancel(tag)

    def _cancel(self, tag: str) -> None:
        if tag in self._unanswered:
            private.redirect(self._inner, tag, self.on_late_message)
        else:
            self._unanswered[tag] = None
            private.send_cancel(self._inner, tag, self.on_late_message, self._answered)

    def _answered(self, tag: str) -> None:
        consumer = self._unanswered.pop(tag, None)
        self._channel._runner.cancel_confirmed(tag)
        if consumer is not None:
            self.on_cancel_confirmed(consumer)

    def is_cancelled(self, consumer: Consumer) -> bool:
        """Whether the broker has confirmed the cancels of all lanes of a consumer."""
        leaving = self._channel._runner.core.leaving
        return consumer not in leaving and consumer not in self._unanswered.values()

    @property
    def all_cancelled(self) -> bool:
        """Whether the broker has confirmed every cancel that was asked for."""
        return not self._channel._runner.core.leaving and not self._unanswered

    def on_cancel_confirmed(self, consumer: Consumer) -> None:
        """The broker has confirmed the cancel of one lane of a consumer."""

    def on_late_message(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        """A message came for a lane that is cancelled."""
        self._channel._runner.core.came_too_late(method.delivery_tag)

    def give_back(self, tags: Sequence[int]) -> None:
        """With nacks: RabbitMQ 4.3 counts a reject as a failed delivery, and a nack not."""
        for tag in tags:
            self._send(spec.Basic.Nack(tag, requeue=True))
