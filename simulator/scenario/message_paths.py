"""The paths of messages through a scenario, worked out before the run.

A *kind* is one message of a publisher or one send of a consumer. Starting where each kind is sent,
and following dead-lettering and consumers that pass messages on, gives the kinds that can reach
each queue. A path that ends at an exchange without a matching queue is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlmq.errors import InputError
from simulator.scenario.consumers import Consumer
from simulator.scenario.exchanges import DEFAULT_EXCHANGE, Router
from simulator.scenario.messages import Message

if TYPE_CHECKING:
    from simulator.scenario.scenario import Scenario

MOST_QUEUES_IN_A_CYCLE = 64
"""A message remembers the queues that dead-lettered it as one bit each of a 64-bit word."""


@dataclass(frozen=True)
class Kind:
    """A kind of message: the number of its type, its properties, and the queues it is sent to."""

    type: int
    message: Message
    targets: tuple[int, ...]


class MessagePaths:
    """All kinds, who sends them and which queues they can reach."""

    def __init__(self, scenario: Scenario) -> None:
        self._queues, self._consumers = scenario.queues, scenario.consumers
        queues = [queue.name for queue in scenario.queues]
        self.router = Router(scenario.exchanges, scenario.bindings, queues)
        self._types: dict[str, int] = {}
        self.kinds: list[Kind] = []
        self.published: dict[str, list[int]] = {}
        self.sent: dict[str, list[int]] = {}
        for group in scenario.publishers:
            exchange = group.exchange or DEFAULT_EXCHANGE
            self.published[group.name] = [
                self._kind(exchange, message, group.name) for message in group.kinds
            ]
        for consumer in scenario.consumers:
            self.sent[consumer.name] = [
                self._kind(send.exchange, send, consumer.name) for send in consumer.sends
            ]
        self.dead: dict[tuple[int, int], tuple[int, ...]] = {}
        self.reached: set[tuple[int, int]] = set()
        self._follow()
        self._check_types()
        self.circle = self._circle()

    @property
    def types(self) -> list[str]:
        """The types of messages, by number."""
        return list(self._types)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Every pair of a queue and a type of message that can be in it, sorted."""
        return sorted({(queue, self.kinds[kind].type) for queue, kind in self.reached})

    @property
    def chain_rows(self) -> dict[int, int]:
        """The row of latencies since the origin, for every type that consumers pass on.

        These rows come after those of :attr:`pairs`.
        """
        passed_on = sorted(
            {self.kinds[kind].type for kinds in self.sent.values() for kind in kinds}
        )
        return {type_: row for row, type_ in enumerate(passed_on, len(self.pairs))}

    def _kind(self, exchange: str, message: Message, sender: str) -> int:
        name = message.type or message.routing_key or sender
        type_ = self._types.setdefault(name, len(self._types))
        targets = self.router.route(exchange, message.routing_key, message.headers, sender)
        self.kinds.append(Kind(type_, message, targets))
        return len(self.kinds) - 1

    def _follow(self) -> None:
        """Find every queue that each kind can reach, sent or dead-lettered."""
        readers: dict[str, list[Consumer]] = {}
        for consumer in self._consumers:
            readers.setdefault(consumer.queue, []).append(consumer)
        found = [
            (queue, kind)
            for kinds in self.published.values()
            for kind in kinds
            for queue in self.kinds[kind].targets
        ]
        while found:
            queue, kind = found.pop()
            if (queue, kind) in self.reached:
                continue
            self.reached.add((queue, kind))
            found += [(after, kind) for after in self._dead_letters(queue, kind)]
            for consumer in readers.get(self._queues[queue].name, ()):
                for send, number in zip(consumer.sends, self.sent[consumer.name], strict=True):
                    if send.on is None or self._types.get(send.on) == self.kinds[kind].type:
                        found += [(after, number) for after in self.kinds[number].targets]

    def _dead_letters(self, queue: int, kind: int) -> tuple[int, ...]:
        words = self._queues[queue]
        if words.dead_letter_exchange is None:
            return ()
        key, message = words.dead_letter_routing_key, self.kinds[kind].message
        if key is None:
            key = message.routing_key
        owner = f"dead letters of {words.name}"
        targets = self.router.route(words.dead_letter_exchange, key, message.headers, owner)
        self.dead[queue, kind] = targets
        return targets

    def _check_types(self) -> None:
        types = self.types
        there = {(self._queues[queue].name, types[type_]) for queue, type_ in self.pairs}
        for consumer in self._consumers:
            for send in consumer.sends:
                if send.on is not None and (consumer.queue, send.on) not in there:
                    raise InputError(
                        f"{consumer.name!r} sends on messages of type {send.on!r}, but none "
                        f"reaches its queue {consumer.queue!r}."
                    )

    def _circle(self) -> dict[int, int]:
        """The queues whose dead letters can return to them, numbered."""
        after: dict[int, set[int]] = {}
        for (queue, _), targets in self.dead.items():
            after.setdefault(queue, set()).update(targets)
        circle = [queue for queue in sorted(after) if queue in _reachable(after, queue)]
        if len(circle) > MOST_QUEUES_IN_A_CYCLE:
            raise InputError(
                f"{len(circle)} queues dead-letter in circles; "
                f"give at most {MOST_QUEUES_IN_A_CYCLE}."
            )
        return {queue: number for number, queue in enumerate(circle)}


def _reachable(after: Mapping[int, set[int]], start: int) -> set[int]:
    seen: set[int] = set()
    found = list(after.get(start, ()))
    while found:
        queue = found.pop()
        if queue not in seen:
            seen.add(queue)
            found += after.get(queue, ())
    return seen
