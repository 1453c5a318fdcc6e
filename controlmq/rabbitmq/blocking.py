"""The adaptive ``BlockingChannel``: pika's, with a window in place of a prefetch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from pika.adapters.blocking_connection import BlockingChannel

from controlmq.rabbitmq.acknowledgements import clock
from controlmq.rabbitmq.adaptation import Adaptation
from controlmq.rabbitmq.adapted import Adapted, refuse_global
from controlmq.rabbitmq.cancelling import watch_cancels
from controlmq.rabbitmq.consumer import Consumer
from controlmq.rabbitmq.lanes import Lane
from controlmq.rabbitmq.ledger import Ack
from controlmq.rabbitmq.settings import Settings

Message = tuple[Any, Any, Any]


class BlockingWire:
    """How lanes, acks and timers reach the broker through a ``BlockingChannel``."""

    def __init__(self, channel: AdaptiveBlockingChannel) -> None:
        self._channel = channel
        self._impl = channel._impl
        self._plain: Any = super(Adapted, channel)
        self.dispatching = False

    def acknowledge(self, acks: list[Ack]) -> None:
        """One flush for all of them."""
        for tag, multiple in acks:
            self._impl.basic_ack(tag, multiple)
        self._channel._flush_output()

    def subscribe(self, consumer: Consumer, lane: Lane) -> None:
        """Two round trips; messages that come meanwhile are dispatched afterwards."""
        receiver = self._channel._adaptation.receiver(consumer, lane)
        self._plain.basic_qos(prefetch_count=lane.size)
        self._plain.basic_consume(
            consumer.queue, receiver, consumer_tag=lane.tag, **consumer.subscription
        )

    def unsubscribe(self, lane: Lane) -> None:
        """One round trip."""
        self._plain.basic_cancel(lane.tag)

    def ready(self) -> bool:
        """A blocking request is answered before anything else is sent."""
        return True

    def cycle_ends(self) -> bool:
        """While pika dispatches what it received."""
        return self.dispatching

    def restorable(self) -> bool:
        """pika would not know the messages of a ``consume()`` loop of ours."""
        return self._channel._generator is None

    def restore(self) -> None:
        """The class it had, and what we added removed."""
        self._channel.__class__ = self._channel._plain_class

    def buffered(self) -> int:
        """Messages in pika's own queue."""
        return len(self._channel._pending_events)

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """A timer of the connection."""
        return self._channel.connection.call_later(delay, callback)

    def cancel_timer(self, timer: object) -> None:
        """With the connection its timers are gone."""
        if self._channel.connection.is_open:
            self._channel.connection.remove_timeout(timer)


