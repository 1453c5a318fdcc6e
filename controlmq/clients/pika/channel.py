"""What the adaptive channels of pika, blocking and asynchronous, have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from pika import frame, spec
from pika.exceptions import ChannelClosedByClient, DuplicateConsumerTag

from controlmq.clients.adapter import Adapter
from controlmq.clients.channel_runner import Known, Runner, clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.handled import ChannelAcks, outlives_its_channel
from controlmq.clients.interrupts import held_interrupts
from controlmq.clients.kept_bounds import KeptBounds
from controlmq.clients.new_consumer import new_consumer
from controlmq.clients.pika import private
from controlmq.clients.settings import Settings
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.lanes import Lane
from controlmq.errors import InputError
from controlmq.goals import Given, GoalsByQueue


class AdaptivePikaChannel:
    """A pika channel whose consumers hold their goals; stands before pika's own class."""

    _runner: Runner
    _plain_class: type
    """pika's class, or one derived from it, that the channel had before."""
    _replaced: frozenset[str]
    """Names of pika's methods that have another meaning here."""
    _awaits_log = False
    """Whether ``basic_consume`` waits for the log of a rate that is shared."""
    _acks: ChannelAcks
    kept_bounds: KeptBounds
    _before: list[ControlledConsumer]
    """Consumers of the channel before this one whose places are not taken yet."""
    _inner: Any
    """The asynchronous channel underneath, which knows whether it is open."""
    is_open: bool
    """pika's."""

    def _adapt(
        self, settings: Settings, adapter: Adapter, before: AdaptivePikaChannel | None
    ) -> None:
        self._inner = private.asynchronous(self)
        self._send = private.sender(self._inner)
        """Puts a method on the wire."""
        self._settings = settings
        self._controllers = Controllers()
        self.kept_bounds = KeptBounds(None if before is None else before.kept_bounds)
        self._runner = Runner(adapter)
        self._runner.on_sample = self._turn
        self._runner.after_wake = self._hand_back
        self._acks = ChannelAcks({} if before is None else before._acks.lost, settings.max_hold)
        self._before = [] if before is None else before._last_consumers()
        self._consumers_by_tag: dict[str, ControlledConsumer] = {}
        self._subscriptions: dict[str, dict[str, Any]] = {}
        self._known: dict[str, Known | None] = {}
        self._fixed = False
        """Whether control has ended, and pika takes over as soon as no lane is left."""
        self._asked_prefetch: int | None = None
        """What the user asked for with ``basic_qos``: where the next consumer starts."""
        self._fetching = False
        """Whether a message is fetched by this class, which puts it in the books."""
        self._last_queue = ""
        """The queue declared last, which AMQP calls by the empty name."""
        self._unnamed: list[ControlledConsumer] = []
        """Consumers of the queue declared last, while the broker has not told its name."""
        runner = self._runner
        self._at_end: list[Callable[[], None]] = [
            private.watch_blocking(
                self._inner, lambda _frame: runner.blocked(), lambda _frame: runner.unblocked()
            )
        ]
        """What to do when the channel is closed, or pika's own again."""
        end, acks = self._end, self._acks  # known even if the channel is pika's own by then

        def on_closed(_channel: Any, reason: BaseException) -> None:
            # Where the user has closed it, all acks have arrived.
            acks.end(clock(), have_arrived=isinstance(reason, ChannelClosedByClient))
            end()

        self._inner.add_on_close_callback(on_closed)
        self._cancel_callbacks = private.take_cancel_callbacks(self)
        super().add_on_cancel_callback(self._on_lane_lost)  # type: ignore[misc]
        private.send_through(self._inner, self._send_noting)

    @property
    def adaptive_consumers(self) -> dict[str, ControlledConsumer]:
        """The consumers of this channel by the tags the user knows."""
        return {tag: self._consumers_by_tag[tag] for tag in self._runner.core.consumers}

    @property
    def consumer_tags(self) -> list[str]:
        """Tags of the active consumers, as the user knows them: every one is adaptive."""
        return list(self._runner.core.consumers)

    # Consuming

    def _consume(
        self,
        queue: str,
        on_message: Callable[..., Any],
        tag: str | None,
        goal: Given,
        auto_ack: bool,
        subscription: dict[str, Any],
    ) -> ControlledConsumer:
        """Subscribe a new consumer; ``subscription`` is what each of its lanes is asked with."""
        if auto_ack:
            raise InputError(
                "auto_ack=True leaves nothing to adapt: without acknowledgements the broker "
                "ignores the prefetch; consume with auto_ack=False, or on a channel that is not "
                "wrapped."
            )
        tag = tag or private.new_consumer_tag(self._inner)
        core = self._runner.core
        if tag in core.consumers or tag in [leaving.tag for leaving in core.leaving]:
            raise DuplicateConsumerTag(tag)
        settings = self._settings
        if goal is not None:
            goals = GoalsByQueue({**settings.goals.given, "goal": goal})
            settings = replace(settings, goals=goals)
        queue = queue or self._last_queue
        last = self._one_before(tag, queue)
        consumer = new_consumer(
            tag,
            queue,
            settings,
            self._controllers,
            self.kept_bounds,
            self._runner,
            asked=self._asked_prefetch,
            arguments=subscription["arguments"],
            exclusive=subscription["exclusive"],
            last=last,
        )
        if not queue:
            self._unnamed.append(consumer)
        self._forget_cancelled()
        try:
            self._consumers_by_tag[tag] = consumer
            self._subscriptions[tag] = {"on_message": on_message, **subscription}
            self._known[tag] = self._known_of(queue)
            self._runner.subscribe(consumer.plant)
        finally:
            if tag not in core.consumers:  # refused: the one before it waits for another
                self._forget(tag)
        if last is not None:
            consumer.go_on_from(last)
            self._before.remove(last)
        if consumer.shared is not None:
            self._at_end.append(consumer.shared.leave)
            consumer.shared.awaited = self._awaits_log
        consumer.join()
        return consumer

    def _turn(self, consumer: Consumer) -> None:
        """Turn the loop of a consumer whose interval is over."""
        if not consumer.cancelled:
            self._consumers_by_tag[consumer.tag].turn()

    def _forget_cancelled(self) -> None:
        for tag in self._consumers_by_tag.keys() - self._runner.core.consumers.keys():
            self._forget(tag)

    def _forget(self, tag: str) -> None:
        # An interrupt may have come before all of them were there.
        for books in (self._consumers_by_tag, self._subscriptions, self._known):
            books.pop(tag, None)

    def _last_consumers(self) -> list[ControlledConsumer]:
        """Those that a channel after this one may go on from: of each queue the last ones."""
        if self._fixed:
            return []  # control has ended, and does not begin again with the law of before
        mine = [
            each for each in self._consumers_by_tag.values() if outlives_its_channel(each.queue)
        ]
        queues = {each.queue for each in mine}
        return [*(each for each in self._before if each.queue not in queues), *mine]

    def _one_before(self, tag: str, queue: str) -> ControlledConsumer | None:
        """Which consumer of the channel before this one goes on in a new one, if any.

        It consumed the same queue; of several the one with the same tag, else the first.
        """
        mine = [each for each in self._before if queue and each.queue == queue]
        return next((each for each in mine if each.tag == tag), mine[0] if mine else None)

    def _known_of(self, queue: str) -> Known | None:
        """What says of a message whether it was handled by the channel before this one.

        Such a message is acknowledged at once. None where no message can have been.
        """
        if not outlives_its_channel(queue):
            return None
        acks, runner = self._acks, self._runner

        def known(method: Any, properties: Any, body: bytes) -> bool:
            if not acks.handled_before(queue, method, properties, body, clock()):
                return False
            runner.acknowledge(method.delivery_tag, False)
            return True

        return known

    def _declared(self, queue: str) -> Callable[[str], None]:
        """A queue is being declared, with an empty name if the broker is to choose one.

        From now on the empty name stands for it. Returns what to call with the name in the
        broker's answer, since lanes are opened later, when the empty name may mean another.
        """
        self._last_queue = queue
        mine: list[ControlledConsumer] = []
        self._unnamed = mine

        def named(name: str) -> None:
            for consumer in mine:
                self._runner.core.named(consumer.plant, name)
            if self._unnamed is mine:
                self._last_queue = name

        return named

    def _callback(self, lane: Lane, on_message: Callable[..., Any]) -> Callable[..., Any]:
        """What pika is to call with the messages of ``lane``.

        Instrumentation replaces callbacks in pika's books after ``basic_consume``. A further lane
        takes the one it finds there, so that its messages are seen as well. Not that of a
        cancelled lane: until the broker confirms the cancel it gives every message back.
        """
        receiver = self._runner.receiver(lane, on_message, self._known[lane.consumer.tag])
        others = (
            private.consumer_callback(self, each.tag) for each in lane.consumer.window.subscribed
        )
        return next((callback for callback in others if callback is not None), receiver)

    # Cancels by the broker: the user has one consumer, not its lanes

    def add_on_cancel_callback(self, callback: Callable[[Any], Any]) -> None:
        """As pika's: called once for a consumer that the broker cancelled, its tag free again."""
        if callback not in self._cancel_callbacks:
            self._cancel_callbacks.append(callback)

    def _on_lane_lost(self, method_frame: Any) -> None:
        consumer = self._runner.cancelled_by_broker(method_frame.method.consumer_tag)
        if consumer is not None:
            self._acks.cancelled_by_broker(consumer.queue, clock())
            self._on_cancelled_by_broker(consumer, method_frame)

    def _on_cancelled_by_broker(self, consumer: Consumer, method_frame: Any) -> None:
        """See that the user is told once the broker has confirmed the cancels of all lanes."""
        raise NotImplementedError

    def _tell_cancelled(self, consumer: Consumer, method_frame: Any) -> None:
        cancel = spec.Basic.Cancel(consumer.tag, method_frame.method.nowait)
        for callback in list(self._cancel_callbacks):
            callback(frame.Method(method_frame.channel_number, cancel))

    # Acknowledging

    def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        """As pika's; the frame may be held for as long as the window needs it."""
        if self._acks.out:
            self._acks.acknowledged(delivery_tag, multiple, clock())
        if not self._inner.is_open:
            private.raise_if_not_open(self._inner)
        self._runner.acknowledge(delivery_tag, multiple)

    def _send_noting(self, method: Any, content: Any = None) -> None:
        """Send what pika sends, and note answers that did not come through this class.

        A method of the channel that was bound, or replaced on the object, before the channel was
        wrapped calls pika's own class.
        """
        kind = type(method)
        if kind is spec.Basic.Ack:
            AdaptivePikaChannel.basic_ack(self, method.delivery_tag, method.multiple)
            return
        if kind is spec.Basic.Consume and not self._runner.has_lane(method.consumer_tag):
            raise InputError(
                f"consumer {method.consumer_tag} would have no window: its basic_consume was "
                "taken from the channel before that was wrapped; call the channel's own."
            )
        if kind is spec.Tx.Commit:
            with held_interrupts():  # or a stop would wait for the answer to what was not sent
                self._runner.core.committing()
                self._send(method, content)
            return
        if kind is spec.Basic.Get and not (method.no_ack or self._fetching):
            self._runner.core.missed_a_message()
        if kind is spec.Basic.Nack or kind is spec.Basic.Reject:
            multiple = kind is spec.Basic.Nack and method.multiple
            if self._acks.out:
                self._acks.answered(method.delivery_tag, multiple)
            frames = self._runner.reject(method.delivery_tag, multiple)
            if multiple:
                for tag, several in frames:
                    self._send(spec.Basic.Nack(tag, several, method.requeue))
            else:
                self._send(method)
            self._runner.wake_if_due()
            return
        self._send(method, content)

    # Transactions

    def _begin_transaction(self) -> None:
        self._acks.in_transaction = True
        self._runner.core.transaction_begun(clock())
        self._runner.send_acks(clock())

    # The end of control

    def _fix(self, prefetch: int | None) -> None:
        """Control no more: keep every consumer at this prefetch, or at the slots it has."""
        slots = [each.window.granted for each in self._runner.core.consumers.values()]
        later = prefetch or self._settings.prefetch or max(slots, default=None)
        self._settings = replace(
            self._settings, goals=GoalsByQueue(), controller=None, prefetch=later, fixed=True
        )
        for consumer in self.adaptive_consumers.values():
            consumer.end_control()
        self._fixed = True
        self._runner.fix(prefetch)

    def _restorable(self) -> bool:
        """Whether pika's own channel can take over now."""
        return True

    def _hand_back(self) -> None:
        """Make the channel pika's again if control ended and every consumer is plain by now."""
        if self._runner.stopped:
            return
        plain = self._fixed and all(each.plain for each in self._runner.core.consumers.values())
        # What somebody has put on the object calls methods of this class.
        if plain and self._restorable() and not patched(self, self._replaced):
            self._end()
            private.send_as_pika(self._inner)
            private.remove_cancel_callback(self, self._on_lane_lost)
            self.__class__ = self._plain_class
            for callback in self._cancel_callbacks:
                self.add_on_cancel_callback(callback)

    def _end(self) -> None:
        """The channel is closed, or pika's own again."""
        self._runner.stop()
        while self._at_end:
            self._at_end.pop()()


def was_adaptive(channel: Any) -> bool:
    """Whether a channel was wrapped and is pika's own again."""
    return not isinstance(channel, AdaptivePikaChannel) and hasattr(channel, "_runner")


def patched(channel: Any, names: Collection[str]) -> dict[str, Any]:
    """What stands on the object itself under one of these names, before its class."""
    return {name: value for name, value in vars(channel).items() if name in names}


def refuse_global(global_qos: bool) -> None:
    """A shared limit would change every lane at once, and RabbitMQ 4.3 denies it."""
    if global_qos:
        raise InputError(
            "global_qos=True is not for a wrapped channel: RabbitMQ deprecated it, and a "
            "window is per consumer; leave it out."
        )
