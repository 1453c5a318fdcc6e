"""A cluster of queues in simulation: clients join and leave, messages may be forwarded."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from simulator.meter import Meter
from simulator.scenario import checks
from simulator.scenario.broker import Broker
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import Duration
from simulator.scenario.messages import Send
from simulator.scenario.publishers import Publishers
from simulator.scenario.queues import Queue
from simulator.scenario.scenario import Scenario
from simulator.simulation import Simulation
from simulator.studies.cluster.membership import CONSUMER, PRODUCER, Cluster, Member

BALANCES = ("optimised", "default")

QUEUE_WORK_SECONDS = 1 / 1900
"""A queue's work on one message: the paper measured at most 1.9 messages/ms."""

RELAY_QUEUE = "relay"
"""Messages pass through this queue from one queue of the cluster to another."""

FORWARDING_PREFETCH = 10.0
"""Messages in flight to and from the relay; this number keeps it busy."""


@dataclass(frozen=True)
class Machines:
    """How fast the clients and the queues are.

    A producer sends ``rate`` messages a second; a consumer works ``work`` seconds on each. A queue
    spends ``queue_work`` seconds on a message, and a share of ``slowdown`` more for every waiting
    message. A queue with more than ``forward_above`` messages waiting forwards some to the
    shortest queue, if that has less than half of this number. A marked queue without consumers
    always forwards its messages.
    """

    rate: float = 87.5
    work: float = 1 / 45
    queue_work: float = QUEUE_WORK_SECONDS
    slowdown: float = 2e-6
    forward_above: int | None = None


@dataclass(frozen=True)
class Reading:
    """What a cluster did in an interval: messages/second sent and worked on.

    ``waiting`` is the number of messages at its end that were sent and not worked on yet.
    """

    time: float
    sent: float
    throughput: float
    waiting: int
    queues: int
    clients: int

    @property
    def growth(self) -> float:
        """Messages/second by which more were sent than worked on."""
        return self.sent - self.throughput


@dataclass
class SimulatedCluster:
    """Clients, queues and messages of a cluster.

    ``balance`` says how the queue of a new client is chosen: "optimised" is the cluster's own
    choice, "default" a random queue, as when every client is configured separately.
    """

    cluster: Cluster
    machines: Machines = field(default_factory=Machines)
    balance: str = "optimised"
    seed: int = 0

    def __post_init__(self) -> None:
        checks.choice("balance", self.balance, BALANCES)
        self._random = random.Random(self.seed)
        self._names = list(self.cluster.capacities)
        self._forwarding: set[str] = set()
        self.simulation = Simulation(self._scenario(), self.seed)
        for name in self._names:
            self.simulation.remove_publishers(_template(PRODUCER, name))
            self.simulation.remove_consumer(_template(CONSUMER, name))
        self.clients: dict[str, tuple[str, str]] = {}
        """Role and queue of every client."""
        self._meter = Meter(self.simulation)

    def join(self, role: str) -> str:
        """Let a client join; returns its name."""
        if self.balance == "default":
            member = self.cluster.attach(role, self._random.choice(self.cluster.staying).name)
        else:
            member = self.cluster.join(role)
        simulation = self.simulation
        add = simulation.add_publishers if role == PRODUCER else simulation.add_consumer
        client = add(_template(role, member.name))
        self.clients[client] = role, member.name
        self._forward()
        return client

    def leave(self, client: str) -> None:
        """Let a client leave; a consumer finishes the messages it has."""
        role, queue = self.clients.pop(client)
        simulation = self.simulation
        (simulation.remove_publishers if role == PRODUCER else simulation.remove_consumer)(client)
        self._count_messages()
        self.cluster.leave(role, queue)
        self._forward()

    def run(self, seconds: float) -> Reading:
        """Run on, forwarding messages where needed; returns what happened."""
        end = self.simulation.now + seconds
        self._forward()
        while self.simulation.now < end:
            self.simulation.run_until(min(self.simulation.now + 1.0, end))
            self._forward()
        metrics = self._meter.read()
        workers = [name for name in metrics.consumers if not name.startswith("forward")]
        published = int(self.simulation.state.publishers["published"].sum())
        return Reading(
            self.simulation.now,
            sum(each.publish_rate for each in metrics.publishers.values()),
            sum(metrics.consumers[name].arrival_rate for name in workers),
            published - sum(self.simulation.totals(name).arrivals for name in workers),
            len(self.cluster.members),
            self.cluster.clients,
        )

    def _count_messages(self) -> None:
        """Update the number of messages of each member: sent to it and not acknowledged yet.

        Messages that the relay has delivered for a queue count as that queue's.
        """
        state, scenario = self.simulation.state, self.simulation.scenario
        left: Counter[str] = Counter()
        for (_, name), sent in self.simulation.sent.items():
            left[name] += sent
        for queue, row in zip(scenario.queues, state.queues, strict=True):
            left[queue.name] -= int(row["acknowledged"])
        for number, consumer in enumerate(scenario.consumers):
            if consumer.queue == RELAY_QUEUE:
                left[consumer.sends[0].routing_key] += int(state.consumers[number]["in_flight"])
        for member in self.cluster.members:
            member.waiting = left[member.name]

    def _forward(self) -> None:
        """Remove empty marked queues, and let exactly those queues forward that should."""
        self._count_messages()
        self.cluster.remove_empty()
        shortest = min(self.cluster.staying, key=lambda each: each.waiting)
        wanted = {_forwarder("to", shortest.name)}
        for member in self.cluster.members:
            if member is not shortest and self._forwards(member, shortest):
                wanted.add(_forwarder("from", member.name))
        for name in wanted ^ self._forwarding:
            self.simulation.set_prefetch(name, FORWARDING_PREFETCH if name in wanted else 0.0)
        self._forwarding = wanted

    def _forwards(self, member: Member, shortest: Member) -> bool:
        if member.marked and member.clients[CONSUMER] == 0:
            return True  # no consumer will ever take them here
        above = self.machines.forward_above
        return above is not None and member.waiting > above > 2 * shortest.waiting

    def _scenario(self) -> Scenario:
        machines, names = self.machines, self._names
        third = machines.queue_work / 3
        every = Duration(1 / machines.rate)
        work = Duration(machines.work, "normal", 0.1 * machines.work)

        def forwarder(direction: str, name: str, source: str, target: str) -> Consumer:
            sends = [Send(target, type=direction)]
            name = _forwarder(direction, name)
            return Consumer(name, source, Duration(0.0), prefetch=0.0, sends=sends)

        consumers = [
            Consumer(_template(CONSUMER, name), name, work, prefetch=2.0) for name in names
        ]
        for name in names:
            consumers.append(forwarder("from", name, name, RELAY_QUEUE))
            consumers.append(forwarder("to", name, RELAY_QUEUE, name))
        return Scenario(
            "cluster",
            1.0,
            [Publishers(_template(PRODUCER, name), name, every) for name in names],
            [*(Queue(name, slowdown=machines.slowdown) for name in names), Queue(RELAY_QUEUE)],
            consumers,
            # Every queue has its own server, and no publisher is stopped.
            broker=Broker(
                cores=len(names) + 1,
                enqueue=third,
                deliver=third,
                acknowledge=third,
                credit=1_000_000,
                more_credit_after=1,
            ),
        )


def _template(role: str, queue: str) -> str:
    return f"{role} of {queue}"


def _forwarder(direction: str, queue: str) -> str:
    return f"forward {direction} {queue}"
