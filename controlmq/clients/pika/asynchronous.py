"""The adaptive asynchronous ``Channel``: pika's, with a window in place of a prefetch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pika import frame, spec
from pika.channel import Channel

from controlmq.clients.channel_runner import ACKS_WAIT_SECONDS, clock
from controlmq.clients.interrupts import held_interrupts
from controlmq.clients.pika import private
from controlmq.clients.pika.adapter import PikaAdapter
from controlmq.clients.pika.channel import AdaptivePikaChannel, refuse_global
from controlmq.clients.settings import Settings
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane
from controlmq.goals import Given

Callback = Callable[..., Any]


class AsynchronousAdapter(PikaAdapter):
    """How lanes, acks and timers reach the broker through an asynchronous ``Channel``.

    Requests wait in pika for the answer to the one before them, and acks overtake them there.
    """

    def __init__(self, channel: AdaptiveChannel) -> None:
        super().__init__(channel)
        self._plain: Any = super(AdaptivePikaChannel, channel)
        self._cycle_end_due = False
        self._cycle_from = 0.0
        """When it began: the first message of what pika reads now, or the first ack."""
        self._after_cancel: dict[Consumer, Callback] = {}

    def send_acks(self, acks: Sequence[Ack]) -> None:
        """Let pika buffer the frames until its loop finds the socket writable."""
        self._check_open()
        for tag, multiple in acks:
            self._send(spec.Basic.Ack(tag, multiple))

    def flush(self) -> None:
        """Do nothing: pika's loop flushes."""

    def open_lane(self, lane: Lane) -> None:
        """Send both requests at once, so that no other comes between them."""
        channel = self._channel
        subscription = dict(channel._subscriptions[lane.consumer.tag])
        receiver = channel._callback(lane, subscription.pop("on_message"))
        # The user's callback is for the first lane; the user does not know the others.
        user_callback = subscription.pop("callback") if lane.tag == lane.consumer.tag else None
        subscription.pop("callback", None)

        def on_consume_ok(method_frame: Any) -> None:
            channel._runner.lane_opened(lane)
            if user_callback is not None:
                user_callback(method_frame)

        self._plain.basic_qos(prefetch_count=lane.size)
        self._plain.basic_consume(
            lane.consumer.queue,
            receiver,
            consumer_tag=lane.tag,
            callback=on_consume_ok,
            **subscription,
        )

    def when_cancelled(self, consumer: Consumer, callback: Callback) -> None:
        """Call back once the broker has confirmed the cancels of all lanes of a consumer."""
        self._after_cancel[consumer] = callback
        self.on_cancel_confirmed(consumer)

    def on_cancel_confirmed(self, consumer: Consumer) -> None:
        """Call the function that waits for a consumer's cancels, if this was the last of them."""
        if consumer in self._after_cancel and self.is_cancelled(consumer):
            self._after_cancel.pop(consumer)()

    def on_late_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        """Give the message back at once, unless a cancel is still to be sent."""
        super().on_late_message(channel, method, properties, body)
        if self._channel.is_open:
            self._channel._runner.send_acks(clock())

    def write_now(self) -> None:
        """Write what pika has buffered."""
        private.write_now(self._channel)

    def reports_cycle_end(self) -> bool:
        """Yes: a timer without delay fires once pika has dispatched all that it read."""
        if not self._cycle_end_due:
            self._await_cycle_end(clock())
        return True

    def _await_cycle_end(self, now: float) -> None:
        self._cycle_end_due, self._cycle_from = True, now
        self.call_later(0, self._end_cycle)

    def _end_cycle(self) -> None:
        self._cycle_end_due = False
        if self._channel.is_open:
            self._channel._runner.cycle_ended()

    def buffered(self) -> int:
        """None: messages are dispatched as they are read."""
        return 0

    def waited(self, now: float) -> float:
        """Seconds since the first of the messages that pika reads without returning to its loop.

        pika dispatches each message as it reads it, so the handlers of earlier messages keep it
        waiting. No ack is written meanwhile, so all these messages were on their way when the first
        one was read.
        """
        if self._cycle_end_due:
            return now - self._cycle_from
        if self._channel._runner.core.longest_call >= ACKS_WAIT_SECONDS:
            self._await_cycle_end(now)  # else an ack does, and one message makes no difference
        return 0.0

    def take_in(self) -> None:
        """Do nothing: pika hands over what it reads."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set a timer of the connection's loop, of whatever kind that is."""
        return private.call_later(self._channel, delay, callback)

    def call_threadsafe(self, callback: Callable[[], None]) -> None:
        """Have the connection's loop call it, of whatever kind that is."""
        private.call_threadsafe(self._channel, callback)

    def cancel_timer(self, timer: object) -> None:
        """Remove the timer from the loop."""
        private.cancel_timer(self._channel, timer)


