"""Runs the core of one channel: its clock, its timer, its log, and when acks are sent.

There is no thread: the core is woken when a delivery or an ack finds that it is time, and by
one timer, because under load timers starve and without load nothing is delivered.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import Any

from controlmq.clients.adapter import Adapter
from controlmq.clients.interrupts import held_interrupts
from controlmq.consumer.commands import CancelLanes, Command, OpenLane
from controlmq.consumer.consumer import Buckets, Consumer
from controlmq.consumer.core import Core
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane

log = logging.getLogger("controlmq")

clock = time.monotonic

Known = Callable[[Any, Any, bytes], bool]
"""Called with a delivery, its properties and its body: whether the message was handled before. Then
it is acknowledged."""

ACKS_WAIT_SECONDS = 0.0005
"""Seconds. Acks of one dispatch cycle wait this long for each other, to go as one frame."""

QUICK_CALL_SECONDS = 0.01
"""Seconds. Acks wait for each other only where no recent call of the user's code took longer,
because a slow one would delay the acks before it. More than a busy machine's scheduler takes."""

TIMER_SLACK_SECONDS = 0.0005
"""Seconds by which a timer may be late before it is set again, and the shortest timer there is."""

MOST_CHANGES_AT_ONCE = 20
"""Lanes changed in a row before messages are attended to again."""


