"""The adaptive channel of py-amqp, on which Celery stands: windows in place of a prefetch."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from amqp import spec
from amqp.exceptions import AMQPError, ConsumerCancelled
from amqp.serialization import loads
from kombu.transport import pyamqp

from controlmq.clients.celery.adapter import CeleryAdapter
from controlmq.clients.celery.feeding import Feeder
from controlmq.clients.celery.handled_tasks import TaskKey, task_key
from controlmq.clients.celery.pool_load import QueueLoad
from controlmq.clients.celery.timers import Timer
from controlmq.clients.celery.worker import AdaptiveWorker
from controlmq.clients.channel_runner import Runner, clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.lanes import Lane

PARKED_FROM_SECONDS = 0.5
"""Seconds that a task must be ahead of its time to be parked. Where the broker delays messages,
they come when they are due, and a slot for each would be opened for nothing."""

LAST_ANSWER_SECONDS = 2.0
"""Seconds to wait for the broker's answers when a worker stops; Celery waits without a limit."""

log = logging.getLogger("controlmq")


@dataclass(frozen=True)
class Subscription:
    """What every lane of a consumer is asked for with."""

    callback: Callable[[Any], Any]
    arguments: Any
    on_cancel: Callable[[str], Any] | None
    load: QueueLoad


class Delivery:
    """A message as the runner sees it."""

    __slots__ = ("consumer_tag", "delivery_tag", "headers", "redelivered")

    def __init__(self, message: Any) -> None:
        info = message.delivery_info
        self.consumer_tag = info["consumer_tag"]
        self.delivery_tag = info["delivery_tag"]
        self.redelivered = info["redelivered"]
        self.headers = message.properties.get("application_headers") or {}


class Note(NamedTuple):
    """What is known of a message that Celery has: its task, and whether it is acknowledged late."""

    key: TaskKey | None
    late: bool
    load: QueueLoad


