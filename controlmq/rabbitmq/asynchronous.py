"""The adaptive asynchronous ``Channel``: pika's, with a window in place of a prefetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika import frame, spec
from pika.channel import Channel

from controlmq.rabbitmq.adaptation import Adaptation
from controlmq.rabbitmq.adapted import Adapted, refuse_global
from controlmq.rabbitmq.cancelling import watch_cancels
from controlmq.rabbitmq.consumer import Consumer
from controlmq.rabbitmq.lanes import Lane
from controlmq.rabbitmq.ledger import Ack
from controlmq.rabbitmq.settings import Settings

Callback = Callable[..., Any]


class AsynchronousWire:
    """How lanes, acks and timers reach the broker through an asynchronous ``Channel``.

    Requests wait in pika for the answer to the one before them, and acks overtake them there.
    A lane must be cancelled before its acks go, so its cancel does not queue up.
    """

    def __init__(self, channel: AdaptiveChannel) -> None:
        self._channel = channel
        self._plain: Any = super(Adapted, channel)
        self._cycle_ends = False

    def acknowledge(self, acks: list[Ack]) -> None:
        """Buffered by pika until its loop finds the socket writable."""
        for tag, multiple in acks:
            self._plain.basic_ack(tag, multiple)

    def subscribe(self, consumer: Consumer, lane: Lane) -> None:
        """Both requests at once, so that no other comes between them."""
        receiver = self._channel._adaptation.receiver(consumer, lane)
        self._plain.basic_qos(prefetch_count=lane.size)
        self._plain.basic_consume(
            consumer.queue, receiver, consumer_tag=lane.tag, **consumer.subscription
        )

    def unsubscribe(self, lane: Lane) -> None:
        """Past the requests that wait, which AMQP allows; RabbitMQ answers in order.

        Expect an answer: pika keeps the tags of those cancelled without one for ever.
        """
        channel, tag = self._channel, lane.tag
        if tag not in channel._consumers or tag in channel._cancelled:
            return
        if not lane.received:
            # It has no acks that could be early, and perhaps its subscription is not answered
            # yet: RabbitMQ 3.10 was seen to fail (541) on a cancel that comes right behind.
            self._plain.basic_cancel(tag, callback=_nothing)
            return
        channel._cancelled.add(tag)
        channel.callbacks.add(
            channel.channel_number,
            spec.Basic.CancelOk,
            channel._on_cancelok,
            arguments={"consumer_tag": tag},
        )
        channel._send_method(spec.Basic.Cancel(consumer_tag=tag))

    def ready(self) -> bool:
        """Whether no request is under way."""
        return self._channel._blocking is None and self._channel.is_open

    def cycle_ends(self) -> bool:
        """A timer of no delay fires when pika has dispatched all it read."""
        if not self._cycle_ends:
            self._cycle_ends = True
            self.call_later(0, self._end_cycle)
        return True

    def _end_cycle(self) -> None:
        self._cycle_ends = False
        if self._channel.is_open:
            self._channel._adaptation.acks.end_cycle()

    def restorable(self) -> bool:
        """There is no generator here."""
        return True

    def restore(self) -> None:
        """The class it had, and what we added removed."""
        self._channel.__class__ = self._channel._plain_class

    def buffered(self) -> int:
        """Messages are dispatched as they are read."""
        return 0

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """A timer of the connection's loop, whichever loop it is."""
        return self._channel.connection._adapter_call_later(delay, callback)

    def cancel_timer(self, timer: object) -> None:
        """Remove it from the loop."""
        self._channel.connection._adapter_remove_timeout(timer)


