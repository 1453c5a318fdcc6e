"""Controllers of the number of queues in a cluster: the rule of the paper, and feedback.

The loop is that of a consumer's prefetch, with another actuator: the number of queues. A controller
gets one interval and the goal, and returns how many queues there should be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from controlmq.errors import InputError
from controlmq.loop import Sample
from simulator.studies.cluster.system import SimulatedCluster


@dataclass(frozen=True, slots=True)
class ClusterSample(Sample):
    """One interval of a cluster; ``prefetch`` is the number of queues in force.

    ``clients`` and messages ``waiting`` are those at its end; ``growth`` of the latter is in
    messages/second. ``capacities`` begin with that of the queue that would be removed last, and
    end with that of the queue that would be added last.
    """

    clients: int = 0
    capacities: tuple[int, ...] = (1,)
    waiting: int = 0
    growth: float = 0.0


class ClusterPlant:
    """A simulated cluster as a plant that is actuated by the number of its queues.

    ``before`` is called with the cluster and the time before every interval, to let clients join
    and leave.
    """

    def __init__(
        self,
        system: SimulatedCluster,
        interval: float,
        before: Callable[[SimulatedCluster, float], None],
    ) -> None:
        if system.cluster.provision:
            raise InputError(
                "the cluster provisions by itself; create it with provision=False for a controller."
            )
        self.system, self.interval, self.before = system, interval, before
        self._number = 0

    @property
    def queues(self) -> int:
        """The number of queues that take clients."""
        return len(self.system.cluster.staying)

    def observe(self) -> ClusterSample:
        """Run the next interval."""
        self.before(self.system, self.system.simulation.now)
        self._number += 1
        queues = float(self.queues)
        reading = self.system.run(self.interval)
        return ClusterSample(
            number=self._number,
            time=reading.time,
            interval=self.interval,
            prefetch=queues,
            arrivals=round(reading.throughput * self.interval),
            clients=reading.clients,
            capacities=self._capacities(),
            waiting=reading.waiting,
            growth=reading.growth,
        )

    def actuate(self, prefetch: float) -> None:
        """Add or mark queues until there are ``prefetch`` of them, rounded up."""
        cluster = self.system.cluster
        wanted = min(max(1, math.ceil(prefetch)), cluster.most)
        while self.queues < wanted:
            cluster.grow()
        while self.queues > wanted:
            cluster.shrink(min(cluster.staying, key=lambda each: each.size))

    def _capacities(self) -> tuple[int, ...]:
        """Capacities in the order in which queues are kept, unmarked and added."""
        cluster = self.system.cluster
        staying = sorted(cluster.staying, key=lambda each: each.size)[::-1]
        marked = [member for member in cluster.members if member.marked]
        there = {member.name: member.capacity for member in (*staying, *marked)}
        return tuple((there | cluster.capacities).values())


@dataclass(frozen=True)
class ProvisioningRule:
    """Open loop: as many queues as the clients need, whatever load they cause."""

    def __call__(self, sample: Sample, goal: float) -> float:
        """The fewest queues with room for one more client; the goal is not used."""
        assert isinstance(sample, ClusterSample)
        room = itertools.accumulate(sample.capacities)
        return 1.0 + sum(each <= sample.clients for each in room)


@dataclass(frozen=True)
class GrowthFeedback:
    """Closed loop: queues are added while the number of waiting messages grows.

    The goal is the rate of one queue in messages/second. If waiting messages grow by ``growth`` a
    second, and those waiting are to be handled within ``patience`` seconds, the next number is::

        u(k+1) = u(k) + (growth + waiting / patience) / goal

    A queue is removed once the others would be busy for less than ``spare`` of the time without it.
    """

    patience: float = 60.0
    spare: float = 0.7

    def __call__(self, sample: Sample, goal: float) -> float:
        """The number of queues after this interval."""
        assert isinstance(sample, ClusterSample)
        pressure = (sample.growth + sample.waiting / self.patience) / goal
        if pressure > 0.05:
            return sample.prefetch + pressure
        if sample.prefetch > 1 and sample.rate < self.spare * goal * (sample.prefetch - 1):
            return sample.prefetch - 1
        return sample.prefetch
