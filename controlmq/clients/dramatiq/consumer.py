"""The consumer of a queue of Dramatiq: its own, on a channel with a window."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from dramatiq.brokers.rabbitmq import _RabbitmqConsumer as PlainConsumer
from dramatiq.errors import ConnectionClosed
from pika.exceptions import AMQPChannelError, AMQPConnectionError

from controlmq.clients.channel_runner import clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import words_after
from controlmq.clients.dramatiq.threads import QueueThreads
from controlmq.clients.handled import GivenAcks
from controlmq.clients.pika.wrap import wrap

__all__ = ["AdaptiveConsumer", "PlainConsumer"]


@dataclass(slots=True)
class Delivery:
    """One delivery of a message, and where it is in this process."""

    consumer: AdaptiveConsumer
    key: Hashable
    since: float
    """When its stage began."""
    stage: Literal["waiting", "given up", "running", "done"] = "waiting"

    @property
    def lost(self) -> bool:
        """Whether the broker has put the message back into its queue, or will."""
        return not self.consumer.connection.is_open

    def give_up(self) -> None:
        """Leave the message to its next delivery."""
        self.ended()
        self.stage = "given up"

    def started(self) -> None:
        """Note that a thread has the message."""
        self.stage = "running"
        self.since = self.consumer.threads.started(self.since)

    def ended(self) -> None:
        """Note that no thread has the message, or will have it."""
        if self.stage == "waiting":
            self.consumer.threads.left()
        elif self.stage == "running":
            self.consumer.threads.ended(self.since)
        if self.stage != "given up":
            self.stage = "done"


class AdaptiveConsumer(PlainConsumer):  # type: ignore[misc]
    """Dramatiq's consumer, whose channel is wrapped before it subscribes.

    After a lost connection Dramatiq makes a new one, which goes on with the prefetch, the goals and
    the law of the one before. Messages that were handled by then are not run again.
    """

    def __init__(self, broker: Any, queue_name: str, prefetch: int, timeout: int) -> None:
        super().__init__(broker, queue_name, prefetch, timeout)  # subscribes to nothing yet
        self.threads = QueueThreads(broker.threads)
        self._given_acks = GivenAcks(broker.lost_acks(queue_name), broker.longest_hold)
        last: ControlledConsumer | None = broker.adaptive_consumers.get(queue_name)
        if last is not None:
            prefetch = max(1, math.ceil(last.prefetch))
        wrap(self.channel, handlers=self.threads, **_words(broker.window_settings, last))
        self.channel.kept_bounds = broker.kept_bounds[queue_name]
        try:
            self.channel.basic_qos(prefetch_count=prefetch)
        except (AMQPConnectionError, AMQPChannelError) as error:
            raise ConnectionClosed(error) from None
        self.iterator = self.channel.consume(queue_name, inactivity_timeout=timeout / 1000)
        self._acks: deque[int] = deque()
        """Tags whose acks the threads have left to that of the connection."""
        self._acks_due = False
        self._unnamed = True
        """Whether the broker of Dramatiq does not know the adaptive consumer yet."""

    def __next__(self) -> Any:
        try:
            message = super().__next__()
        except StopIteration:
            self._acks_end(arrived=False)  # cancelled by the broker, which delivers all again
            raise
        if self._unnamed:
            self._take_over()
        if message is None:
            return None
        options = message.options
        # A retry has the id of the message that failed.
        key = message.message_id, options.get("retries"), options.get("requeue_timestamp")
        with self.broker.acks_lock:
            handled = self._given_acks.handled_before(key, message.redelivered, clock())
        if handled:
            self.known_tags.discard(message._tag)
            self.channel.basic_ack(message._tag)
            return None
        message.delivery = Delivery(self, key, self.threads.came())
        return message

    def _take_over(self) -> None:
        """Go on where the consumer before was, now that this one has subscribed."""
        consumers, queue = self.broker.adaptive_consumers, self.queue_name
        for consumer in self.channel.adaptive_consumers.values():
            last = consumers.get(queue)
            if last is not None:
                consumer.go_on_from(last)
            consumers[queue] = consumer
            self._unnamed = False

    def ack(self, message: Any) -> None:
        """As Dramatiq's. A message of a lost connection is remembered, and acknowledged later."""
        delivery = message.delivery
        if delivery.stage != "given up":
            delivery.consumer.note_ack(delivery)
        if self._has(delivery):
            self.known_tags.discard(message._tag)
            self._acks.append(message._tag)
            if not self._acks_due:
                # One call of the connection's thread for all that come until then.
                self._acks_due = True
                with suppress(AMQPConnectionError):  # lost: the message comes again
                    self.connection.add_callback_threadsafe(self._send_acks)

    def note_ack(self, delivery: Delivery) -> None:
        """A message that this consumer brought is acknowledged, perhaps to the next one."""
        with self.broker.acks_lock:
            if delivery.lost:
                self._given_acks.end(clock())
            self._given_acks.add(delivery.key, clock())

    def _send_acks(self) -> None:
        self._acks_due = False  # before they are taken, so that none is left behind
        with suppress(AMQPConnectionError, AMQPChannelError):
            self.channel.acknowledge_together(self._acks)

    def nack(self, message: Any) -> None:
        """As Dramatiq's. A message of a lost connection comes again, and fails again."""
        if self._has(message.delivery):
            with suppress(ConnectionClosed):
                super().nack(message)

    def close(self) -> None:
        """As Dramatiq's: if it succeeds, the broker has received all acks."""
        arrived = False
        try:
            super().close()
            arrived = True
        finally:
            self._acks_end(arrived)

    def _acks_end(self, arrived: bool) -> None:
        with self.broker.acks_lock:
            if arrived:
                self._given_acks.have_arrived()
            self._given_acks.end(clock())

    def _has(self, delivery: Delivery) -> bool:
        """Whether the broker waits for an answer here.

        Delivery tags are counted from 1 on every connection, so that an answer to a message of
        another one would be taken for that of a message which may not have run.
        """
        delivery.ended()
        return delivery.consumer is self and not delivery.lost


def _words(words: dict[str, Any], last: ControlledConsumer | None) -> dict[str, Any]:
    """What a channel is wrapped with; ``last`` is the consumer of the channel before it.

    A controller remembers, so that every queue has a copy of its own.
    """
    controller = words.get("controller")
    if controller is None and words.get("model") is None:
        return words
    if last is not None and last.adapts:
        return words_after(last, words)
    with suppress(Exception):  # what cannot be copied is used as it is
        controller = copy.deepcopy(controller)
    return {**words, "controller": controller}
