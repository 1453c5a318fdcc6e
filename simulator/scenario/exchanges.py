"""Exchanges and bindings: which queues a message reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controlmq.errors import InputError
from simulator.scenario import checks

EXCHANGES = ("direct", "fanout", "topic", "headers")

DEFAULT_EXCHANGE = ""
"""AMQP's nameless exchange: it delivers a message to the queue named by its routing key."""


@dataclass(frozen=True)
class Exchange:
    """An exchange; ``kind`` is "direct", "fanout", "topic" or "headers"."""

    name: str
    kind: str = "direct"

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        checks.choice("kind", self.kind, EXCHANGES)


@dataclass(frozen=True)
class Binding:
    """Connects a queue to an exchange: which of its messages the queue gets.

    From a "direct" exchange it gets messages with the same routing key. From a "topic" exchange
    the routing key is a pattern of words between dots: ``*`` is any one word, ``#`` any number of
    them. From a "headers" exchange, all or any of the ``headers`` must be equal in the message, as
    ``match`` says. From a "fanout" exchange it gets every message.
    """

    exchange: str
    queue: str
    routing_key: str = ""
    headers: Mapping[str, object] = field(default_factory=dict)
    match: str = "all"

    def __post_init__(self) -> None:
        checks.text("exchange", self.exchange)
        checks.text("queue", self.queue)
        checks.any_text("routing_key", self.routing_key)
        checks.headers("headers", self.headers)
        checks.choice("match", self.match, ("all", "any"))

    def accepts(self, kind: str, routing_key: str, headers: Mapping[str, object]) -> bool:
        """Whether a message with this key and these headers passes, at an exchange of a kind."""
        if kind == "direct":
            return routing_key == self.routing_key
        if kind == "topic":
            return topic_matches(self.routing_key.split("."), routing_key.split("."))
        if kind == "headers":
            # RabbitMQ leaves headers that begin with x- out of the comparison.
            asked = {key: value for key, value in self.headers.items() if key[:2] != "x-"}
            found = [key in headers and headers[key] == value for key, value in asked.items()]
            return all(found) if self.match == "all" else any(found)
        return True


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Whether the words of a routing key match a pattern that may contain ``*`` and ``#``."""
    # One row of the usual table: reached[i] is whether the pattern so far matches words[:i].
    reached = [True] + [False] * len(words)
    for part in pattern:
        if part == "#":
            for i in range(1, len(reached)):
                reached[i] = reached[i] or reached[i - 1]
            continue
        reached = [False] + [reached[i] and part in ("*", word) for i, word in enumerate(words)]
    return reached[-1]


class Router:
    """Finds the queues that a message reaches from an exchange."""

    def __init__(
        self, exchanges: Iterable[Exchange], bindings: Iterable[Binding], queues: Iterable[str]
    ) -> None:
        self.queues = {name: index for index, name in enumerate(queues)}
        self.kinds = {exchange.name: exchange.kind for exchange in exchanges}
        self.bindings: dict[str, list[Binding]] = {name: [] for name in self.kinds}
        for number, binding in enumerate(bindings, 1):
            checks.known("exchange", binding.exchange, list(self.kinds), f"bindings {number}")
            checks.known("queue", binding.queue, list(self.queues), f"bindings {number}")
            self.bindings[binding.exchange].append(binding)

    def route(
        self, exchange: str, routing_key: str, headers: Mapping[str, object], owner: str
    ) -> tuple[int, ...]:
        """The queues a message reaches, each once, in order; raises if it reaches none."""
        if exchange == DEFAULT_EXCHANGE:
            checks.known("queue", routing_key, list(self.queues), owner)
            return (self.queues[routing_key],)
        checks.known("exchange", exchange, list(self.kinds), owner)
        kind = self.kinds[exchange]
        reached = {
            self.queues[binding.queue]
            for binding in self.bindings[exchange]
            if binding.accepts(kind, routing_key, headers)
        }
        if not reached:
            what = f"headers {dict(headers)}" if kind == "headers" else f"key {routing_key!r}"
            raise InputError(
                f"what {owner!r} sends with {what} to exchange {exchange!r} ({kind}) reaches no "
                "queue; bind one to it."
            )
        return tuple(sorted(reached))
