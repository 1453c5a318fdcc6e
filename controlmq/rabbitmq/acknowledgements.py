"""Acknowledgements: from the user's call to the frame on the wire, or to the window's hold."""

from __future__ import annotations

import time
from collections.abc import Callable

from controlmq.rabbitmq.consumer import Consumer
from controlmq.rabbitmq.lanes import Held, Lane
from controlmq.rabbitmq.ledger import Ack, Ledger
from controlmq.rabbitmq.wire import Wire

clock = time.monotonic

TOGETHER = 0.0005
"""Seconds. Acks of one dispatch cycle wait so long for each other, to go as one frame."""

QUICK = 0.01
"""Seconds. Acks wait for each other only where no recent callback took longer: a slow one
would delay the acks before it. Above what the scheduler of a busy machine takes."""

FADING = 0.99
"""What is left, a message later, of the longest callback remembered."""

PATIENCE = 0.1
"""Share of ``max_hold``. Where callbacks take longer, acks are given back before one starts."""

Route = tuple[Consumer, Lane]


class Acknowledgements:
    """Every ack, nack and reject of one channel.

    ``consumers`` are those of the channel, whose windows decide what is held; ``wake_at`` is
    told when one wants to be asked again. ``longest`` is how long callbacks take that are
    remembered as long.
    """

    def __init__(
        self, wire: Wire, consumers: dict[str, Consumer], wake_at: Callable[[float], None]
    ) -> None:
        self.ledger: Ledger[Route] = Ledger()
        self.journal: list[int] | None = None
        """In a transaction: the tags acknowledged since the last commit."""
        self.longest = 0.002
        self._wire = wire
        self._consumers = consumers
        self._wake_at = wake_at
        self._together_until = 0.0

    def ack(self, tag: int, multiple: bool) -> None:
        """The user acknowledged ``tag``, or everything up to it."""
        if self.journal is not None:
            self._ack_in_transaction(tag, multiple)
        elif multiple:
            self._ack_up_to(tag)
        elif (route := self.ledger.unacked.pop(tag, None)) is not None:
            now = clock()
            consumer, lane = route
            consumer.sensors.settled(now)
            consumer.window.hold(tag, lane, now)
            if (
                now < self._together_until
                and self.longest < QUICK
                and not consumer.cancelled
                and self._wire.cycle_ends()
            ):
                consumer.unsent = True
            else:
                self.release(consumer, now)
        else:
            # Fetched, unknown or acknowledged before: the broker's to judge, as ever.
            self.give_back_all()
            self.ledger.fetched.discard(tag)
            self._wire.acknowledge([Ack(tag, False)])

    def _ack_in_transaction(self, tag: int, multiple: bool) -> None:
        """Part of a transaction: on the wire at once, but a slot only after the commit."""
        assert self.journal is not None
        tags = self.ledger.up_to(tag) if multiple else [tag]
        self.journal += [each for each in tags if each in self.ledger.unacked]
        fetched = self.ledger.fetched_up_to(tag) if multiple else [tag]
        self.ledger.fetched.difference_update(fetched)
        self._wire.acknowledge([Ack(tag, multiple)])

    def begin_transaction(self) -> None:
        """From now on acks count when they are committed, and none is held."""
        if self.journal is None:
            self.give_back_all()
            self.journal = []

    def committed(self) -> None:
        """What the transaction acknowledged is acknowledged now."""
        if self.journal:
            # A tag may have been acknowledged singly and again among several.
            tags = dict.fromkeys(self.journal)
            self._settle([tag for tag in tags if tag in self.ledger.unacked])
            self.journal = []

    def rolled_back(self) -> None:
        """The acks of the transaction were never given."""
        if self.journal:
            self.journal = []

    def recovered(self) -> None:
        """Everything unacknowledged goes back to its queue."""
        self._settle(list(self.ledger.unacked))

    def _ack_up_to(self, tag: int) -> None:
        now = clock()
        tags = self.ledger.up_to(tag)
        fetched = self.ledger.fetched_up_to(tag)
        if not self.ledger.whole or not (tags or fetched):
            # Also for messages that are not in our books: as the user gave it.
            self.give_back_all()
            self._wire.acknowledge([Ack(tag, True)])
            self.ledger.fetched.difference_update(fetched)
            self._settle(tags)
            return
        self.ledger.fetched.difference_update(fetched)
        if fetched:
            self._wire.acknowledge([Ack(each, False) for each in fetched])
        affected = set()
        for each in tags:
            consumer, lane = self.ledger.unacked.pop(each)
            consumer.sensors.settled(now)
            consumer.window.hold(each, lane, now)
            affected.add(consumer)
        for consumer in affected:
            self.release(consumer, now)

    def nack(self, tag: int, multiple: bool, send: Callable[[int], None]) -> None:
        """The user refused ``tag``, or everything up to it. Refusals are never held."""
        if multiple or tag not in self.ledger:
            self.give_back_all()
        fetched = self.ledger.fetched_up_to(tag) if multiple else [tag]
        tags = self.ledger.up_to(tag) if multiple else [tag]
        # Tag 0 would take along messages on their way to us, which we still deliver.
        send(max([0, *tags, *fetched]) if multiple and tag == 0 else tag)
        self.ledger.fetched.difference_update(fetched)
        tags = [each for each in tags if each in self.ledger.unacked]
        if self.journal is not None:
            self.journal += tags
        else:
            self._settle(tags)

    def _settle(self, tags: list[int]) -> None:
        """These are no longer unacknowledged at the broker."""
        now = clock()
        for tag in tags:
            consumer, lane = self.ledger.unacked.pop(tag)
            consumer.sensors.settled(now)
            consumer.window.settled(lane)
            if not lane.cancelled:
                consumer.sensors.released(1, now)

    def before_callback(self, consumer: Consumer) -> None:
        """A message is about to be handed over: hold nothing through a long callback."""
        if self.longest > PATIENCE * consumer.window.max_hold:
            self.give_back_all()

    def after_callback(self, seconds: float) -> None:
        """The callback took so long."""
        self.longest = max(seconds, FADING * self.longest)

    def release(self, consumer: Consumer, now: float, apart: bool = False) -> None:
        """Send what the window lets go; ``apart`` from any ack just given."""
        consumer.unsent = False
        window = consumer.window
        self.send(consumer, window.release(now, apart), now)
        self._wake_at(window.deadline(now))

    def give_back(self, consumer: Consumer) -> None:
        """Send all held acks of a consumer."""
        now = clock()
        consumer.unsent = False
        self.send(consumer, consumer.window.drain(now), now)

    def give_back_all(self) -> None:
        """Send all held acks of the channel."""
        for consumer in self._consumers.values():
            self.give_back(consumer)

    def send(self, consumer: Consumer, released: list[Held], now: float) -> None:
        """Put acks that a window released on the wire, in as few frames as is safe."""
        if released:
            self._wire.acknowledge(
                self.ledger.acks([held.tag for held in released], self._held_tags)
            )
            self._together_until = now + TOGETHER
            slots = sum(not held.lane.cancelled for held in released)
            consumer.sensors.released(slots, now)
        consumer.sensors.holding(consumer.window.held, now)

    def _held_tags(self) -> list[int]:
        return [held.tag for each in self._consumers.values() for held in each.window.all_held()]

    def end_cycle(self) -> None:
        """All messages received so far are dispatched: send what waited for company."""
        now = clock()
        for consumer in self._consumers.values():
            if consumer.unsent:
                self.release(consumer, now)