class AdaptiveBlockingChannel(Adapted, BlockingChannel):  # type: ignore[misc]
    """A ``BlockingChannel`` whose consumers hold their goals.

    Everything is as pika has it, save that ``basic_consume`` and ``consume`` take a ``goal``,
    that ``auto_ack=True`` and ``global_qos=True`` are refused, and that ``basic_qos`` says
    where the next consumer starts. ``adaptive_consumers`` are the consumers by their tags.
    """

    _generator: Generator | None

    def _adapt(self, settings: Settings) -> None:
        self._wire = BlockingWire(self)
        self._adaptation = Adaptation(self._wire, settings)
        self._generator = None
        self._impl.add_on_close_callback(lambda _channel, _reason: self._adaptation.stop())
        watch_cancels(self, self._impl.callbacks, self._CONSUMER_CANCELLED_CB_KEY)

    def _asynchronous(self) -> Any:
        return self._impl

    # Consuming

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, global_qos: bool = False
    ) -> None:
        """The prefetch from which consumers started from now on begin to adapt."""
        refuse_global(global_qos)
        super().basic_qos(prefetch_size, prefetch_count, global_qos)
        self._adaptation.started_with = prefetch_count or None

    def basic_consume(
        self,
        queue: str,
        on_message_callback: Callable[..., None],
        auto_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str | None = None,
        arguments: dict[str, Any] | None = None,
        *,
        goal: float | None = None,
    ) -> str:
        """As pika's; ``goal`` (messages/second) is this consumer's own."""
        if not callable(on_message_callback):
            # In pika's own words.
            return str(super().basic_consume(queue, on_message_callback))
        consumer = self._new_consumer(consumer_tag, queue, goal, auto_ack, exclusive)
        consumer.deliver = on_message_callback
        consumer.subscription = {"exclusive": exclusive, "arguments": arguments}
        self._adaptation.open_lane(consumer, consumer.first_size)
        self._adaptation.subscribed(consumer)
        return consumer.tag

    def basic_cancel(self, consumer_tag: str) -> Any:
        """As pika's: cancels the consumer, all of it."""
        consumer = self._adaptation.consumers.get(consumer_tag)
        if consumer is None:
            return super().basic_cancel(consumer_tag)
        self._adaptation.cancel(consumer)
        return []

    def stop_consuming(self, consumer_tag: str | None = None) -> None:
        """As pika's."""
        if consumer_tag is None:
            if self._generator is not None:
                self.cancel()
            self._adaptation.cancel_all()
        super().stop_consuming(consumer_tag)

    def _dispatch_events(self) -> None:
        self._wire.dispatching = True
        try:
            super()._dispatch_events()
        finally:
            self._wire.dispatching = False
            if self.is_open and self.connection.is_open:
                self._adaptation.acks.end_cycle()

    # The generator

    def consume(
        self,
        queue: str,
        auto_ack: bool = False,
        exclusive: bool = False,
        arguments: dict[str, Any] | None = None,
        inactivity_timeout: float | None = None,
        consumer_tag: str | None = None,
        *,
        goal: float | None = None,
    ) -> Iterator[Message]:
        """As pika's; ``goal`` (messages/second) is this consumer's own."""
        self._impl._raise_if_not_open()
        params = (queue, auto_ack, exclusive)
        if self._generator is None:
            generator = Generator(params)
            tag = self.basic_consume(
                queue, generator.put, auto_ack, exclusive, consumer_tag, arguments, goal=goal
            )
            generator.consumer = self._adaptation.consumers[tag]
            self._generator = generator
        elif params != self._generator.params:
            raise ValueError(
                "Consume with different params not allowed on existing queue consumer "
                f"generator; previous params: {self._generator.params!r}; "
                f"new params: {params!r}"
            )
        yield from self._generated(inactivity_timeout)

    def _generated(self, inactivity_timeout: float | None) -> Iterator[Message]:
        deadline: float | None = None
        while (generator := self._generator) is not None:
            if generator.messages:
                deadline = None
                yield from self._handed_over(generator)
                continue
            if generator.consumer is None or generator.consumer.cancelled:
                self._generator = None
                return
            now = clock()
            if inactivity_timeout is None:
                self._process_data_events(time_limit=None)
                continue
            if deadline is None:
                deadline = now + inactivity_timeout
            self._process_data_events(time_limit=max(0.0, deadline - now))
            if not generator.messages and clock() >= deadline and self._generator is generator:
                deadline = None
                yield None, None, None

    def _handed_over(self, generator: Generator) -> Iterator[Message]:
        """One message, with the clock attended to before and the user's work timed."""
        acks, consumer = self._adaptation.acks, generator.consumer
        if self.is_open:
            self._adaptation.look()
            if consumer is not None:
                acks.before_callback(consumer)
        started = clock()
        yield generator.messages.popleft()
        if consumer is not None:
            # Until now the user worked; only from here on is the consumer waiting.
            consumer.sensors.active_at = clock()
            acks.after_callback(consumer.sensors.active_at - started)

    def cancel(self) -> int:
        """As pika's: messages not yet taken from the generator are requeued."""
        generator, self._generator = self._generator, None
        if generator is None or generator.consumer is None:
            return int(super().cancel())
        while generator.messages:
            method, _, _ = generator.messages.popleft()
            self.basic_reject(method.delivery_tag, requeue=True)
        self.basic_cancel(generator.consumer.tag)
        self._adaptation.hand_back()
        return 0

    def get_waiting_message_count(self) -> int:
        """As pika's."""
        return len(self._generator.messages) if self._generator is not None else 0

    # Acknowledging

    def basic_recover(self, requeue: bool = False) -> None:
        """As pika's."""
        self._adaptation.acks.give_back_all()
        super().basic_recover(requeue)
        self._adaptation.acks.recovered()

    def basic_get(self, queue: str, auto_ack: bool = False) -> Message:
        """As pika's."""
        message: Message = super().basic_get(queue, auto_ack)
        if message[0] is not None and not auto_ack:
            self._adaptation.acks.ledger.saw(message[0].delivery_tag)
            self._adaptation.acks.ledger.fetched.add(message[0].delivery_tag)
        return message

    # The rest that matters to a window

    def queue_declare(self, queue: str, *args: Any, **kwargs: Any) -> Any:
        """As pika's."""
        declared = super().queue_declare(queue, *args, **kwargs)
        self._adaptation.last_queue = declared.method.queue
        return declared

    def tx_select(self) -> Any:
        """As pika's; acks of a transaction are not held."""
        self._adaptation.acks.begin_transaction()
        return super().tx_select()

    def tx_commit(self) -> Any:
        """As pika's."""
        self._adaptation.acks.begin_transaction()
        answer = super().tx_commit()
        self._adaptation.acks.committed()
        return answer

    def tx_rollback(self) -> Any:
        """As pika's."""
        self._adaptation.acks.begin_transaction()
        answer = super().tx_rollback()
        self._adaptation.acks.rolled_back()
        return answer

    def close(self, reply_code: int = 0, reply_text: str = "Normal shutdown") -> None:
        """As pika's; held acks are sent first. ``connection.close()`` comes here too."""
        if self.is_open:
            self._generator = None
            self._adaptation.cancel_all()
        super().close(reply_code, reply_text)


class Generator:
    """Messages on their way from the lanes to a ``consume()`` loop."""

    def __init__(self, params: tuple[str, bool, bool]) -> None:
        self.params = params
        self.messages: deque[Message] = deque()
        self.consumer: Consumer | None = None

    def put(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        """The callback of its consumer."""
        self.messages.append((method, properties, body))