class Runner:
    """Reports events to a core and carries out what the core asks for, through an adapter."""

    def __init__(self, adapter: Adapter) -> None:
        self.core = Core(held_interrupts)
        self.stopped = False
        self.on_sample: Callable[[Consumer], None] = _nothing
        """Called with a consumer whose interval is over: turns its loop."""
        self.after_wake: Callable[[], None] = _nothing
        """Called when all that was due is done."""
        self.waited: Callable[[float], float] | None = None
        """Set where messages are handed over as they are read, many at once: says, with the time of
        each, for how long it has been here at least."""
        self.adapter = adapter
        self._lanes: dict[str, Lane] = {}
        """Lanes whose messages may come, by their tags."""
        self._together_until = 0.0
        self._timer: object | None = None
        self._timer_at = math.inf
        self._thread = get_ident()
        """The thread that the connection was last seen to be driven by."""
        self._process = os.getpid()
        """The process that it was last seen to be driven by."""
        self._carrying_out = False
        self._sampling = False

    # Messages

    def receiver(
        self, lane: Lane, deliver: Callable[..., Any], known: Known | None = None
    ) -> Callable[..., Any]:
        """What the client library calls with each message of ``lane``, in pika's form.

        It may be called with those of every lane of the same consumer. Messages with an id, or a
        header that may be one, are delivered unless they are ``known``.
        """
        core, consumer, buffered = self.core, lane.consumer, self.adapter.buffered
        waited = self.waited
        lanes, tag, gate = self._lanes, consumer.tag, consumer.gate

        def receive(channel: Any, method: Any, properties: Any, body: bytes) -> Any:
            if self.stopped:
                return deliver(channel, method, properties, body)
            now = clock()
            if now >= core.wake_at:
                try:
                    self.wake(now)  # perhaps into code of the user, the message in no book yet
                except BaseException:
                    core.not_handed_over(lanes[method.consumer_tag], method.delivery_tag, now)
                    raise
                now = clock()
            if consumer.cancelled:
                core.came_too_late(method.delivery_tag)
                # A step of the loop may also have closed the channel, which gives everything back.
                return None if self.stopped else self.send_acks(now)
            lane = lanes[method.consumer_tag]
            if waited is not None:
                core.waited(consumer, waited(now))
            if method.redelivered:
                core.redelivered(consumer)
            method.consumer_tag = tag
            if consumer.unseen:
                core.first_message(lane, method.delivery_tag, properties.headers or {})
            if (gate.bucket is not None or gate.waiting) and not gate.pulled:
                message = partial(deliver_new, channel, method, properties, body)
                core.arrived(lane, method.delivery_tag, now, message)
                self._hand_over_due()
                return None
            core.delivered(lane, method.delivery_tag, now, buffered())
            if core.outbox and core.longest_call >= QUICK_CALL_SECONDS:
                self.send_acks(now)
            try:
                if (
                    known is None
                    or (properties.message_id is None and not properties.headers)
                    or not known(method, properties, body)
                ):
                    deliver(channel, method, properties, body)
            except BaseException:
                self.give_back_in_time()
                raise
            finally:
                core.returned(consumer, now, clock())
            return None

        def deliver_new(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if (
                known is None
                or (properties.message_id is None and not properties.headers)
                or not known(method, properties, body)
            ):
                deliver(channel, method, properties, body)

        return receive

    def _hand_over_due(self) -> None:
        """Give the user what may be handed over now; never called from inside the user's code."""
        core = self.core
        try:
            # Where consumers share one bucket, its next token is for whichever waits longest.
            for consumer in sorted(core.consumers.values(), key=_waits_since):
                now = clock()
                while not (self.stopped or consumer.cancelled):
                    message = core.hand_over(consumer, now)
                    if message is None:
                        break
                    if core.outbox and core.longest_call >= QUICK_CALL_SECONDS:
                        self.send_acks(now)
                    try:
                        message()
                    except BaseException:
                        self.give_back_in_time()
                        raise
                    finally:
                        core.returned(consumer, now, clock())
                    now = clock()
        finally:
            self._set_timer(clock())

    def received(self, lane_tag: str) -> None:
        """A message has come to the client, which will hand it over later."""
        lane = self._lanes.get(lane_tag)
        if lane is not None and not self.stopped:
            self.core.received(lane)

    def acknowledge(self, tag: int, multiple: bool) -> None:
        """The user acknowledged ``tag``, or everything up to it."""
        now = clock()
        core = self.core
        core.acknowledged(tag, multiple, now)
        if core.outbox or core.verbatim:
            together = now < self._together_until and core.longest_call < QUICK_CALL_SECONDS
            if core.verbatim or not (together and self.adapter.reports_cycle_end()):
                self.send_acks(now)
        if now >= core.wake_at:
            self.wake(now)
        elif core.wake_at < self._timer_at - TIMER_SLACK_SECONDS:
            self._set_timer(now)

    def acknowledge_together(self, tags: deque[int]) -> None:
        """The user acknowledged these, each by itself and all now. They are taken out."""
        now = clock()
        while tags:
            self.core.acknowledged(tags.popleft(), False, now)
        self.send_acks(now)
        if now >= self.core.wake_at:
            self.wake(now)
        else:
            self._set_timer(now)

    def acknowledge_at_once(self, tag: int) -> None:
        """The user acknowledged ``tag`` and has yet to handle it: the ack is not held."""
        now = clock()
        self.core.acknowledged_at_once(tag, now)
        self.send_acks(now)
        self.wake_if_due()

    def park(self, tag: int) -> None:
        """The user keeps ``tag`` for later; it no longer counts for the prefetch."""
        self.core.park(tag, clock())
        self.wake_if_due()

    def unpark(self, tag: int) -> None:
        """The user turns to a message that was parked, which counts again."""
        self.core.unpark(tag, clock())
        self.wake_if_due()

    def reject(self, tag: int, multiple: bool) -> Sequence[Ack]:
        """The user refused ``tag``, or everything up to it: what to put on the wire now."""
        now = clock()
        sent = self.core.rejected(tag, multiple, now)
        self.send_acks(now)
        return sent

    def send_acks(self, now: float) -> None:
        """Put on the wire what the core has released, after what goes back to its queue."""
        core = self.core
        if core.commands and not self._carrying_out:
            # Left behind by an interrupt. The acks of a lane must not go before its cancel.
            self.carry_out()
        elif core.returns or core.verbatim or len(core.outbox) > 1:
            self._send_several(now)
        elif core.outbox:
            self.adapter.send_acks(core.take_acks())
            self.adapter.flush()
            self._together_until = now + ACKS_WAIT_SECONDS

    def _send_several(self, now: float) -> None:
        """An interrupt would lose all that is taken from the core's books and not sent."""
        core = self.core
        acks = bool(core.outbox or core.verbatim)
        with held_interrupts():
            if core.returns:
                self.adapter.give_back(core.take_returns())
            if acks:
                self.adapter.send_acks(core.take_acks())
        if acks:
            self.adapter.flush()  # not in there: it may have to wait for the broker
            self._together_until = now + ACKS_WAIT_SECONDS

    def cycle_ended(self) -> None:
        """All messages received so far are dispatched: send what waited for others."""
        self.send_acks(clock())

    def give_back_all(self) -> None:
        """Put all held acks on the wire."""
        now = clock()
        self.core.give_back_all(now)
        self.send_acks(now)

    def give_back_due(self) -> None:
        """Put the acks on the wire that have been held for as long as is allowed."""
        now = clock()
        self.core.give_back_due(now, now)
        self.send_acks(now)

    def give_back_in_time(self) -> None:
        """Put all held acks on the wire: an exception leaves us, and perhaps ends the process.

        Not if that is a child of the one that consumes, forked inside a callback: the acks are
        the parent's to send, and a second one of the same message closes the channel.
        """
        if not self.stopped and os.getpid() == self._process:
            with suppress(Exception):  # the one that leaves us says more
                self.give_back_all()
                self.adapter.write_now()

    def before_call(self, consumer: Consumer) -> None:
        """The user's code is about to get a message that was delivered before."""
        self.wake_if_due()
        now = clock()
        self.core.calling(consumer, now)
        if self.core.longest_call >= QUICK_CALL_SECONDS:
            self.send_acks(now)

    # Lanes

    def subscribe(self, consumer: Consumer) -> None:
        """Open the first lane of a consumer."""
        self._thread = get_ident()
        with held_interrupts():
            self._open(self.core.subscribe(consumer, clock()))
            self._set_timer(clock())

    def lane_opened(self, lane: Lane) -> None:
        """The broker confirmed a lane."""
        now = clock()
        self.core.lane_opened(lane, now)
        if not self._carrying_out:
            self._set_timer(now)

    def has_lane(self, tag: str) -> bool:
        """Whether this is the tag of a lane that was opened here."""
        return tag in self._lanes

    def cancel_confirmed(self, tag: str) -> None:
        """The broker sends nothing more to a lane: forget it, if it has nothing out either.

        One that has is forgotten later, when another is opened.
        """
        lane = self._lanes.get(tag)
        if lane is not None and lane.received == lane.answered:
            del self._lanes[tag]

    def cancel(self, *consumers: Consumer) -> None:
        """Cancel these consumers, then send their held acks."""
        with held_interrupts():
            self.core.cancel(consumers)
            self.carry_out()

    def cancel_all(self) -> None:
        """Cancel every consumer."""
        self.cancel(*self.core.consumers.values())

    def cancelled_by_broker(self, lane_tag: str) -> Consumer | None:
        """The consumer to tell the user of, when the broker cancelled a lane."""
        with held_interrupts():
            consumer = self.core.cancelled_by_broker(lane_tag)
            self.carry_out()
        return consumer

    def blocked(self) -> None:
        """The broker has stopped reading from the connection."""
        now = clock()
        self.core.block(now)
        self._set_timer(now)

    def unblocked(self) -> None:
        """The broker reads from the connection again."""
        now = clock()
        self.core.unblocked(now)
        self._set_timer(now)

    def commit_answered(self) -> None:
        """The broker has answered a commit: what had to wait for that follows."""
        if not self.stopped:
            now = clock()
            self.core.commit_answered(now)
            self.carry_out()
            self._set_timer(now)

    def call_in_thread(self, callback: Callable[[], None]) -> None:
        """Have the thread that turns the loop call this: at once if it asks, else soon.

        That thread alone touches the core, the timer and the connection. Any thread may ask.
        """
        if get_ident() == self._thread:
            callback()
        elif not self.stopped:
            self.adapter.call_threadsafe(callback)

    def retarget(self, consumer: Consumer, prefetch: float) -> None:
        """Aim a consumer at another prefetch; its lanes follow soon. Any thread may ask."""
        self.call_in_thread(partial(self._retarget, consumer, prefetch))

    def _retarget(self, consumer: Consumer, prefetch: float) -> None:
        if self.stopped or consumer.cancelled:
            return
        now = clock()
        self.core.retarget(consumer, prefetch, now)
        self.carry_out()
        self._set_timer(now)

    def pace(self, consumer: Consumer, rate: float | None, burst: float | None) -> None:
        """Bound what is handed over to a consumer."""
        now = clock()
        self.core.pace(consumer, rate, burst, now)
        self._set_timer(now)

    def share(self, consumer: Consumer, rate: float, burst: float, until: float) -> None:
        """Bound what is handed over to a consumer by a share of a rate, up to its end."""
        now = clock()
        self.core.share(consumer, rate, burst, until, now)
        self._set_timer(now)

    def use_buckets(self, consumer: Consumer, buckets: Buckets, *, empty: bool = False) -> None:
        """Bound what is handed over to a consumer together with what others get."""
        now = clock()
        self.core.use_buckets(consumer, buckets, now, empty=empty)
        self._set_timer(now)

    def fix(self, prefetch: int | None) -> None:
        """Hold every consumer at this prefetch, or at the slots it has."""
        now = clock()
        self.core.fix(prefetch, now)
        self.wake(now)

    def carry_out(self) -> None:
        """Do what the core has asked for, and what follows from that."""
        if self._carrying_out:
            return
        commands = self.core.commands
        if commands:
            try:
                self._carrying_out = True
                with held_interrupts():
                    while commands:
                        self._do(commands.popleft())
            finally:
                self._carrying_out = False
        self.send_acks(clock())

    def _do(self, command: Command) -> None:
        if isinstance(command, OpenLane):
            self.send_acks(clock())  # whose slots the new lane may have
            self._open(command.lane)
        elif isinstance(command, CancelLanes):
            self._cancel([lane for lane in command.lanes if not lane.cancelled])
        else:
            log.warning("%s", command.text)

    def _open(self, lane: Lane) -> None:
        if lane.consumer.cancelled:
            self.core.lane_cancelled(lane, clock())
            return
        lanes = self._lanes
        for done in [each.tag for each in lanes.values() if each.cancelled and each.done]:
            del lanes[done]
        lanes[lane.tag] = lane
        try:
            self.adapter.open_lane(lane)
        except BaseException:
            self.core.lane_refused(lane, clock())
            raise

    def _cancel(self, lanes: list[Lane]) -> None:
        if lanes:
            self.adapter.cancel_lanes(lanes)
        for lane in lanes:
            self.core.lane_cancelled(lane, clock())

    # Time

    def wake(self, now: float) -> None:
        """Do what is due, and set the timer for what comes next."""
        core = self.core
        if self.stopped:
            return
        self._thread, self._process = get_ident(), os.getpid()
        for _ in range(MOST_CHANGES_AT_ONCE):
            core.wake(now)
            if core.listening:
                self.adapter.take_in()
                now = clock()
            if core.commands or core.samples_due:
                self.carry_out()
                self._take_samples(now)
                if self.stopped:
                    return
                self.carry_out()
                now = clock()
            elif core.outbox:
                self.send_acks(now)
            if now < core.wake_at:
                break
        if not self.stopped:
            self.after_wake()
            self._set_timer(now)

    def _take_samples(self, now: float) -> None:
        """Turn the loops that are due; code of the user may run, and wake us again."""
        if self._sampling:
            return
        try:
            self._sampling = True
            while self.core.samples_due:
                consumer = self.core.samples_due.popleft()
                self.on_sample(consumer)
                self.core.sampled(consumer, now)
        finally:
            self._sampling = False

    def wake_if_due(self) -> None:
        """Do what is due, if anything is."""
        now = clock()
        if now >= self.core.wake_at:
            self.wake(now)

    def _set_timer(self, now: float) -> None:
        when = max(min(self.core.wake_at, self.core.hand_over_at), now + TIMER_SLACK_SECONDS)
        if when < self._timer_at - TIMER_SLACK_SECONDS and not self.stopped:
            self._drop_timer()
            self._timer_at = when
            self._timer = self.adapter.call_later(when - now, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = clock()
        try:
            if now >= self.core.wake_at:
                self.wake(now)
            if now >= self.core.hand_over_at:
                self._hand_over_due()
        finally:
            self._set_timer(clock())

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self.adapter.cancel_timer(self._timer)
        self._timer, self._timer_at = None, math.inf

    def stop(self) -> None:
        """The channel is closed, or the client's own again: no more timers."""
        self.stopped = True
        self._drop_timer()


def _waits_since(consumer: Consumer) -> float:
    waiting = consumer.gate.waiting
    return waiting[0].since if waiting else math.inf


def _nothing(*_: object) -> None:
    """Does nothing; default of ``on_sample`` and ``after_wake``."""
