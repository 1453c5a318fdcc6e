"""The ``consume()`` loop of an adaptive blocking channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlmq.clients.channel_runner import clock
from controlmq.clients.pika import private
from controlmq.consumer.consumer import Consumer

Message = tuple[Any, Any, Any]

LOOK_AGAIN_SECONDS = 1.0
"""Seconds. A gate that is closed may be opened sooner than it said."""


class Generator:
    """Messages between the lanes of a consumer and a loop of the user."""

    def __init__(self, channel: Any, parameters: tuple[str, bool, bool], tag: str) -> None:
        self.parameters = parameters
        self.waiting = private.generator_events(parameters, tag)
        """Messages in the order they came; instrumentation may watch how they are taken."""
        self.consumer: Consumer | None = None
        self._channel = channel

    def put(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        """The callback of its consumer."""
        self.waiting.append(private.delivery_event(method, properties, body))

    def take_waiting(self) -> Iterator[Message]:
        """The messages that the user has not taken, one by one."""
        while self.waiting:
            yield self._take()

    def _take(self) -> Message:
        event = self.waiting.popleft()
        return event.method, event.properties, event.body

    def messages(self, inactivity_timeout: float | None) -> Iterator[Message]:
        """Messages as they come; a triple of None when none came for ``inactivity_timeout``."""
        channel = self._channel
        deadline: float | None = None
        while channel._generator is self:
            gated = self._gated() if self.waiting else None
            if gated == 0.0:
                deadline = None
                yield from self._handed_over()
                continue
            if gated is None and (self.consumer is None or self.consumer.cancelled):
                channel._generator = None
                return
            now = clock()
            if inactivity_timeout is None:
                private.process_data_events(channel, gated)
                continue
            if deadline is None:
                deadline = now + inactivity_timeout
            limit = deadline - now if gated is None else min(deadline - now, gated)
            private.process_data_events(channel, max(0.0, limit))
            # In a callback pika has received them, but dispatches none.
            if self.consumer is not None:
                lanes = self.consumer.window.lanes
                if private.dispatch_messages(channel, [lane.tag for lane in lanes]):
                    channel._runner.core.missed_a_message()
            if (
                not (self.waiting and self._gated() == 0.0)
                and clock() >= deadline
                and channel._generator is self
            ):
                deadline = None
                yield None, None, None

    def _gated(self) -> float:
        """Seconds until the next message may go, or until it is worth another look."""
        if self.consumer is None:
            return 0.0
        now, gate = clock(), self.consumer.gate
        if now >= gate.until:
            return LOOK_AGAIN_SECONDS  # its lease has ended, whatever tokens there are
        return max(0.0, min(gate.opens_at - now, LOOK_AGAIN_SECONDS))

    def _handed_over(self) -> Iterator[Message]:
        """Yields one message: does what is due first, then times the user's work."""
        runner, consumer = self._channel._runner, self.consumer
        assert consumer is not None
        if self._channel.is_open:
            runner.before_call(consumer)
        if not self.waiting:
            return  # a step of the loop has cancelled the consumer
        started = clock()
        yield self._take()
        # Until now the user worked; only from here on is the consumer waiting.
        runner.core.returned(consumer, started, clock())