class AdaptiveChannel(AdaptivePikaChannel, Channel):  # type: ignore[misc]
    """A ``Channel`` whose consumers hold their goals.

    Everything is as pika has it, except that ``basic_consume`` takes a ``goal``, that
    ``auto_ack=True`` and ``global_qos=True`` are refused, and that ``basic_qos`` says where
    the next consumer starts. ``adaptive_consumers`` are the consumers by their tags.
    """

    def _adapt_with(self, settings: Settings, before: AdaptivePikaChannel | None) -> None:
        self._adapter = AsynchronousAdapter(self)
        self._adapt(settings, self._adapter, before)
        self._runner.waited = self._adapter.waited
        self._at_end.append(private.watch_commits(self, self._on_commit_ok))

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
        self._asked_prefetch = prefetch_count or None

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
        goal: Given = None,
    ) -> str:
        """As pika's; ``goal`` (messages/second, or as in "400/s") is this consumer's own."""
        if not callable(on_message_callback) or not (callback is None or callable(callback)):
            # In pika's own words.
            return str(super().basic_consume(queue, on_message_callback, callback=callback))
        subscription = {"exclusive": exclusive, "arguments": arguments, "callback": callback}
        return self._consume(
            queue, on_message_callback, consumer_tag, goal, auto_ack, subscription
        ).tag

    def basic_cancel(self, consumer_tag: str = "", callback: Callback | None = None) -> None:
        """As pika's: cancels the consumer, all of it."""
        consumer = self._runner.core.consumers.get(consumer_tag)
        if consumer is None:
            super().basic_cancel(consumer_tag, callback)
            return
        self._runner.cancel(consumer)
        if callback is not None:
            confirmed = frame.Method(self.channel_number, spec.Basic.CancelOk(consumer_tag))
            self._adapter.when_cancelled(consumer, lambda: callback(confirmed))

    def _on_lane_lost(self, method_frame: Any) -> None:
        self._adapter.lane_lost(method_frame.method.consumer_tag)
        super()._on_lane_lost(method_frame)

    def _on_cancelled_by_broker(self, consumer: Consumer, method_frame: Any) -> None:
        self._adapter.when_cancelled(consumer, lambda: self._tell_cancelled(consumer, method_frame))

    # Acknowledging

    def basic_recover(self, requeue: bool = False, callback: Callback | None = None) -> None:
        """As pika's."""
        self._runner.give_back_all()
        super().basic_recover(requeue, callback)
        self._acks.answered(0, multiple=True)
        self._runner.core.recovered(clock())

    def basic_get(self, queue: str, callback: Callback, auto_ack: bool = False) -> None:
        """As pika's."""

        def on_get_ok(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            self._runner.core.fetched(method.delivery_tag, auto_ack)
            callback(channel, method, properties, body)

        self._fetching = True
        try:
            super().basic_get(queue, on_get_ok if callable(callback) else callback, auto_ack)
        finally:
            self._fetching = False

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
        named = self._declared(queue)

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
        self._begin_transaction()
        super().tx_select(callback)

    def tx_commit(self, callback: Callback | None = None) -> None:
        """As pika's."""
        self._begin_transaction()
        super().tx_commit(callback)
        self._runner.core.committed(clock())

    def _on_commit_ok(self, _frame: Any) -> None:
        if self._runner.core.commits:  # else it was asked for before the channel was wrapped
            self._runner.commit_answered()

    def tx_rollback(self, callback: Callback | None = None) -> None:
        """As pika's."""
        self._begin_transaction()
        super().tx_rollback(callback)
        self._runner.core.rolled_back()

    def close(self, reply_code: int = 0, reply_text: str = "Normal shutdown") -> None:
        """As pika's; held acks are sent first. ``connection.close()`` comes here too.

        An interrupt waits for that: a channel that pika thinks it has asked to close, and has not,
        would never be closed.
        """
        with held_interrupts():
            if self.is_open:
                self._runner.cancel_all()
                self._runner.give_back_all()  # of consumers whose cancels have to wait, too
            super().close(reply_code, reply_text)
            self._acks.closing()
            self._runner.stop()  # what waits is pika's to send, and nothing may follow it
