"""The adaptive channel of aiormq, on which aio-pika stands: a window in place of a prefetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import aiormq
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import DuplicateConsumerTag
from pamqp import commands as spec

from controlmq.clients.aio_pika.adapter import AioPikaAdapter, watch_blocking
from controlmq.clients.aio_pika.receiving import (
    Answerable,
    Receivers,
    Remembered,
    Subscription,
    nothing,
)
from controlmq.clients.channel_runner import Runner, clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.handled import ChannelAcks, outlives_its_channel
from controlmq.clients.new_consumer import new_consumer
from controlmq.clients.settings import Settings
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.lanes import Lane
from controlmq.errors import InputError


class AdaptiveChannel(aiormq.Channel):  # type: ignore[misc]
    """A channel whose consumers hold their goals; everything else is as aiormq has it."""

    runner: Runner

    def adapt(self, settings: Settings, remembered: Remembered) -> None:
        """Begin with no consumers."""
        self.settings = settings
        self.subscriptions: dict[str, Subscription] = {}
        self.controlled = remembered.consumers
        self._bounds = remembered.bounds
        self.consumers = Receivers(self._came_too_late)
        self._acks = ChannelAcks(remembered.lost_acks, settings.max_hold)
        self._reading = False
        """Whether a message is being read, of whichever lane."""
        self._work: list[Any] = []
        """On messages that were handed over meanwhile, in their order."""
        self._controllers = Controllers()
        self._asked_prefetch: int | None = None
        self._tags: set[str] = set()
        """Those of all consumers that the channel ever had."""
        self._window_adapter = AioPikaAdapter(self)
        self.runner = Runner(self._window_adapter)
        self.runner.on_sample = self._turn
        self._answerable = Answerable(self)
        watch_blocking(self.connection)
        self.closing.add_done_callback(lambda _: self._ended())

    def _ended(self) -> None:
        self.runner.stop()
        self._acks.end(clock(), have_arrived=False)
        for subscription in self.subscriptions.values():
            subscription.take_waiting(self)  # it comes again, and could not be answered here

    def receiver_of(self, lane: Lane) -> Callable[[Any], Any]:
        """What aiormq calls with each message of a lane, in its reader and so in order.

        It makes a task of what it gets back: of the handler's work on the message, where that is
        handed over at once. A gate may let several go, of any lane, and none of these overtakes
        another.
        """
        subscription = self.subscriptions[lane.consumer.tag]
        handle, queue = subscription.callback, lane.consumer.queue
        lasting = outlives_its_channel(queue)
        acks, work, answerable = self._acks, self._work, self._answerable

        def deliver(channel: Any, method: Any, properties: Any, message: Any) -> None:
            handled = None
            if lasting:
                body = message.body
                handled = acks.handled_before(queue, method, properties, body, clock())
            if handled:
                self.runner.acknowledge(method.delivery_tag, False)
                return
            if handled is not None:
                message = DeliveredMessage(method, message.header, message.body, answerable)
            if self._reading:
                work.append(handle(message))
            else:
                self._begin(handle(message))

        receive = self.runner.receiver(lane, deliver)

        def on_message(message: Any) -> Any:
            self._reading = True
            try:
                receive(self, message.delivery, message.header.properties, message)
                return work.pop() if work else nothing()
            finally:
                self._reading = False
                if work:  # all before the last one, or all after an exception
                    for each in work:
                        self._begin(each)
                    work.clear()

        return on_message

    def _begin(self, work: Any) -> None:
        """Let a handler work on a message, as aiormq would."""
        self.create_task(work).add_done_callback(self._on_consumer_done)

    def _came_too_late(self, message: Any) -> Any:
        """A message came to a lane that is gone: it goes back to its queue."""
        if not self.runner.stopped:
            self.runner.core.came_too_late(message.delivery.delivery_tag)
            self.runner.send_acks(clock())
        return nothing()

    async def answer(self) -> Any:
        """The answer of the broker to a request that was sent under the lock."""
        answer = await self.rpc_frames.get()
        self.rpc_frames.task_done()
        return answer

    def _turn(self, consumer: Consumer) -> None:
        if not consumer.cancelled:
            self.controlled[consumer.tag].turn()

    # Consuming

    async def basic_qos(
        self,
        *,
        prefetch_size: int | None = None,
        prefetch_count: int | None = None,
        global_: bool = False,
        timeout: Any = None,
    ) -> Any:
        """The prefetch from which consumers started from now on begin to adapt."""
        if global_:
            raise InputError(
                "global_=True is not for an adaptive channel: RabbitMQ deprecated it, and a "
                "window is per consumer; leave it out."
            )
        self._asked_prefetch = prefetch_count or None
        return await super().basic_qos(
            prefetch_size=prefetch_size, prefetch_count=prefetch_count, timeout=timeout
        )

    async def basic_consume(
        self,
        queue: str,
        consumer_callback: Callable[..., Any],
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Any = None,
        consumer_tag: str | None = None,
        timeout: Any = None,
    ) -> Any:
        """As aiormq's; an answer is waited for as long as the channel is open."""
        if no_ack:
            raise InputError(
                "no_ack=True leaves nothing to adapt: without acknowledgements the broker ignores "
                "the prefetch; consume without it, or on a channel that is not adaptive."
            )
        tag = consumer_tag or f"ctag{self.number}.{uuid4().hex}"
        if tag in self.runner.core.consumers:
            raise DuplicateConsumerTag(self.number)
        last = self.controlled.get(tag)
        consumer = new_consumer(
            tag,
            queue,
            self.settings,
            self._controllers,
            self._bounds,
            self.runner,
            asked=self._asked_prefetch,
            arguments=arguments,
            exclusive=exclusive,
            last=last,
            tag_is_new=tag not in self._tags,
        )
        self.subscriptions[tag] = Subscription(
            aiormq.tools.awaitable(consumer_callback),
            exclusive,
            arguments,
        )
        self.controlled[tag] = consumer
        self._tags.add(tag)
        self.runner.subscribe(consumer.plant)
        if last is not None:
            consumer.go_on_from(last)
        lane = consumer.plant.window.lanes[0]
        self.consumers[tag] = self.consumers[lane.tag]  # aio-pika subscribes to what is not there
        try:
            await self._window_adapter.openings[lane.tag]
        except BaseException:
            self.consumers.pop(tag, None)
            raise
        await self._join_shared_rate(consumer)
        return spec.Basic.ConsumeOk(tag)

    async def _join_shared_rate(self, consumer: ControlledConsumer) -> None:
        """Join those that share its rate; raise if the broker refuses what they need."""
        shared = consumer.shared
        if shared is None or consumer.switched_off:
            return
        shared.awaited = True
        consumer.join()
        if self._window_adapter.log_opening is not None:
            await self._window_adapter.log_opening
        shared.awaited = False
        self.closing.add_done_callback(lambda _: shared.leave())
        if shared.refusal is not None:
            refusal = shared.refusal
            await self.basic_cancel(consumer.tag)
            raise refusal

    async def basic_cancel(
        self, consumer_tag: str, *, nowait: bool = False, timeout: Any = None
    ) -> Any:
        """As aiormq's: cancels the consumer, all of it."""
        consumer = self.runner.core.consumers.get(consumer_tag)
        if consumer is None:
            return await super().basic_cancel(consumer_tag, nowait=nowait, timeout=timeout)
        lanes = consumer.window.subscribed
        self.runner.cancel(consumer)
        self.controlled.pop(consumer_tag, None)
        # The broker answers in order: after this no message of these lanes can come.
        await super().basic_qos(prefetch_count=self._asked_prefetch)
        for lane in lanes:
            self.consumers.pop(lane.tag, None)
            self.runner.cancel_confirmed(lane.tag)
        self.consumers.pop(consumer_tag, None)
        return None if nowait else spec.Basic.CancelOk(consumer_tag)

    async def _on_cancel_frame(self, frame: Any) -> None:
        """The user has one consumer, not its lanes: callbacks are called once, with its tag.

        A robust connection then subscribes again with that tag, if the queue is still there.
        """
        if isinstance(frame, spec.Basic.Cancel):
            if self.connection.accept_consumer_cancel_ok and frame.consumer_tag in self.consumers:
                self._window_adapter.outbox.put(spec.Basic.CancelOk(frame.consumer_tag))
            consumer = self.runner.cancelled_by_broker(frame.consumer_tag)
            if consumer is not None:
                # After a timeout the broker delivers again what the consumer had.
                self._acks.cancelled_by_broker(consumer.queue, clock())
                for lane in consumer.window.lanes:
                    self.consumers.pop(lane.tag, None)
                # Unknown to aiormq from here on, so that it sends no answer of its own.
                self.consumers.pop(consumer.tag, None)
                for message in self.subscriptions[consumer.tag].take_waiting(self):
                    await self.basic_nack(message.delivery_tag, requeue=True)
                frame = spec.Basic.Cancel(consumer.tag, frame.nowait)
            elif self.runner.has_lane(frame.consumer_tag):
                self.consumers.pop(frame.consumer_tag, None)
                return
        await super()._on_cancel_frame(frame)

    # Acknowledging

    async def basic_ack(self, delivery_tag: int, multiple: bool = False, wait: bool = True) -> None:
        """As aiormq's; the frame may be held for as long as the window needs it."""
        self._acks.acknowledged(delivery_tag, multiple, clock())
        self._raise_if_closed()
        self.runner.acknowledge(delivery_tag, multiple)

    async def basic_nack(
        self,
        delivery_tag: int,
        multiple: bool = False,
        requeue: bool = True,
        wait: bool = True,
    ) -> None:
        """As aiormq's; sent at once."""
        self._raise_if_closed()
        self._acks.answered(delivery_tag, multiple)
        for tag, several in self.runner.reject(delivery_tag, multiple):
            self._window_adapter.outbox.put(spec.Basic.Nack(tag, several, requeue))
        self.runner.wake_if_due()

    async def basic_reject(
        self, delivery_tag: int, *, requeue: bool = True, wait: bool = True
    ) -> None:
        """As aiormq's; sent at once."""
        self._raise_if_closed()
        self._acks.answered(delivery_tag, False)
        self.runner.reject(delivery_tag, False)
        self._window_adapter.outbox.put(spec.Basic.Reject(delivery_tag, requeue))
        self.runner.wake_if_due()

    async def basic_get(self, queue: str = "", no_ack: bool = False, timeout: Any = None) -> Any:
        """As aiormq's."""
        try:
            message = await super().basic_get(queue, no_ack, timeout)
        except BaseException:
            # After a cancellation a message may still come, which nobody gets.
            self.runner.core.missed_a_message()
            raise
        if isinstance(message.delivery, spec.Basic.GetOk):
            self.runner.core.fetched(message.delivery.delivery_tag, no_ack)
        return message

    async def basic_recover(
        self, *, nowait: bool = False, requeue: bool = False, timeout: Any = None
    ) -> Any:
        """As aiormq's."""
        self.runner.give_back_all()
        answer = await super().basic_recover(nowait=nowait, requeue=requeue, timeout=timeout)
        self._acks.answered(0, multiple=True)
        self.runner.core.recovered(clock())
        return answer

    async def tx_select(self, timeout: Any = None) -> Any:
        """As aiormq's; acks of a transaction are not held."""
        self._acks.in_transaction = True
        self.runner.core.transaction_begun(clock())
        self.runner.send_acks(clock())
        return await super().tx_select(timeout)

    async def tx_commit(self, timeout: Any = None) -> Any:
        """As aiormq's."""
        self.runner.core.committing()
        try:
            answer = await super().tx_commit(timeout)
            self.runner.core.committed(clock())
        finally:
            self.runner.commit_answered()
        return answer

    async def tx_rollback(self, timeout: Any = None) -> Any:
        """As aiormq's."""
        answer = await super().tx_rollback(timeout)
        self.runner.core.rolled_back()
        return answer

    # The end

    async def give_back_all(self) -> None:
        """Cancel all consumers and put every held ack on the wire."""
        if not self.is_closed and not self.runner.stopped:
            self.runner.cancel_all()
            await self._window_adapter.outbox.written()

    async def _on_close_frame(self, frame: Any) -> None:
        """As aiormq's: the broker has closed the channel."""
        self._window_adapter.outbox.closed = True
        await super()._on_close_frame(frame)

    async def _on_close_ok_frame(self, frame: Any) -> None:
        """As aiormq's, which also closes a channel by itself when a request is cancelled."""
        self._window_adapter.outbox.closed = True
        await super()._on_close_ok_frame(frame)

    async def _on_close(self, exc: Any = None) -> None:
        """As aiormq's; held acks are sent first, and arrive first. Later ones are not sent."""
        outbox = self._window_adapter.outbox
        if self.connection.is_opened and not outbox.closed:
            await self.give_back_all()
            outbox.closed = True
            self._acks.end(clock(), have_arrived=self.connection.is_opened)
        await super()._on_close(exc)

    def _raise_if_closed(self) -> None:
        if self._window_adapter.outbox.closed or self.is_closed:
            raise aiormq.exceptions.ChannelInvalidStateError(f"{self!r} closed")
