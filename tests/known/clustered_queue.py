"""Runs of the self-optimising clustered queue (Selfware): balancing, growth, controllers."""

from __future__ import annotations

import statistics

from controlmq.loop import Controller, Loop, Step
from simulator.studies.cluster import (
    CONSUMER,
    PRODUCER,
    Cluster,
    ClusterPlant,
    Machines,
    Reading,
    SimulatedCluster,
)

CAPACITY = 63
"""Clients: 21 producers with two consumers each are what one queue can serve."""


def balanced(balance: str, seed: int, forward_above: int | None = None) -> Reading:
    """4 producers and 8 consumers on two queues, a minute after they have all joined."""
    cluster = Cluster(100, 2, provision=False, most=2)
    system = SimulatedCluster(cluster, Machines(forward_above=forward_above), balance, seed)
    for role, count in ((PRODUCER, 4), (CONSUMER, 8)):
        for _ in range(count):
            system.join(role)
    system.run(20.0)
    return system.run(60.0)


def join_three(system: SimulatedCluster) -> None:
    """A producer and the two consumers it needs."""
    for role in (PRODUCER, CONSUMER, CONSUMER):
        system.join(role)


def grown(provision: bool) -> list[Reading]:
    """A producer and two consumers more every two seconds, on one queue or up to two."""
    system = SimulatedCluster(Cluster(CAPACITY, provision=provision, most=2))
    readings = []
    for _ in range(48):
        join_three(system)
        readings.append(system.run(2.0))
    return readings


def peak(readings: list[Reading]) -> float:
    """The most messages/second over eight seconds; overloaded further, a queue gets slower."""
    rates = [each.throughput for each in readings]
    return max(statistics.fmean(rates[n : n + 4]) for n in range(len(rates) - 3))


def controlled(
    controller: Controller,
    *,
    rate: float = Machines().rate,
    work: float = Machines().work,
    joins: int = 48,
) -> list[Step]:
    """The same growth, the number of queues decided by a controller every four seconds."""
    machines = Machines(rate=rate, work=work)
    system = SimulatedCluster(Cluster(CAPACITY, provision=False, most=4), machines)

    def arrive(system: SimulatedCluster, _: float) -> None:
        if len(system.clients) < 3 * joins:
            join_three(system)

    goal = 1 / machines.queue_work
    return list(Loop(ClusterPlant(system, 4.0, arrive), controller, goal).run(60))
