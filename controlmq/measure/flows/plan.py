"""What is to happen on the broker: destinations, locations, what each sends and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlmq.errors import InputError

LONGEST_NAME_BYTES = 255
"""Bytes of a name, a routing key or a type in AMQP."""


@dataclass(frozen=True)
class Outgoing:
    """A message as it is sent: its ``type``, where to, its ``sizes`` in bytes, one after another.

    Through ``exchange`` with its routing key, or without one to the queue that the key names.
    A ``confirmed`` one counts as sent safely when the broker says so.
    """

    type: str
    exchange: str
    routing_key: str
    sizes: Sequence[int]
    persistent: bool
    confirmed: bool

    @property
    def place(self) -> tuple[str, str]:
        """Type and routing key, by which what was sent is counted."""
        return self.type, self.routing_key


@dataclass(frozen=True)
class Driver:
    """Sends a message at each of ``times``, in seconds from the start of the run.

    If it is a confirmed one, never before the confirm of the one before.
    """

    name: str
    message: Outgoing
    times: Sequence[float]


@dataclass(frozen=True)
class Receiver:
    """Takes messages from a queue, and sends the ``answers`` to each type.

    It acknowledges a message on receipt or, ``after_answers``, when all of them are safe.
    """

    queue: str
    prefetch: int
    after_answers: bool
    answers: Mapping[str, Sequence[Outgoing]]


@dataclass(frozen=True)
class Location:
    """A place with its own drivers and receivers."""

    name: str
    drivers: Sequence[Driver]
    receivers: Sequence[Receiver]


@dataclass(frozen=True)
class Plan:
    """Everything that is to be declared, and who does what.

    All names on the broker begin with ``prefix``. ``queues`` says which are durable
    subscriptions, ``exchanges`` of which kind each is, ``bindings`` have exchange, queue and
    routing key. ``addressed`` has the types and routing keys that each queue is to receive.
    ``processes`` has the locations of each process. Drivers are to be done after ``seconds``;
    what is late or on its way then has ``drain`` seconds.
    """

    prefix: str
    queues: Mapping[str, bool]
    exchanges: Mapping[str, str]
    bindings: Sequence[tuple[str, str, str]]
    addressed: Mapping[str, Sequence[tuple[str, str]]]
    processes: Mapping[str, Sequence[Location]]
    seconds: float
    drain: float

    def __post_init__(self) -> None:
        texts = [self.name(each) for each in (*self.queues, *self.exchanges)]
        texts += [text for places in self.addressed.values() for place in places for text in place]
        for text in texts:
            if len(text.encode()) > LONGEST_NAME_BYTES:
                raise InputError(
                    f"{text[:40]!r}... is longer than the {LONGEST_NAME_BYTES} bytes that AMQP "
                    "allows; have fewer locations that are addressed together."
                )

    def name(self, own: str) -> str:
        """What a queue or exchange is called on the broker."""
        return f"{self.prefix}{own}"

    @property
    def planned(self) -> Counter[tuple[str, str]]:
        """Messages that drivers are to send, by type and routing key."""
        counts: Counter[tuple[str, str]] = Counter()
        for locations in self.processes.values():
            for driver in (each for location in locations for each in location.drivers):
                counts[driver.message.place] += len(driver.times)
        return counts

    def address(self, message: Outgoing) -> tuple[str, str]:
        """Exchange and routing key on the broker."""
        if message.exchange:
            return self.name(message.exchange), message.routing_key
        return "", self.name(message.routing_key)