class AdaptiveChannel(pyamqp.Channel):  # type: ignore[misc]
    """A channel whose prefetch changes for running consumers; all else is as py-amqp has it.

    Pools acknowledge from threads and greenlets of their own. A lock keeps them apart; it is not
    held while Celery handles a message, which may wait for the pool.
    """

    runner: Runner

    def adapt(self, worker: AdaptiveWorker, timer: Timer) -> None:
        """Begin with no consumers."""
        self.worker = worker
        self.window_lock = threading.RLock()
        self.subscriptions: dict[str, Subscription] = {}
        self.controlled: dict[str, ControlledConsumer] = {}
        self._window_adapter = CeleryAdapter(self, timer)
        self.runner = Runner(self._window_adapter)
        self.runner.on_sample = self._turn
        pool = worker.consumer.pool
        self._feeder = Feeder(pool.spawn_n) if getattr(pool, "is_green", False) else None
        self._notes: dict[int, Note] = {}
        self._timed: set[int] = set()
        """Tags of messages that Celery keeps until their time, and counts in its prefetch."""
        self._parked: set[int] = set()
        """Those of them that are parked."""
        self._watch_blocking()

    @property
    def parked(self) -> int:
        """Messages that wait for their time here."""
        return len(self._timed)

    def _turn(self, consumer: Consumer) -> None:
        if not consumer.cancelled:
            self.controlled[consumer.tag].turn()
            # Also for a single queue: Celery may have asked while it was switched off.
            self._split_prefetch()

    def _watch_blocking(self) -> None:
        """Hear when the broker stops reading from the connection, and when it reads again.

        Where somebody listens already, both hear it.
        """
        connection, runner = self.connection, self.runner

        def told(report: Callable[[], None], listener: Callable[..., Any] | None) -> Any:
            def tell(*reason: Any) -> None:
                with self.window_lock:
                    report()
                if listener is not None:
                    listener(*reason)

            return tell

        connection.on_blocked = told(runner.blocked, connection.on_blocked)
        connection.on_unblocked = told(runner.unblocked, connection.on_unblocked)

    def on_timer(self, callback: Callable[[], None]) -> None:
        """Something is due; a lost connection is noticed by whatever reads from it."""
        try:
            with self.window_lock:
                callback()
        except (OSError, AMQPError):
            pass
        except Exception:
            log.exception("a timer of the window failed; the worker goes on")

    # Messages

    def receiver_of(self, lane: Lane) -> Callable[[Any], None]:
        """What py-amqp calls with each message of a lane."""
        subscription = self.subscriptions[lane.consumer.tag]
        lock = self.window_lock

        def deliver(_channel: Any, delivery: Delivery, _headers: Any, message: Any) -> None:
            message.delivery_info["consumer_tag"] = delivery.consumer_tag
            lock.release()
            try:
                self._hand_over(delivery, message, subscription)
            finally:
                lock.acquire()

        receive = self.runner.receiver(lane, deliver)

        def on_message(message: Any) -> None:
            delivery = Delivery(message)
            with lock:
                receive(self, delivery, delivery, message)

        return on_message

    def _hand_over(self, delivery: Delivery, message: Any, subscription: Subscription) -> None:
        """Give a message to Celery, unless its task was handled before a connection was lost."""
        tag, headers = delivery.delivery_tag, delivery.headers
        key = task_key(headers, message.body)
        task = self.worker.tasks.get(headers.get("task"))
        load = subscription.load
        with self.window_lock:
            self._notes[tag] = Note(key, task is not None and task.acks_late, load)
            load.come()
            if delivery.redelivered and key is not None and self.worker.handled.has(key, clock()):
                self.basic_ack(tag)
                return
        give = partial(self._give, tag, message, subscription, headers.get("eta"))
        if self._feeder is None:
            give()
        else:
            self._feeder.put(tag, give)

    def _give(self, tag: int, message: Any, subscription: Subscription, eta: Any) -> None:
        """Let Celery have a message; it may wait for its pool, or keep the message for later."""
        if eta is not None:
            with self.window_lock:
                self._timed.add(tag)
        subscription.callback(message)
        if eta is not None and _is_far(eta):
            with self.window_lock:
                if tag in self._timed and not self.runner.stopped:
                    self._parked.add(tag)
                    subscription.load.put_aside()
                    self.runner.park(tag)

    def due(self, tag: int) -> None:
        """The time of a message that Celery has kept has come."""
        with self.window_lock:
            self._timed.discard(tag)
            if tag in self._parked:
                self._parked.discard(tag)
                self._notes[tag].load.come()
                if not self.runner.stopped:
                    self.runner.unpark(tag)

    def _answered(self, tag: int) -> Note | None:
        """Celery answers a message: forget what was known of it."""
        if tag in self._timed:
            self.due(tag)
        note = self._notes.pop(tag, None)
        if note is not None:
            note.load.gone()
        return note

    def is_done(self, tag: int) -> None:
        """Celery acknowledges a message, now or soon: its task is not to run again."""
        with self.window_lock:
            note = self._notes.get(tag)
            if note is None or note.key is None:
                return
            if self.runner.stopped or self.connection is None:
                self.worker.handled.acknowledged_too_late(note.key, clock())
            else:
                self.worker.handled.acknowledged(note.key, clock())

    def basic_ack(self, delivery_tag: int, multiple: bool = False, argsig: str = "Lb") -> Any:
        """As py-amqp's; where the task is done, the frame may be held for the window."""
        with self.window_lock:
            self.is_done(delivery_tag)
            note = self._answered(delivery_tag)
            if self.runner.stopped or self.connection is None:
                return super().basic_ack(delivery_tag, multiple, argsig)
            if note is not None and not note.late:
                self.runner.acknowledge_at_once(delivery_tag)
            else:
                self.runner.acknowledge(delivery_tag, multiple)
            return None

    def basic_reject(self, delivery_tag: int, requeue: bool, argsig: str = "Lb") -> Any:
        """As py-amqp's; sent at once."""
        with self.window_lock:
            self._answered(delivery_tag)
            if self.runner.stopped or self.connection is None:
                return super().basic_reject(delivery_tag, requeue, argsig)
            self.runner.reject(delivery_tag, False)
            super().basic_reject(delivery_tag, requeue, argsig)
            self.runner.wake_if_due()
            return None

    # Prefetch and lanes

    def basic_qos(
        self, prefetch_size: int, prefetch_count: int, a_global: bool, argsig: str = "lBb"
    ) -> None:
        """The prefetch of running consumers from now on; nothing is sent.

        Celery adds a message to it for each that it keeps until its time. Those are parked here.
        """
        with self.window_lock:
            if prefetch_count and not self.runner.stopped:
                self.worker.asked = max(1, prefetch_count - len(self._timed))
                self._split_prefetch()

    def _split_prefetch(self) -> None:
        consumers = self.runner.core.consumers
        self.worker.split_prefetch([self.controlled[tag] for tag in consumers])

    def basic_consume(
        self,
        queue: str = "",
        consumer_tag: str = "",
        no_local: bool = False,
        no_ack: bool = False,
        exclusive: bool = False,
        nowait: bool = False,
        callback: Callable[[Any], Any] | None = None,
        arguments: Any = None,
        on_cancel: Callable[[str], Any] | None = None,
        argsig: str = "BssbbbbF",
    ) -> str:
        """As py-amqp's; plain where nothing can be adapted: no acks, no limit, or exclusive.

        The step refuses what it knows of. Queues that are added while the worker runs come here.
        """
        if no_ack or exclusive or callback is None or not self.worker.asked:
            if no_ack or exclusive:
                why = "without acks" if no_ack else "exclusively"
                self.worker.notice_not_adapted(queue, why)
            with self.window_lock:
                self.runner.core.subscribed_without_window()
            tag: str = super().basic_consume(
                queue, consumer_tag, no_local, no_ack, exclusive, nowait, callback, arguments,
                on_cancel, argsig,
            )  # fmt: skip
            return tag
        with self.window_lock:
            last = self.worker.last_of(queue)
            consumer, load = self.worker.new_consumer(consumer_tag, queue, arguments, self.runner)
            self.controlled[consumer_tag] = consumer
            self.subscriptions[consumer_tag] = Subscription(callback, arguments, on_cancel, load)
            self.runner.subscribe(consumer.plant)
            self.worker.go_on(consumer, last)
            self._split_prefetch()
        while not nowait and consumer_tag in self._window_adapter.openings:
            self._drain()
        return consumer_tag

    def _drain(self) -> None:
        if self.connection is None:
            raise ConsumerCancelled("the connection was closed", spec.Basic.Consume)
        self.connection.drain_events()

    def dispatch_method(self, method_sig: Any, payload: Any, content: Any) -> Any:
        """As py-amqp's; notes which lanes the broker has confirmed."""
        if method_sig == spec.Basic.ConsumeOk and self._window_adapter.openings:
            (tag,), _ = loads("s", payload, 4)
            lane = self._window_adapter.openings.pop(tag, None)
            if lane is not None:
                with self.window_lock:
                    self.runner.lane_opened(lane)
                    self.runner.carry_out()
                    self.runner.wake_if_due()
        return super().dispatch_method(method_sig, payload, content)

    def basic_cancel(self, consumer_tag: str, nowait: bool = False, argsig: str = "sb") -> Any:
        """As py-amqp's: cancels the consumer, all of it; held acks are sent."""
        core = self.runner.core
        consumer = core.consumers.get(consumer_tag)
        if consumer is None or self.runner.stopped or self.connection is None:
            return super().basic_cancel(consumer_tag, nowait, argsig)
        lanes = consumer.window.subscribed
        with self.window_lock:
            self.runner.cancel(consumer)
        while consumer in core.leaving and not self.runner.stopped:
            self._drain()  # a lane that the broker has yet to confirm
        # The broker answers in order: after this no message of these lanes can come.
        answer = super().basic_cancel(consumer_tag, False, argsig)
        for lane in lanes:
            self.callbacks.pop(lane.tag, None)
        return answer

    def lane_lost(self, tag: str) -> None:
        """The broker has cancelled a lane: Celery has one consumer, and hears of it once."""
        with self.window_lock:
            consumer = self.runner.cancelled_by_broker(tag)
        if consumer is not None:
            on_cancel = self.subscriptions[consumer.tag].on_cancel
            if on_cancel is None:
                raise ConsumerCancelled(consumer.tag, spec.Basic.Cancel)
            on_cancel(consumer.tag)

    # The end

    def give_back_all(self) -> None:
        """Cancel all consumers, put every held ack on the wire and give back what waits."""
        waiting = self._feeder.clear() if self._feeder is not None else []
        with self.window_lock:
            if not self.runner.stopped and self.connection is not None:
                with suppress(OSError, AMQPError):
                    self.runner.cancel_all()
        until = clock() + LAST_ANSWER_SECONDS
        with suppress(OSError, AMQPError):
            while self.runner.core.leaving and self.connection is not None and clock() < until:
                # A lane that the broker has yet to confirm is cancelled, and its acks sent, then.
                self.connection.drain_events(timeout=LAST_ANSWER_SECONDS)
            for tag in waiting:
                self._give_back(tag)

    def _give_back(self, tag: int) -> None:
        """Let a message that Celery has not got go back to its queue."""
        with self.window_lock:
            if not self.runner.stopped and self.connection is not None:
                self._answered(tag)
                self.runner.reject(tag, False)
                self._window_adapter.give_back([tag])

    def close(self, *args: Any, **kwargs: Any) -> Any:
        """As py-amqp's; held acks are sent first."""
        self.give_back_all()
        return super().close(*args, **kwargs)

    def collect(self) -> None:
        """As py-amqp's: the channel is closed, or its connection lost."""
        with self.window_lock:
            if not self.runner.stopped:
                self.runner.stop()
                self._window_adapter.timer.stop()
                if self._feeder is not None:
                    self._feeder.clear()  # the broker delivers these again
                self.worker.handled.connection_lost(clock())
        super().collect()


def _is_far(eta: Any) -> bool:
    """Whether a task's time, as its message has it, is far enough to be parked."""
    try:
        when = eta if isinstance(eta, datetime) else datetime.fromisoformat(eta)
        # Without a zone Celery reads it in its own way.
        ahead = math.inf if when.tzinfo is None else (when - datetime.now(UTC)).total_seconds()
        return ahead > PARKED_FROM_SECONDS
    except (TypeError, ValueError):
        return True
