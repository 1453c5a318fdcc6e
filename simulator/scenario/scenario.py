"""A scenario: its publishers, exchanges, queues, consumers and links.

Python and a scenario file use the same words. Each object checks its own values when it is made;
the scenario checks the references between them and the paths of all messages. The words of each
object are in the file beside this one that is named for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.checks import above_zero
from controlmq.errors import InputError
from simulator.scenario import checks
from simulator.scenario.broker import Broker
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import LONGEST_SECONDS
from simulator.scenario.exchanges import Binding, Exchange
from simulator.scenario.links import Link
from simulator.scenario.message_paths import MessagePaths
from simulator.scenario.publishers import Publishers
from simulator.scenario.queues import Queue
from simulator.scenario.resources import Resource
from simulator.scenario.rules import CONSUMER_ACTIONS, Rule


@dataclass(frozen=True)
class Scenario:
    """A messaging system to simulate, observed every ``sample_interval`` seconds.

    Without a ``broker``, the broker's work takes no time.
    """

    name: str
    sample_interval: float
    publishers: Sequence[Publishers]
    queues: Sequence[Queue]
    consumers: Sequence[Consumer]
    links: Sequence[Link] = ()
    exchanges: Sequence[Exchange] = ()
    bindings: Sequence[Binding] = ()
    broker: Broker | None = None
    rules: Sequence[Rule] = ()
    resources: Sequence[Resource] = ()

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        if not 0.001 <= above_zero("sample_interval", self.sample_interval) <= LONGEST_SECONDS:
            raise InputError(
                f"sample_interval is {self.sample_interval:g} seconds; "
                f"give 0.001 to {LONGEST_SECONDS:g}."
            )
        checks.entities(self, "publishers", Publishers, needed=True)
        checks.entities(self, "queues", Queue, needed=True)
        checks.entities(self, "consumers", Consumer, needed=True)
        checks.entities(self, "links", Link)
        checks.entities(self, "exchanges", Exchange)
        checks.entities(self, "bindings", Binding)
        checks.entities(self, "rules", Rule)
        checks.entities(self, "resources", Resource)
        if self.broker is not None and not isinstance(self.broker, Broker):
            raise InputError(f"broker is {self.broker!r}; give a Broker.")
        self._check_references()
        self._check_order(self.message_paths())

    def message_paths(self) -> MessagePaths:
        """All kinds of messages and the queues that each can reach."""
        return MessagePaths(self)

    def _check_order(self, paths: MessagePaths) -> None:
        """Refuse queues in order unless every message reaches them: one kind, always passed on."""
        names = [queue.name for queue in self.queues if queue.in_order]
        if not names:
            return
        published = sum(len(kinds) for kinds in paths.published.values())
        sends = [send for consumer in self.consumers for send in consumer.sends]
        if published > 1 or any(send.probability < 1 for send in sends):
            raise InputError(
                f"queue {names[0]!r} is in_order; give the scenario one kind of message to "
                "publish, and consumers that always pass on."
            )

    def _check_references(self) -> None:
        names = {
            kind: [entity.name for entity in getattr(self, kind)]
            for kind in ("queues", "consumers", "publishers", "links", "resources")
        }
        timeouts = {queue.name: queue.visibility_timeout for queue in self.queues}
        for consumer in self.consumers:
            checks.known("queue", consumer.queue, names["queues"], consumer.name)
            if consumer.resource is not None:
                checks.known("resource", consumer.resource, names["resources"], consumer.name)
            if consumer.on_failure == "no-answer" and timeouts[consumer.queue] is None:
                raise InputError(
                    f"{consumer.name!r} gives no-answer when it fails, and its messages would "
                    f"never come back; give queue {consumer.queue!r} a visibility_timeout."
                )
        clients: list[Publishers | Consumer] = [*self.publishers, *self.consumers]
        for client in clients:
            if client.link is not None:
                checks.known("link", client.link, names["links"], client.name)
        for rule in self.rules:
            checks.known("of", rule.of, names[rule.measures], rule.name)
            changed = self.consumers if rule.action in CONSUMER_ACTIONS else self.publishers
            targets: dict[str, Consumer | Publishers] = {each.name: each for each in changed}
            checks.known("target", rule.target, list(targets), rule.name)
            rule.check_target(targets[rule.target])
