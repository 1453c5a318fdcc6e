"""Messages that this process has handled and that the broker delivers again.

That happens when a channel ends before an ack has reached the broker; the ack may have been held,
or on its way. Where the message carries an id, its next delivery to the same process is
acknowledged without being handled.

Only messages whose acks a channel may have taken with it count, each once and not for long. A
message that a handler gave back has to be handled again, and so has another one with an old id:
to lose a message is worse than to handle one twice.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from controlmq.observe.registry import SERVER_NAMED_PREFIX

REMEMBERED_SECONDS = 330.0
"""Seconds for which an ack that was sent counts as perhaps not received: longer than clients take
to notice a connection that says nothing. aiormq takes 183 s at its default heartbeat. Celery takes
up to 320 s where the broker asks for no heartbeat, so that its own of 120 s stands: py-amqp waits
for two, and Celery looks every 40 s. What is held for longer than this comes on top."""

MOST_REMEMBERED = 20_000
"""Acks of one channel, or of one Celery worker, that are remembered at most: more than any window
has in flight, and than are on their way to the broker."""

FORGET_EVERY_SECONDS = 30.0
"""Seconds between looks for acks that are too old: seldom, because each look delays a message."""

REDELIVERY_SECONDS = 600.0
"""Seconds after the end of a channel within which what it left is delivered again: the broker
notices by missing heartbeats, and puts messages back to the head of their queue. Not longer, for
ids that are used again."""

BROKER_HEADERS = frozenset({"x-delivery-count", "x-acquired-count"})
"""Headers with which RabbitMQ counts the deliveries of a message. All others are the same each time
that it comes from its queue; those of a dead-letter exchange tell one stay in the queue from
another."""

MessageKey = tuple[str, str, int]
"""Of a message: its queue, its id, and a hash of its body and its headers. Python's own hash is
many times as fast as a digest, and its 64 bits are enough to tell apart what has the same id."""

LostAcks = dict[Hashable, float]
"""Messages that were handled and whose acks may be lost, by their keys: until when each of them
matters."""


class GivenAcks:
    """Acks that were given on one channel, and that may not have reached the broker yet.

    When the channel ends they go to ``lost``, which outlives it.
    """

    def __init__(self, lost: LostAcks, longest_hold: float) -> None:
        self._lost = lost
        self._remember = REMEMBERED_SECONDS + longest_hold
        # No plain dict: to find its oldest key it passes by all that were taken out before.
        self._given: OrderedDict[Hashable, float] = OrderedDict()
        self._forget_at = -math.inf
        self._ended = False

    def add(self, key: Hashable, now: float) -> None:
        """A message was acknowledged; the ack may be held, on its way, or too late."""
        if self._ended:
            self._lost[key] = now + REDELIVERY_SECONDS
            return
        given = self._given
        given[key] = now
        given.move_to_end(key)
        if len(given) > MOST_REMEMBERED:
            given.popitem(last=False)
        if now >= self._forget_at:
            self._forget_old(now)

    def _forget_old(self, now: float) -> None:
        self._forget_at = now + FORGET_EVERY_SECONDS
        given, too_old = self._given, now - self._remember
        while given and next(iter(given.values())) <= too_old:
            given.popitem(last=False)

    def handled_before(self, key: Hashable, redelivered: bool, now: float) -> bool:
        """Whether a message that is here was handled already, and is to be acknowledged only.

        Else it is going to be handled, and its key stands for this delivery from now on.
        """
        self._given.pop(key, None)
        if not self._lost:
            return False
        matters_until = self._lost.pop(key, -math.inf)
        if not redelivered or matters_until <= now:
            return False
        self.add(key, now)
        return True

    def have_arrived(self) -> None:
        """The broker has received all acks that were given so far."""
        self._given.clear()

    def lose(self, now: float, whose: Callable[[Any], bool] = lambda key: True) -> None:
        """The acks whose keys ``whose`` accepts may be lost: their messages may be delivered
        again."""
        self._forget_old(now)
        lost, given = self._lost, self._given
        for key in [key for key, until in lost.items() if until <= now]:
            del lost[key]
        for key in [key for key in given if whose(key)]:
            del given[key]
            lost[key] = now + REDELIVERY_SECONDS

    def end(self, now: float) -> None:
        """The channel has ended: what was acknowledged, or will be, may be delivered again."""
        if not self._ended:
            self._ended = True
            self.lose(now)


class ChannelAcks:
    """Acks of messages with an id, of all consumers of one channel.

    Times are in seconds. ``lost`` outlives the channel.
    """

    def __init__(self, lost: LostAcks, longest_hold: float) -> None:
        self.lost = lost
        self.out: dict[int, tuple[GivenAcks, MessageKey]] = {}
        """Messages with an id that are out, by their delivery tags: where to note their acks, and
        under which key."""
        self.in_transaction = False
        """Whether acks wait for a commit: until then the messages may have to be handled again."""
        self._given = GivenAcks(lost, longest_hold)
        self._too_late = GivenAcks(lost, longest_hold)
        """For messages whose acks will not arrive."""
        self._too_late.end(0.0)

    def handled_before(
        self, queue: str, delivery: Any, properties: Any, body: bytes, now: float
    ) -> bool | None:
        """Whether a message that is here is only to be acknowledged; None if it has no id."""
        key = key_of(properties, body, queue)
        if key is None:
            return None
        if self._given.handled_before(key, delivery.redelivered, now):
            return True
        self.out[delivery.delivery_tag] = self._given, key
        return False

    def acknowledged(self, tag: int, multiple: bool, now: float) -> None:
        """The user acknowledged ``tag``, or everything up to it; the channel may be closed."""
        for given, key in self.answered(tag, multiple):
            if not self.in_transaction:
                given.add(key, now)

    def answered(self, tag: int, multiple: bool) -> Sequence[tuple[GivenAcks, MessageKey]]:
        """The user answered ``tag``, or everything up to it: what was known of that."""
        out = self.out
        if not multiple:
            known = out.pop(tag, None)
            return () if known is None else (known,)
        return [out.pop(each) for each in list(out) if each <= tag or tag == 0]

    def cancelled_by_broker(self, queue: str, now: float) -> None:
        """The broker has cancelled a consumer, and may deliver again what that had."""
        self._given.lose(now, lambda key: key[0] == queue)
        self._leave({tag for tag, (_, key) in self.out.items() if key[0] == queue})

    def closing(self) -> None:
        """The channel was asked to close: all acks that it sends are sent."""
        self._leave(self.out.keys())

    def end(self, now: float, *, have_arrived: bool) -> None:
        """The channel is closed. ``have_arrived``: the broker has received all acks."""
        if have_arrived:
            self._given.have_arrived()
        self._given.lose(now)
        self._leave(self.out.keys())

    def _leave(self, tags: Collection[int]) -> None:
        """The acks of these messages will not arrive, should their handlers still give them.

        Another message with the same key may be acknowledged already. Which of the two comes again
        cannot be known.
        """
        for tag in tags:
            key = self.out[tag][1]
            self.lost.pop(key, None)
            self.out[tag] = self._too_late, key


def outlives_its_channel(queue: str) -> bool:
    """Whether a queue may have messages of before a reconnect.

    Those do not whose names the broker chose, or has yet to choose: they get another name then.
    """
    return bool(queue) and not queue.startswith(SERVER_NAMED_PREFIX)


def key_of(properties: Any, body: bytes, queue: str = "") -> MessageKey | None:
    """What tells a message apart from every other; None where nothing does.

    That is its ``message_id``, or the ``task_id`` that taskiq puts beside its ``task_name``, with
    its body and headers: a retry, or another part of the same job, may be a message with the same
    id, and has to be handled.
    """
    headers = properties.headers
    identity = properties.message_id
    if not identity and headers and "task_name" in headers:
        identity = headers.get("task_id")
    if not identity or not isinstance(identity, str):
        return None
    if headers and not BROKER_HEADERS.isdisjoint(headers):
        headers = {name: each for name, each in headers.items() if name not in BROKER_HEADERS}
    return queue, identity, hash((body, repr(headers)) if headers else body)
