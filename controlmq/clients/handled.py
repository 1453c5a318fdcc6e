"""Messages that this process has handled and that the broker delivers again.

That happens when a channel ends before an ack has reached the broker; the ack may have been held,
or on its way. Where the message carries an id, its next delivery to the same process is
acknowledged without being handled.

Only messages whose acks a channel may have taken with it count, each once and not for long. A
message that a handler gave back has to be handled again, and so has another one with an old id.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

REMEMBERED_SECONDS = 330.0
"""Seconds for which an ack that was sent counts as perhaps not received: longer than clients take
to notice a connection that says nothing. aiormq takes 183 s at its default heartbeat. Celery takes
up to 320 s where the broker asks for no heartbeat, so that its own of 120 s stands: py-amqp waits
for two, and Celery looks every 40 s. What is held for longer than this comes on top."""

MOST_REMEMBERED = 20_000
"""Acks of one consumer, or of one Celery worker, that are remembered at most: more than any window
has in flight, and than are on their way to the broker."""

REDELIVERY_SECONDS = 600.0
"""Seconds after the end of a channel within which what it left is delivered again: the broker
notices by missing heartbeats, and puts messages back to the head of their queue. Not longer, for
ids that are used again."""

LostAcks = dict[Hashable, float]
"""Messages of one queue that were handled and whose acks may be lost, by their keys: until when
each of them matters."""


class GivenAcks:
    """Acks that one consumer gave on one channel, and that may not have reached the broker yet.

    When the channel ends they go to ``lost``, which outlives it.
    """

    def __init__(self, lost: LostAcks, longest_hold: float) -> None:
        self._lost = lost
        self._remember = REMEMBERED_SECONDS + longest_hold
        # No plain dict: to find its oldest key it passes by all that were taken out before.
        self._given: OrderedDict[Hashable, float] = OrderedDict()
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

    def end(self, now: float) -> None:
        """The channel or the consumer has ended: what was acknowledged may be delivered again."""
        if self._ended:
            return
        self._ended = True
        lost = self._lost
        for key in [key for key, until in lost.items() if until <= now]:
            del lost[key]
        for key, given_at in self._given.items():
            if given_at > now - self._remember:
                lost[key] = now + REDELIVERY_SECONDS
        self._given.clear()


class ChannelAcks:
    """Acks of messages with an id, of all consumers of one channel.

    Times are in seconds. ``lost`` outlives the channel: the acks of each queue that may be lost.
    """

    def __init__(self, lost: defaultdict[str, LostAcks]) -> None:
        self.lost = lost
        self.out: dict[int, tuple[GivenAcks, Hashable]] = {}
        """Messages with an id that are out, by their delivery tags: where to note their acks, and
        under which key."""
        self.in_transaction = False
        """Whether acks wait for a commit: until then the messages may have to be handled again."""
        self._given: dict[tuple[str, str], GivenAcks] = {}
        """Of each consumer, by its tag and its queue."""

    def of(self, tag: str, queue: str, longest_hold: float) -> GivenAcks:
        """Where to note the acks of a consumer: those before it with the same tag included."""
        given = self._given.get((tag, queue))
        if given is None:
            # The broker chooses the name of a queue without one: it has no messages of before.
            lost = self.lost[queue] if queue else {}
            given = self._given[tag, queue] = GivenAcks(lost, longest_hold)
        return given

    def handled_before(
        self, given: GivenAcks, delivery: Any, properties: Any, now: float
    ) -> bool | None:
        """Whether a message that is here is only to be acknowledged; None if it has no id."""
        key = key_of(properties)
        if key is None:
            return None
        if given.handled_before(key, delivery.redelivered, now):
            return True
        self.out[delivery.delivery_tag] = given, key
        return False

    def acknowledged(self, tag: int, multiple: bool, now: float) -> None:
        """The user acknowledged ``tag``, or everything up to it; the channel may be closed."""
        for given, key in self.answered(tag, multiple):
            if not self.in_transaction:
                given.add(key, now)

    def answered(self, tag: int, multiple: bool) -> Sequence[tuple[GivenAcks, Hashable]]:
        """The user answered ``tag``, or everything up to it: what was known of that."""
        out = self.out
        if not multiple:
            known = out.pop(tag, None)
            return () if known is None else (known,)
        return [out.pop(each) for each in list(out) if each <= tag or tag == 0]

    def cancelled_by_broker(self, tag: str, queue: str, now: float) -> None:
        """The broker has cancelled a consumer, and may deliver again what that had."""
        given = self._given.pop((tag, queue), None)
        if given is not None:
            given.end(now)

    def end(self, now: float, *, have_arrived: bool) -> None:
        """The channel is closed. ``have_arrived``: the broker has received all acks."""
        for given in self._given.values():
            if have_arrived:
                given.have_arrived()
            given.end(now)


def key_of(properties: Any) -> Hashable | None:
    """What tells a message apart from every other of its queue; None where nothing does.

    That is its ``message_id``, or taskiq's ``task_id``, with its headers: a retry may be a new
    message with the old id, and has to be handled. Headers of the broker differ between two
    deliveries and do not count.
    """
    headers = properties.headers
    identity: Hashable | None = properties.message_id
    if not headers:
        return identity
    if identity is None:
        identity = headers.get("task_id")
        if identity is None:
            return None
    own = [item for item in headers.items() if item[0][:2] != "x-"]
    return (identity, repr(own)) if own else identity
