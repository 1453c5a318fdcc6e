"""A cluster of queues in simulation: clients join and leave, messages may be forwarded."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from simulator import checks
from simulator.broker import Broker, Queue
from simulator.cluster.membership import CONSUMER, PRODUCER, Cluster, Member
from simulator.consumers import Consumer, Send
from simulator.duration import Duration
from simulator.metrics import Meter
from simulator.scenario import Scenario
from simulator.simulation import Simulation
from simulator.workload import Publishers

BALANCES = ("optimised", "default")

QUEUE_WORK = 1 / 1900
"""Seconds of a queue's work on one message: the source measured 1.9 messages/ms at most."""


@dataclass(frozen=True)
class Machines:
    """What the clients do and what a queue can do.

    A producer sends ``rate`` messages a second, a consumer works ``work`` seconds on each. Each
    queue spends ``queue_work`` seconds on a message, and a share of ``slowdown`` more for every
    message that waits. A queue with more than ``forward_above`` messages waiting passes some
    on to the shortest, if that has less than half as many; without it, none are.
    """

    rate: float = 87.5
    work: float = 1 / 45
    queue_work: float = QUEUE_WORK
    slowdown: float = 2e-6
    forward_above: int | None = None


@dataclass(frozen=True)
class Reading:
    """What a cluster did in an interval: messages/second sent and worked on.

    ``waiting`` are all messages that were sent and not worked on yet, at its end.
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

    ``balance`` says who chooses the queue of a new client: "optimised" is the cluster's own
    election, "default" any queue at random, as when every client is configured by itself.
    """

    cluster: Cluster
    machines: Machines = field(default_factory=Machines)
    balance: str = "optimised"
    seed: int = 0

    def __post_init__(self) -> None:
        checks.choice("balance", self.balance, BALANCES)
        self._random = random.Random(self.seed)
        self._names = [f"queue {number + 1}" for number in range(self.cluster.most)]
        self.simulation = Simulation(self._scenario(), self.seed)
        for name in self._names:
            self.simulation.remove_publishers(_template(PRODUCER, name))
            self.simulation.remove_consumer(_template(CONSUMER, name))
        self.clients: dict[str, tuple[str, str]] = {}
        """Role and queue of every client there is."""
        self._meter = Meter(self.simulation)

    def join(self, role: str) -> str:
        """A client joins; its name."""
        if self.balance == "default":
            staying = [member.name for member in self.cluster.members if not member.marked]
            member = self.cluster.attach(role, self._random.choice(staying))
        else:
            member = self.cluster.join(role)
        return self._start(role, member)

    def _start(self, role: str, member: Member) -> str:
        like = _template(role, member.name)
        if role == PRODUCER:
            client = self.simulation.add_publishers(like)
        else:
            client = self.simulation.add_consumer(like)
        self.clients[client] = role, member.name
        return client

    def leave(self, client: str) -> None:
        """A client leaves; a consumer finishes what it has."""
        role, queue = self.clients.pop(client)
        if role == PRODUCER:
            self.simulation.remove_publishers(client)
        else:
            self.simulation.remove_consumer(client)
        self.cluster.leave(role, queue)

    def run(self, seconds: float) -> Reading:
        """Run on, forwarding messages where that is wanted, and read what happened."""
        end = self.simulation.now + seconds
        if self.machines.forward_above is not None:
            while self.simulation.now + 1.0 < end:
                self.simulation.run_until(self.simulation.now + 1.0)
                self._forward(self.machines.forward_above)
        self.simulation.run_until(end)
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

    def _forward(self, threshold: int) -> None:
        """Let queues that are too long pass messages on to the shortest."""
        lengths = dict(zip(self._names, self.simulation.state.queues["length"], strict=True))
        there = [member.name for member in self.cluster.members if not member.marked]
        shortest = min(there, key=lambda name: int(lengths[name]))
        for source in there:
            for target in there:
                if source != target:
                    wanted = (
                        target == shortest
                        and lengths[source] > threshold
                        and 2 * lengths[target] < threshold
                    )
                    self.simulation.set_prefetch(f"forward {source} to {target}", 10.0 * wanted)

    def _scenario(self) -> Scenario:
        machines, names = self.machines, self._names
        third = machines.queue_work / 3
        forwarders = []
        if machines.forward_above is not None:
            forwarders = [
                Consumer(
                    f"forward {source} to {target}",
                    source,
                    Duration(0.0),
                    prefetch=0.0,
                    sends=[Send(target, type="forwarded")],
                )
                for source in names
                for target in names
                if source != target
            ]
        return Scenario(
            "cluster",
            1.0,
            [
                Publishers(_template(PRODUCER, name), name, Duration(1 / machines.rate))
                for name in names
            ],
            [Queue(name, slowdown=machines.slowdown) for name in names],
            [
                Consumer(
                    _template(CONSUMER, name),
                    name,
                    Duration(machines.work, "normal", 0.1 * machines.work),
                    prefetch=2.0,
                )
                for name in names
            ]
            + forwarders,
            # A server of its own for every queue, that stops no publisher.
            broker=Broker(
                cores=len(names),
                enqueue=third,
                deliver=third,
                acknowledge=third,
                credit=1_000_000,
                more_credit_after=1,
            ),
        )


def _template(role: str, queue: str) -> str:
    return f"{role} of {queue}"
