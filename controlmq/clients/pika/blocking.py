"""The adaptive ``BlockingChannel``: pika's, with a window in place of a prefetch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from controlmq.clients.channel_runner import clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.interrupts import held_interrupts
from controlmq.clients.pika import private
from controlmq.clients.pika.adapter import PikaAdapter
from controlmq.clients.pika.channel import AdaptivePikaChannel, refuse_global
from controlmq.clients.pika.generator import Generator, Message
from controlmq.clients.settings import Settings
from controlmq.clients.shared_goal import SharedGoal
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane
from controlmq.goals import Given


class BlockingAdapter(PikaAdapter):
    """How lanes, acks and timers reach the broker through a ``BlockingChannel``.

    No change of lanes waits for its answer: that would stop the whole process while the broker
    does not read from the connection.
    """

    def __init__(self, channel: AdaptiveBlockingChannel) -> None:
        super().__init__(channel)
        self.flush = private.flusher(channel)
        self.dispatching = False

    def send_acks(self, acks: Sequence[Ack]) -> None:
        """Let pika buffer the frames."""
        self._check_open()
        for tag, multiple in acks:
            self._send(spec.Basic.Ack(tag, multiple))

    def open_lane(self, lane: Lane) -> None:
        """Send both requests at once, so that no other comes between them."""
        channel, runner = self._channel, self._channel._runner
        subscription = dict(channel._subscriptions[lane.consumer.tag])
        receiver = channel._callback(lane, subscription.pop("on_message"))
        private.subscribe(
            channel,
            lane.consumer.queue,
            lane.tag,
            lane.size,
            receiver,
            lambda: runner.lane_opened(lane),
            **subscription,
        )

    def cancel_lanes(self, lanes: Sequence[Lane]) -> None:
        """Send all cancels; then what pika has received and not dispatched goes back.

        Where a consumer goes on, it is still handed over.
        """
        super().cancel_lanes(lanes)
        channel = self._channel
        leaving = {lane.consumer: None for lane in lanes if lane.consumer.cancelled}
        for lane in lanes:
            if lane.consumer not in leaving:
                private.keep_pending(channel, lane.tag, lane.consumer)
        late = private.forget_consumers(channel, {lane.tag for lane in lanes})
        for consumer in leaving:
            late += private.take_kept(channel, consumer)
        for tag in late:
            channel._runner.core.came_too_late(tag)

    def write_now(self) -> None:
        """Wait until all of it is written."""
        self.flush()

    def reports_cycle_end(self) -> bool:
        """Whether pika dispatches now what it received."""
        return self.dispatching

    def buffered(self) -> int:
        """The number of messages in pika's own queue."""
        return len(private.pending_events(self._channel))

    def take_in(self) -> None:
        """Read what can be read; it waits in pika's own queue."""
        if self._channel.connection.is_open:
            private.read(self._channel.connection)

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set a timer of the connection."""
        return self._channel.connection.call_later(delay, callback)

    def call_threadsafe(self, callback: Callable[[], None]) -> None:
        """Call the one method of a connection that other threads may call."""
        self._channel.connection.add_callback_threadsafe(callback)

    def cancel_timer(self, timer: object) -> None:
        """Remove the timer; those of a closed connection are gone."""
        if self._channel.connection.is_open:
            self._channel.connection.remove_timeout(timer)


class AdaptiveBlockingChannel(AdaptivePikaChannel, BlockingChannel):  # type: ignore[misc]
    """A ``BlockingChannel`` whose consumers hold their goals.

    Everything is as pika has it, except that ``basic_consume`` and ``consume`` take a ``goal``,
    that ``auto_ack=True`` and ``global_qos=True`` are refused, and that ``basic_qos`` says
    where the next consumer starts. ``adaptive_consumers`` are the consumers by their tags.
    """

    _generator: Generator | None
    _awaits_log = True

    def _adapt_with(self, settings: Settings, before: AdaptivePikaChannel | None) -> None:
        self._generator = None
        self._adapter = BlockingAdapter(self)
        self._adapt(settings, self._adapter, before)
        self._at_end.append(private.watch_lost_lanes(self, self._adapter.lane_lost))
        self._at_end.append(private.watch_commits(self._inner, self._on_commit_ok))

    # Consuming

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, global_qos: bool = False
    ) -> None:
        """The prefetch from which consumers started from now on begin to adapt."""
        refuse_global(global_qos)
        super().basic_qos(prefetch_size, prefetch_count, global_qos)
        self._asked_prefetch = prefetch_count or None

    def basic_consume(
        self,
        queue: str,
        on_message_callback: Callable[..., None],
        auto_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str | None = None,
        arguments: dict[str, Any] | None = None,
        *,
        goal: Given = None,
    ) -> str:
        """As pika's; ``goal`` (messages/second, or as in "400/s") is this consumer's own."""
        if not callable(on_message_callback):
            # In pika's own words.
            return str(super().basic_consume(queue, on_message_callback))
        subscription = {"exclusive": exclusive, "arguments": arguments}
        return self._consume(
            queue, on_message_callback, consumer_tag, goal, auto_ack, subscription
        ).tag

    def _consume(self, *args: Any, **kwargs: Any) -> ControlledConsumer:
        consumer = super()._consume(*args, **kwargs)
        lane = consumer.plant.pending
        try:
            private.wait_until(self, lambda: consumer.plant.pending is None)
        finally:
            if lane is not None and not self.is_open:
                self._runner.core.lane_refused(lane, clock())
        if consumer.shared is not None:
            self._await_log(consumer, consumer.shared)
        return consumer

    def _await_log(self, consumer: ControlledConsumer, shared: SharedGoal) -> None:
        """Raise if the broker refuses what consumers that share a rate need."""
        private.wait_until(self, lambda: shared.settled or consumer.switched_off)
        shared.awaited = False
        if shared.refusal is not None:
            refusal = shared.refusal
            self.basic_cancel(consumer.tag)
            raise refusal

    def basic_cancel(self, consumer_tag: str) -> Any:
        """As pika's: cancels the consumer, all of it."""
        consumer = self._runner.core.consumers.get(consumer_tag)
        if consumer is None:
            return super().basic_cancel(consumer_tag)
        self._runner.cancel(consumer)
        self._await_cancels()
        return []

    def start_consuming(self) -> None:
        """As pika's; before an exception leaves, held acks are sent."""
        try:
            super().start_consuming()
        except BaseException:
            self._runner.give_back_in_time()
            raise

    def stop_consuming(self, consumer_tag: str | None = None) -> None:
        """As pika's."""
        if consumer_tag is None and self.is_open:
            self._cancel_all()
        super().stop_consuming(consumer_tag)

    def _on_consumer_message_delivery(
        self, channel: Any, method: Any, properties: Any, body: bytes
    ) -> None:
        # Overridden here and not in private.py, as _dispatch_events is, to spare every message a
        # call; private.check looks for both.
        self._runner.received(method.consumer_tag)
        # pika stored this bound method, so it also comes here when the channel is its own again.
        BlockingChannel._on_consumer_message_delivery(self, channel, method, properties, body)

    def _cancel_all(self) -> None:
        generator, self._generator = self._generator, None
        self._runner.cancel_all()
        self._await_cancels()
        if generator is not None:
            self._give_back_waiting(generator)

    def _give_back_waiting(self, generator: Generator) -> None:
        """Give back what waits in a loop, after the cancels: a lane still open would get it."""
        for method, _, _ in generator.take_waiting():
            self.basic_nack(method.delivery_tag, requeue=True)
        self._hand_back()

    def _await_cancels(self) -> None:
        """Wait until the broker has confirmed every cancel, and give back what came until then."""
        runner, adapter = self._runner, self._adapter
        while not adapter.all_cancelled:
            private.wait_until(self, lambda: bool(runner.core.commands) or adapter.all_cancelled)
            runner.carry_out()
        runner.send_acks(clock())
        adapter.write_now()

    def _dispatch_events(self) -> None:
        # Overridden here for the reason that _on_consumer_message_delivery has.
        adapter, runner = self._adapter, self._runner
        adapter.dispatching = True
        try:
            super()._dispatch_events()
        except BaseException:
            # An interrupt may have come when pika had taken a message out and we had not noted it.
            runner.core.missed_a_message()
            adapter.dispatching = False
            runner.give_back_in_time()
            raise
        adapter.dispatching = False
        if self.is_open and self.connection.is_open:
            runner.cycle_ended()

    def _on_cancelled_by_broker(self, consumer: Consumer, method_frame: Any) -> None:
        self._await_cancels()
        self._tell_cancelled(consumer, method_frame)

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
        goal: Given = None,
    ) -> Iterator[Message]:
        """As pika's; ``goal`` (messages/second, or as in "400/s") is this consumer's own."""
        private.raise_if_not_open(self._inner)
        parameters = (queue, auto_ack, exclusive)
        if self._generator is None:
            tag = consumer_tag or private.new_consumer_tag(self._inner)
            generator = Generator(self, parameters, tag)
            # Not basic_consume as it stands on the object: pika does not call that either.
            AdaptiveBlockingChannel.basic_consume(
                self, queue, generator.put, auto_ack, exclusive, tag, arguments, goal=goal
            )
            generator.consumer = self._runner.core.consumers[tag]
            self._runner.core.be_pulled(generator.consumer, clock())
            self._generator = generator
        elif parameters != self._generator.parameters:
            raise ValueError(
                "Consume with different params not allowed on existing queue consumer "
                f"generator; previous params: {self._generator.parameters!r}; "
                f"new params: {parameters!r}"
            )
        try:
            yield from self._generator.messages(inactivity_timeout)
        except BaseException:
            # Also where the user's loop has ended, perhaps by an exception that ends the process.
            self._runner.give_back_in_time()
            raise

    def cancel(self) -> int:
        """As pika's: messages not yet taken from the generator are requeued."""
        generator, self._generator = self._generator, None
        if generator is None or generator.consumer is None or not self.is_open:
            return int(super().cancel())
        self.basic_cancel(generator.consumer.tag)
        self._give_back_waiting(generator)
        return 0

    def get_waiting_message_count(self) -> int:
        """As pika's."""
        return len(self._generator.waiting) if self._generator is not None else 0

    def _restorable(self) -> bool:
        """Whether there is no ``consume()`` loop: pika would not know the messages of ours."""
        return self._generator is None

    # Acknowledging

    def acknowledge_together(self, tags: deque[int]) -> None:
        """Acknowledge the messages of these tags, which are taken out, in as few frames as is safe.

        For a program whose other threads leave their acks to the connection's.
        """
        if not self._inner.is_open:
            private.raise_if_not_open(self._inner)
        mine: deque[int] = deque()
        while tags:  # other threads may add to them meanwhile
            mine.append(tags.popleft())
        for tag in mine if self._acks.out else ():
            self._acks.acknowledged(tag, False, clock())
        self._runner.acknowledge_together(mine)

    def park(self, delivery_tag: int) -> None:
        """Keep a message for later: another one may come in its place meanwhile.

        Take it back with :meth:`unpark` before you answer it.
        """
        self._runner.park(delivery_tag)

    def unpark(self, delivery_tag: int) -> None:
        """Turn to a message that was parked."""
        self._runner.unpark(delivery_tag)

    def give_back_due(self) -> None:
        """Send the acks that have been held for as long as is allowed.

        For a callback that takes long: no timer fires before it returns.
        """
        self._runner.give_back_due()

    def basic_recover(self, requeue: bool = False) -> None:
        """As pika's."""
        self._runner.give_back_all()
        super().basic_recover(requeue)
        self._acks.answered(0, multiple=True)
        self._runner.core.recovered(clock())

    def basic_get(self, queue: str, auto_ack: bool = False) -> Message:
        """As pika's."""
        self._fetching = True
        try:
            message: Message = super().basic_get(queue, auto_ack)
        except BaseException:
            # After an interrupt a message may still come, which nobody gets.
            self._runner.core.missed_a_message()
            raise
        finally:
            self._fetching = False
        if message[0] is not None:
            self._runner.core.fetched(message[0].delivery_tag, auto_ack)
        return message

    # The rest that matters to a window

    def queue_declare(self, queue: str, *args: Any, **kwargs: Any) -> Any:
        """As pika's."""
        declared = super().queue_declare(queue, *args, **kwargs)
        self._last_queue = declared.method.queue
        return declared

    def tx_select(self) -> Any:
        """As pika's; acks of a transaction are not held."""
        self._begin_transaction()
        return super().tx_select()

    def tx_commit(self) -> Any:
        """As pika's."""
        self._begin_transaction()
        answer = super().tx_commit()
        self._runner.carry_out()
        self._runner.wake_if_due()
        return answer

    def _on_commit_ok(self, _frame: Any) -> None:
        """Also of a commit whose wait was interrupted: what it answered for is answered."""
        core = self._runner.core
        if core.commits:  # else it was asked for before the channel was wrapped
            with held_interrupts():
                core.committed(clock())
                core.commit_answered(clock())

    def tx_rollback(self) -> Any:
        """As pika's."""
        self._begin_transaction()
        answer = super().tx_rollback()
        self._runner.core.rolled_back()
        return answer

    def close(self, reply_code: int = 0, reply_text: str = "Normal shutdown") -> None:
        """As pika's; held acks are sent first. ``connection.close()`` comes here too."""
        if self.is_open:
            self._cancel_all()
        super().close(reply_code, reply_text)