class AdaptiveChannel(Adapted, Channel):  # type: ignore[misc]
    """A ``Channel`` whose consumers hold their goals.

    Everything is as pika has it, save that ``basic_consume`` takes a ``goal``, that
    ``auto_ack=True`` and ``global_qos=True`` are refused, and that ``basic_qos`` says where
    the next consumer starts. ``adaptive_consumers`` are the consumers by their tags.
    """

    def _adapt(self, settings: Settings) -> None:
        self._adaptation = Adaptation(AsynchronousWire(self), settings)
        self.add_on_close_callback(lambda _channel, _reason: self._adaptation.stop())
        watch_cancels(self, self.callbacks, spec.Basic.Cancel)

    def _asynchronous(self) -> Any:
        return self

    # Consuming

    def basic_qos(
        self,
        prefetch_size: int = 0,
        prefetch_count: int = 0,
        global_qos: bool = False,
        callback: Callback | None = None,
    ) -> None:
        """The prefetch from which consumers started from now on begin to adapt."""
        refuse_global(global_qos)
        super().basic_qos(prefetch_size, prefetch_count, global_qos, callback)
        self._adaptation.started_with = prefetch_count or None

    def basic_consume(
        self,
        queue: str,
        on_message_callback: Callback,
        auto_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str | None = None,
        arguments: dict[str, Any] | None = None,
        callback: Callback | None = None,
        *,
        goal: float | None = None,
    ) -> str:
        """As pika's; ``goal`` (messages/second) is this consumer's own."""
        if not callable(on_message_callback):
            # In pika's own words.
            return str(super().basic_consume(queue, on_message_callback))
        consumer = self._new_consumer(consumer_tag, queue, goal, auto_ack, exclusive)
        consumer.deliver = on_message_callback
        consumer.subscription = {
            "exclusive": exclusive,
            "arguments": arguments,
            "callback": callback,
        }
        self._adaptation.open_lane(consumer, consumer.first_size)
        # The user's callback is for the first lane; the others are none of its business.
        consumer.subscription["callback"] = None
        self._adaptation.subscribed(consumer)
        return consumer.tag

    def basic_cancel(self, consumer_tag: str = "", callback: Callback | None = None) -> None:
        """As pika's: cancels the consumer, all of it."""
        consumer = self._adaptation.consumers.get(consumer_tag)
        if consumer is None:
            super().basic_cancel(consumer_tag, callback)
            return
        lanes = consumer.window.subscribed
        if callback is not None:
            # Lanes that never got a message are cancelled last.
            last = ([lane for lane in lanes if not lane.received] or lanes)[-1]
            self._call_when_cancelled(consumer_tag, last.tag, callback)
        self._adaptation.cancel(consumer)

    def _call_when_cancelled(self, tag: str, lane_tag: str, callback: Callback) -> None:
        """Call back with the user's tag once the broker confirmed the last lane."""

        def on_cancel_ok(method_frame: Any) -> None:
            # A frame of its own: pika looks into this one too.
            callback(frame.Method(method_frame.channel_number, spec.Basic.CancelOk(tag)))

        self.callbacks.add(
            self.channel_number,
            spec.Basic.CancelOk,
            on_cancel_ok,
            arguments={"consumer_tag": lane_tag},
        )

    # Acknowledging

    def basic_reject(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        """As pika's; sent at once."""
        if delivery_tag in self._adaptation.acks.ledger:
            super().basic_reject(delivery_tag, requeue)
        else:
            # pika itself rejects what arrives for a consumer being cancelled.
            super(Adapted, self).basic_reject(delivery_tag, requeue)

    def basic_recover(self, requeue: bool = False, callback: Callback | None = None) -> None:
        """As pika's."""
        self._adaptation.acks.give_back_all()
        super().basic_recover(requeue, callback)
        self._adaptation.acks.recovered()

    def basic_get(self, queue: str, callback: Callback, auto_ack: bool = False) -> None:
        """As pika's."""
        ledger = self._adaptation.acks.ledger

        def on_get_ok(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if not auto_ack:
                ledger.saw(method.delivery_tag)
                ledger.fetched.add(method.delivery_tag)
            callback(channel, method, properties, body)

        super().basic_get(queue, on_get_ok if callable(callback) else callback, auto_ack)

    # The rest that matters to a window

    def queue_declare(
        self,
        queue: str,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
        callback: Callback | None = None,
    ) -> Any:
        """As pika's."""

        named = self._adaptation.declared(queue)

        def on_declare_ok(method_frame: Any) -> None:
            named(method_frame.method.queue)
            if callable(callback):
                callback(method_frame)

        answer = on_declare_ok if callable(callback) else callback
        return super().queue_declare(
            queue, passive, durable, exclusive, auto_delete, arguments, answer
        )

    def tx_select(self, callback: Callback | None = None) -> None:
        """As pika's; acks of a transaction are not held."""
        self._adaptation.acks.begin_transaction()
        super().tx_select(callback)

    def tx_commit(self, callback: Callback | None = None) -> None:
        """As pika's."""
        self._adaptation.acks.begin_transaction()
        super().tx_commit(callback)
        self._adaptation.acks.committed()

    def tx_rollback(self, callback: Callback | None = None) -> None:
        """As pika's."""
        self._adaptation.acks.begin_transaction()
        super().tx_rollback(callback)
        self._adaptation.acks.rolled_back()

    def close(self, reply_code: int = 0, reply_text: str = "Normal shutdown") -> None:
        """As pika's; held acks are sent first. ``connection.close()`` comes here too."""
        if self.is_open:
            self._adaptation.cancel_all()
        super().close(reply_code, reply_text)


def _nothing(_method_frame: Any) -> None:
    """An answer that tells nothing new."""
