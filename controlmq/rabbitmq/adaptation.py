"""What controlmq adds to one pika channel: its consumers, their acks and a clock."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controlmq.controllers import OpenLoop
from controlmq.errors import InputError
from controlmq.loop import Controller
from controlmq.rabbitmq.acknowledgements import Acknowledgements, clock
from controlmq.rabbitmq.consumer import Consumer
from controlmq.rabbitmq.lanes import Lane
from controlmq.rabbitmq.settings import Settings
from controlmq.rabbitmq.window import Cancel
from controlmq.rabbitmq.wire import Wire

IDLE = 0.1
"""Seconds for which a slot must have been overdue before held acks are given back."""

TIMER_SLACK = 0.0005
"""Seconds by which a timer may come late before it is set anew."""

BUSY = 0.002
"""Seconds until lanes are tried again while the channel awaits another answer."""


class Adaptation:
    """Adapts the consumers of one channel.

    There is no thread: :meth:`attend` is called when a delivery or an ack finds that
    ``deadline`` has passed, and by one timer, since under load timers starve and without
    load nothing is delivered.
    """

    def __init__(self, wire: Wire, settings: Settings) -> None:
        self.wire = wire
        self.settings = settings
        self.consumers: dict[str, Consumer] = {}
        self.acks = Acknowledgements(wire, self.consumers, self._wake_at)
        self.owners: dict[str, Consumer] = {}
        """The consumer of every lane that the broker delivers to, by the lane's tag."""
        self.deadline = math.inf
        self.started_with: int | None = None
        """What the user asked for with ``basic_qos``: where the next consumer starts."""
        self.last_queue = ""
        """The queue declared last, which AMQP calls by the empty name."""
        self.unnamed: list[Consumer] = []
        """Consumers of the queue declared last, while the broker has not told its name."""
        self.closed = False
        self.fixed = False
        """Whether control has ended, and pika takes over as soon as no lane is left."""
        self._told: dict[str, str | None] = {}
        self._given_controller = False
        self._own_controller: Controller | None = None
        self._timer: object | None = None
        self._timer_at = math.inf
        self._attending = False

    # Consumers

    def new_consumer(self, tag: str, queue: str, goal: float | None, exclusive: bool) -> Consumer:
        """A consumer with a goal of its own, not yet subscribed."""
        settings = self.settings
        if goal is not None:
            settings = replace(settings, goal=goal)
        if exclusive:
            settings = replace(settings, window="single")
        queue = queue or self.last_queue
        controller = self._controller()
        # A plan has no goal, and needs none.
        aimless = controller is None or isinstance(controller, OpenLoop)
        if not aimless and settings.goal_for(queue) is None:
            raise InputError(
                f"queue {queue} has no goal; give one in messages/second, for a controller of "
                "your own too."
            )
        consumer = Consumer(tag, queue, settings, controller, self.started_with, clock)
        if not queue:
            self.unnamed.append(consumer)
        return consumer

    def declared(self, queue: str) -> Callable[[str], None]:
        """A queue is being declared, with an empty name if the broker is to choose one.

        From now on the empty name stands for it. Returns what to call with the name in the
        broker's answer, since lanes are opened later, when the empty name may mean another.
        """
        self.last_queue = queue
        mine: list[Consumer] = []
        self.unnamed = mine

        def named(name: str) -> None:
            for consumer in mine:
                consumer.queue = name
            if self.unnamed is mine:
                self.last_queue = name

        return named

    def _controller(self) -> Controller | None:
        given = self.settings.controller
        if given is None:
            return None
        controller = self.settings.new_controller(given)
        if controller is given:
            # A controller remembers, so the second consumer gets a copy of its own.
            if self._given_controller:
                return _copied(self._own_controller)
            self._given_controller = True
            try:
                self._own_controller = copy.deepcopy(controller)
            except Exception:
                self._own_controller = None
        return controller

    def subscribed(self, consumer: Consumer) -> None:
        """The first lane of ``consumer`` is subscribed: adapt it from now on."""
        self.consumers[consumer.tag] = consumer
        consumer.wake = lambda: self._wake_at(clock())
        self._wake_at(consumer.next_tick)

    def open_lane(self, consumer: Consumer, size: int) -> Lane:
        """Open a lane; its slots count from before the request is sent."""
        lane = consumer.new_lane(size)
        self.owners[lane.tag] = consumer
        consumer.sensors.released(size, clock())
        try:
            self.wire.subscribe(consumer, lane)
        except BaseException:
            self.lane_gone(lane)
            raise
        return lane

    def lane_gone(self, lane: Lane) -> Consumer | None:
        """The broker delivers to ``lane`` no more."""
        consumer = self.owners.pop(lane.tag, None)
        if consumer is not None:
            consumer.sensors.withdrawn(lane.size - lane.unacked)
            consumer.window.cancelled(lane)
        return consumer

    def cancel(self, consumer: Consumer) -> None:
        """Cancel all lanes of a consumer, then send its held acks, which open no slot any more.

        Acks of messages it still has out may come later and are sent at once.
        """
        consumer.cancelled = True
        self.consumers.pop(consumer.tag, None)
        for lane in consumer.window.subscribed:
            self._told[lane.tag] = None
            self.wire.unsubscribe(lane)
            self.lane_gone(lane)
        self.acks.give_back(consumer)

    def cancel_all(self) -> None:
        """Cancel every consumer."""
        for consumer in list(self.consumers.values()):
            self.cancel(consumer)

    def cancelled_by_broker(self, lane_tag: str) -> str | None:
        """The broker cancelled a lane: the tag to tell the user, if the user is to be told.

        The others go with it, for the user has one consumer. It is told of the first alone.
        """
        consumer = self.owners.get(lane_tag)
        if consumer is None:
            return self._told.get(lane_tag, lane_tag)
        first = not consumer.cancelled
        self._told[lane_tag] = consumer.tag if first else None
        lanes = consumer.window.subscribed
        self.lane_gone(next(lane for lane in lanes if lane.tag == lane_tag))
        if first:
            self.cancel(consumer)
        return self._told[lane_tag]

    def receiver(self, consumer: Consumer, lane: Lane) -> Callable[..., None]:
        """What pika calls with each message of ``lane``."""
        acks, sensors, window, tag = self.acks, consumer.sensors, consumer.window, consumer.tag
        route = (consumer, lane)
        unacked = acks.ledger.unacked
        deliver = consumer.deliver
        buffered = self.wire.buffered

        def receive(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if self.closed:
                return deliver(channel, method, properties, body)
            now = clock()
            unacked[method.delivery_tag] = route
            lane.received += 1
            if sensors.delivered(now, buffered()):
                if window.idle:
                    window.wake(now)
                if window.held:
                    acks.release(consumer, now, apart=True)
            method.consumer_tag = tag
            if consumer.unseen:
                acks.ledger.saw(method.delivery_tag)
                consumer.first_message(properties)
            if now >= self.deadline:
                self.attend(now)
            acks.before_callback(consumer)
            deliver(channel, method, properties, body)
            ended = sensors.active_at = clock()
            acks.after_callback(ended - now)
            return None

        return receive

    # Acknowledging

    def ack(self, tag: int, multiple: bool) -> None:
        """The user acknowledged ``tag``, or everything up to it."""
        self.acks.ack(tag, multiple)
        self.look()

    def nack(self, tag: int, multiple: bool, send: Callable[[int], None]) -> None:
        """The user refused ``tag``, or everything up to it, with what ``send`` sends."""
        self.acks.nack(tag, multiple, send)
        self.look()

    # Time

    def look(self) -> None:
        """Attend if it is time to."""
        now = clock()
        if now >= self.deadline:
            self.attend(now)

    def attend(self, now: float) -> None:
        """Do what is due: turn the loops, release acks, change lanes."""
        if self._attending or self.closed:
            return
        self._attending = True
        try:
            for consumer in list(self.consumers.values()):
                if not consumer.cancelled:
                    self._attend(consumer, now)
        except BaseException:
            # The next delivery tries again.
            self._attending = False
            self.deadline = clock() + BUSY
            raise
        self._attending = False
        self.deadline = math.inf
        if not self.hand_back():
            now = clock()
            for consumer in self.consumers.values():
                self._wake_at(self._next_look(consumer, now))

    def _attend(self, consumer: Consumer, now: float) -> None:
        window = consumer.window
        if now >= consumer.next_tick:
            consumer.tick(now)
        dry_since = consumer.sensors.dry_since(now)
        if dry_since is not None and now - dry_since >= IDLE:
            self.acks.send(consumer, window.rest(now), now)
        else:
            self.acks.release(consumer, now, apart=True)
        self._change_lanes(consumer)

    def _change_lanes(self, consumer: Consumer) -> None:
        barren = consumer.barren_lane()
        if barren is not None:
            self._cancel_lane(consumer, barren)
        while not consumer.cancelled:
            now = clock()
            decision = consumer.window.decide(now)
            if decision is None:
                return
            if isinstance(decision, Cancel):
                self._cancel_lane(consumer, decision.lane)
            elif self.wire.ready():
                self.open_lane(consumer, decision.size)
            else:
                self._wake_at(now + BUSY)
                return

    def _cancel_lane(self, consumer: Consumer, lane: Lane) -> None:
        self.wire.unsubscribe(lane)
        self.lane_gone(lane)
        self.acks.release(consumer, clock())

    def _next_look(self, consumer: Consumer, now: float) -> float:
        look = min(consumer.next_tick, consumer.window.deadline(now))
        if consumer.window.held and not consumer.window.idle:
            look = min(look, now + IDLE)
        return look

    def _wake_at(self, when: float) -> None:
        self.deadline = min(self.deadline, when)
        if when < self._timer_at - TIMER_SLACK and not self.closed:
            self._drop_timer()
            self._timer_at = when
            self._timer = self.wire.call_later(max(0.0, when - clock()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, math.inf
        self.attend(clock())

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self.wire.cancel_timer(self._timer)
        self._timer, self._timer_at = None, math.inf

    # The end

    def fix(self, prefetch: int | None) -> None:
        """Control no more: keep every consumer at this prefetch, or at the slots it has."""
        self.settings = replace(self.settings, goal=None, controller=None, prefetch=prefetch)
        self.acks.give_back_all()
        for consumer in self.consumers.values():
            consumer.fix(prefetch or consumer.window.granted)
        self.fixed = True
        self.attend(clock())

    def hand_back(self) -> bool:
        """Make the channel pika's again if control ended and every consumer is plain by now."""
        plain = self.fixed and all(consumer.plain for consumer in self.consumers.values())
        if plain and self.wire.restorable():
            self.stop()
            self.wire.restore()
            return True
        return False

    def stop(self) -> None:
        """The channel is closed, or pika's own again: no more timers, nothing to attend to."""
        self.closed = True
        self._drop_timer()
        self.deadline = math.inf


def _copied(controller: Controller | None) -> Controller:
    if controller is None:
        raise InputError(
            "the controller cannot be copied for a second consumer; wrap a channel for each, "
            "with a controller of its own."
        )
    return copy.deepcopy(controller)
