"""A scenario: which publishers, queues, consumers and links there are, in plain words.

The same words are used in Python and in a scenario file. Values are checked when an object is
made, references between them when the scenario is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controlmq.checks import above_zero, not_negative
from controlmq.errors import InputError
from simulator.duration import LONGEST, Duration

OVERFLOWS = ("drop-head", "reject-publish")

MOST_PREFETCH = 65535
"""Messages. The prefetch count of AMQP 0-9-1 basic.qos is an unsigned 16-bit number."""

LARGEST_MESSAGE = 512 * 1024 * 1024
"""Bytes. RabbitMQ accepts no larger max_message_size than this."""

SHORTEST_INTERVAL = 1e-6
"""Seconds. One publisher sends at most a million messages a second, so that time passes."""


@dataclass(frozen=True)
class Publishers:
    """``count`` equal publishers that send messages of ``message_size`` bytes to a queue.

    ``every`` is the time between two publishes of one of them. Each begins at a random point
    of its cycle.
    """

    name: str
    queue: str
    every: Duration
    count: int = 1
    message_size: int = 0

    def __post_init__(self) -> None:
        _text("name", self.name)
        _text("queue", self.queue)
        _duration("every", self.every)
        if self.every.mean < SHORTEST_INTERVAL:
            raise InputError(
                f"every has a mean of {self.every.mean:g} seconds; "
                f"give at least {SHORTEST_INTERVAL:g}."
            )
        _whole("count", self.count, 1, 1_000_000)
        _whole("message_size", self.message_size, 0, LARGEST_MESSAGE)


@dataclass(frozen=True)
class Queue:
    """A queue that keeps at most ``max_length`` messages waiting; without it, any number.

    A full queue drops its oldest message ("drop-head") or the new one ("reject-publish").
    """

    name: str
    max_length: int | None = None
    overflow: str = "drop-head"

    def __post_init__(self) -> None:
        _text("name", self.name)
        if self.max_length is not None:
            _whole("max_length", self.max_length, 1, 2**31)
        if self.overflow not in OVERFLOWS:
            raise InputError(f"overflow is {self.overflow!r}; give one of {', '.join(OVERFLOWS)}.")


@dataclass(frozen=True)
class Consumer:
    """A consumer of a queue: ``handlers`` threads that each work on one message at a time.

    A message costs its handler ``work`` (the business logic) and then ``overhead`` seconds
    (the client) before it is acknowledged. ``link`` names the way to the broker; without it
    the way takes no time. ``prefetch`` is in force at the start. Consumers of one queue take
    turns.
    """

    name: str
    queue: str
    work: Duration
    handlers: int = 1
    overhead: float = 0.0
    link: str | None = None
    prefetch: float = 1.0

    def __post_init__(self) -> None:
        _text("name", self.name)
        _text("queue", self.queue)
        _duration("work", self.work)
        _whole("handlers", self.handlers, 1, 100_000)
        _seconds("overhead", self.overhead)
        if self.link is not None:
            _text("link", self.link)
        prefetch_count(self.prefetch)


@dataclass(frozen=True)
class Link:
    """A way between broker and consumer; each consumer has a connection of its own on it.

    ``round_trip`` is in seconds, half of it each way. ``jitter`` is added to each way, without
    changing the order of messages. A message takes its size over ``bytes_per_second`` to send,
    one after the other; without it, no time.
    """

    name: str
    round_trip: float = 0.0
    jitter: Duration | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        _text("name", self.name)
        _seconds("round_trip", self.round_trip)
        if self.jitter is not None:
            _duration("jitter", self.jitter)
        if (
            self.bytes_per_second is not None
            and above_zero("bytes_per_second", self.bytes_per_second) < 1
        ):
            raise InputError(f"bytes_per_second is {self.bytes_per_second:g}; give 1 or more.")


@dataclass(frozen=True)
class Scenario:
    """A messaging system to simulate, observed every ``sample_interval`` seconds."""

    name: str
    sample_interval: float
    publishers: Sequence[Publishers]
    queues: Sequence[Queue]
    consumers: Sequence[Consumer]
    links: Sequence[Link] = ()

    def __post_init__(self) -> None:
        _text("name", self.name)
        if not 0.001 <= above_zero("sample_interval", self.sample_interval) <= LONGEST:
            raise InputError(
                f"sample_interval is {self.sample_interval:g} seconds; give 0.001 to {LONGEST:g}."
            )
        for kind, entities, type_ in (
            ("publishers", self.publishers, Publishers),
            ("queues", self.queues, Queue),
            ("consumers", self.consumers, Consumer),
            ("links", self.links, Link),
        ):
            if not isinstance(entities, list | tuple) or not all(
                isinstance(entity, type_) for entity in entities
            ):
                raise InputError(f"{kind} is {entities!r}; give a list of {type_.__name__}.")
            if not entities and kind != "links":
                raise InputError(f"{kind} is empty; a scenario needs at least one entry in it.")
            _unique(kind, entities)
            object.__setattr__(self, kind, tuple(entities))
        self._check_references()

    def _check_references(self) -> None:
        queues = [queue.name for queue in self.queues]
        links = [link.name for link in self.links]
        for group in self.publishers:
            _known("queue", group.queue, queues, group.name)
        for consumer in self.consumers:
            _known("queue", consumer.queue, queues, consumer.name)
            if consumer.link is not None:
                _known("link", consumer.link, links, consumer.name)


def prefetch_count(value: object) -> float:
    """``value`` as a prefetch: a real number of messages that a broker could be asked for."""
    prefetch = not_negative("prefetch", value)
    if prefetch > MOST_PREFETCH:
        raise InputError(f"prefetch is {prefetch:g}; AMQP allows at most {MOST_PREFETCH}.")
    return prefetch


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def _unique(kind: str, entities: Sequence[_Named]) -> None:
    seen: set[str] = set()
    for entity in entities:
        if entity.name in seen:
            raise InputError(f"{kind} has two entries named {entity.name!r}; rename one.")
        seen.add(entity.name)


def _known(key: str, name: str, names: list[str], owner: str) -> None:
    if name not in names:
        raise InputError(
            f"{key} of {owner!r} is {name!r}; "
            f"give one of {', '.join(map(repr, names)) or 'those under links (there are none)'}."
        )


def _text(key: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{key} is {value!r}; give a text that is not empty.")


def _whole(key: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{key} is {value!r}; give a whole number from {low} to {high}.")


def _seconds(key: str, value: object) -> None:
    if not_negative(key, value) > LONGEST:
        raise InputError(f"{key} is {value} seconds; give at most {LONGEST:g}.")


def _duration(key: str, value: object) -> None:
    if not isinstance(value, Duration):
        raise InputError(f"{key} is {value!r}; give a Duration.")
