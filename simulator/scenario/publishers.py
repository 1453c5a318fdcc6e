"""What is sent: kinds of messages, the publishers that send them, and how that changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from controlmq.checks import not_negative
from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.scenario.distributions import Duration, Size

SHORTEST_INTERVAL = 1e-6
"""Seconds. One publisher sends at most a million messages a second, so that time passes."""

MOST_PRIORITIES = 255
"""RabbitMQ's limit for x-max-priority."""


@dataclass(frozen=True)
class Message:
    """One kind of message that a publisher sends, with the ``probability`` of it being next.

    ``type`` is what metrics call it: its routing key if not given. ``size`` is in bytes, fixed
    or drawn. Several entries may share a type, to draw its size from a few with given odds.
    """

    routing_key: str = ""
    type: str | None = None
    probability: float = 1.0
    size: int | Size = 0
    persistent: bool = False
    priority: int = 0
    headers: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.any_text("routing_key", self.routing_key)
        if self.type is not None:
            checks.text("type", self.type)
        checks.share("probability", self.probability)
        checks.size("size", self.size)
        checks.flag("persistent", self.persistent)
        checks.whole("priority", self.priority, 0, MOST_PRIORITIES - 1)
        checks.headers("headers", self.headers)


@dataclass(frozen=True)
class Change:
    """From ``at`` seconds on, a rate or a time is ``factor`` times what the scenario says.

    It gets there along a straight line ``over`` seconds long; without it, at once.
    """

    at: float
    factor: float
    over: float = 0.0

    def __post_init__(self) -> None:
        checks.seconds("at", self.at)
        if not_negative("factor", self.factor) > 1e6:
            raise InputError(f"factor is {self.factor:g}; give at most 1e+06.")
        checks.seconds("over", self.over)


def check_schedule(owner: object, key: str) -> None:
    """The changes under a key follow each other, each after the one before has ended."""
    changes = checks.entities(owner, key, Change)
    for before, after in pairwise(changes):
        if after.at < before.at + before.over or after.at == before.at:
            raise InputError(
                f"{key} has a change at {after.at:g} seconds before the one at {before.at:g} "
                "has ended; give them in order, one after the other."
            )


@dataclass(frozen=True)
class Publishers:
    """``count`` equal publishers that send messages to a queue or through an exchange.

    ``every`` is the time between two publishes of one of them. Each begins at a random point
    of its cycle; a replayed one begins with its first value. Messages have ``message_size``
    bytes and go to ``queue``, or with ``routing_key`` to ``exchange``; ``messages`` lists
    several kinds instead. ``confirms`` is how many messages may wait for the broker's confirm
    before the next is sent. ``link`` names the way to the broker, one connection for each
    publisher. ``schedule`` changes the rate while the scenario runs: ramps, bursts, pauses.
    """

    name: str
    queue: str | None = None
    every: Duration = None  # type: ignore[assignment] # needed; follows one that is not
    count: int = 1
    message_size: int | Size = 0
    exchange: str | None = None
    routing_key: str = ""
    messages: Sequence[Message] = ()
    persistent: bool = False
    confirms: int | None = None
    link: str | None = None
    schedule: Sequence[Change] = ()

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        if self.every is None:
            raise InputError("'every' is missing; give it a value.")
        checks.duration("every", self.every)
        if self.every.mean < SHORTEST_INTERVAL:
            raise InputError(
                f"every has a mean of {self.every.mean:g} seconds; "
                f"give at least {SHORTEST_INTERVAL:g}."
            )
        checks.whole("count", self.count, 1, 1_000_000)
        checks.size("message_size", self.message_size)
        checks.any_text("routing_key", self.routing_key)
        checks.flag("persistent", self.persistent)
        if self.confirms is not None:
            checks.whole("confirms", self.confirms, 1, 1_000_000)
        if self.link is not None:
            checks.text("link", self.link)
        check_schedule(self, "schedule")
        self._check_destination()

    def _check_destination(self) -> None:
        if (self.queue is None) == (self.exchange is None) and not (
            self.messages and self.queue is None
        ):
            raise InputError("give either 'queue' or 'exchange', where its messages go.")
        if self.queue is not None:
            checks.text("queue", self.queue)
        if self.exchange is not None:
            checks.text("exchange", self.exchange)
        messages = checks.entities(self, "messages", Message)
        if not messages:
            return
        if self.queue is not None or self.routing_key or self.message_size or self.persistent:
            raise InputError(
                "'messages' say where they go, their size and whether they persist; "
                "leave out queue, routing_key, message_size and persistent."
            )
        total = sum(message.probability for message in messages)
        if abs(total - 1) > 1e-9:
            raise InputError(f"the probabilities of its messages add up to {total:g}; give 1.")

    @property
    def kinds(self) -> Sequence[Message]:
        """What it sends, in any way it was written down."""
        if self.messages:
            return self.messages
        key = self.routing_key if self.queue is None else self.queue
        return (Message(key, self.name, size=self.message_size, persistent=self.persistent),)
