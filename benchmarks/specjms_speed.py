"""SPECjms2007 on this simulator beside SimPy, same model: messages received per wall second.

SimPy runs it as its tutorial teaches: a process for every message, stores for queues, resources
for what is shared. Both simulate vertical BASE 45; the ratio is of messages per wall second.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from benchmarks.measure import spread
from simulator import Broker, Scenario, Simulation
from simulator.specjms import Phases, vertical, workload
from simulator.specjms.build import Workload

BASE, SECONDS, PEER_SECONDS = 45, 300.0, 10.0
REPETITIONS = 5
WANTED = 30


class Peer:
    """A SPECjms workload in SimPy: publishers, connections, cores, disk, queues, consumers."""

    def __init__(self, built: Workload) -> None:
        import simpy

        scenario = built.scenario
        self.env = simpy.Environment()
        self.received = 0
        self.broker: Broker = scenario.broker or Broker()
        self.cores = simpy.Resource(self.env, self.broker.cores)
        self.disk = simpy.Resource(self.env, 1)
        self.link = scenario.links[0]
        flows = scenario.flows()
        self.kinds, self.types = flows.kinds, flows.types
        self.positions = [0] * len(self.kinds)
        self.queues = [simpy.Store(self.env) for _ in scenario.queues]
        self.works = [simpy.Resource(self.env, 1) for _ in scenario.queues]
        self.durable = [queue.write_before_delivery for queue in scenario.queues]
        for group in scenario.publishers:
            (kind,) = flows.published[group.name]
            self.env.process(self.publisher(kind, group.every.mean, group.confirms is not None))
        for consumer in scenario.consumers:
            sends: dict[str, list[int]] = {}
            for send, kind in zip(consumer.sends, flows.sent[consumer.name], strict=True):
                sends.setdefault(send.on or "", []).append(kind)
            place = [queue.name for queue in scenario.queues].index(consumer.queue)
            self.env.process(self.consumer(place, consumer, sends))

    def size(self, kind: int) -> float:
        """The next size of a kind of message."""
        values = self.kinds[kind].size.values  # type: ignore[union-attr]
        assert values is not None
        self.positions[kind] += 1
        return values[self.positions[kind] % len(values)]

    def publisher(self, kind: int, every: float, waits: bool) -> Generator[Any, Any, None]:
        """Sends at its pace; a transactional one waits for the broker each time."""
        env = self.env
        connection = self._resource()
        yield env.timeout(every * random.random())
        while True:
            start = env.now
            sending = env.process(self.message(kind, connection))
            if waits:
                yield sending
                yield env.timeout(self.link.round_trip / 2)
            yield env.timeout(max(every - (env.now - start), 0.0))

    def _resource(self) -> Any:
        import simpy

        return simpy.Resource(self.env, 1)

    def use_core(self, process: Any, seconds: float) -> Generator[Any, Any, None]:
        """A process of the broker works on one thing at a time, on one of the cores."""
        with process.request() as turn:
            yield turn
            with self.cores.request() as core:
                yield core
                yield self.env.timeout(seconds)

    def message(self, number: int, connection: Any) -> Generator[Any, Any, None]:
        """From its sender to its queues."""
        env, broker, kind = self.env, self.broker, self.kinds[number]
        size = self.size(number)
        yield env.timeout(self.link.round_trip / 2 + size / (self.link.bytes_per_second or 1e12))
        cost = broker.publish + broker.per_byte * size + broker.copy * len(kind.targets)
        yield from self.use_core(connection, cost)
        entering = [env.process(self.enter(kind, queue, size)) for queue in kind.targets]
        yield env.all_of(entering)

    def enter(self, kind: Any, queue: int, size: float) -> Generator[Any, Any, None]:
        """Into one queue, by way of the disk if it is to be safe."""
        yield from self.use_core(self.works[queue], self.broker.enqueue)
        if kind.persistent and self.durable[queue]:
            with self.disk.request() as turn:
                yield turn
                cost = self.broker.disk_write + size * self.broker.disk_per_byte
                yield self.env.timeout(cost)
        yield self.queues[queue].put((self.types[kind.type], size))

    def consumer(
        self, queue: int, consumer: Any, sends: dict[str, list[int]]
    ) -> Generator[Any, Any, None]:
        """Takes messages while its window has room."""
        import simpy

        window = simpy.Container(self.env, init=int(consumer.prefetch))
        handlers, connection = simpy.Resource(self.env, consumer.handlers), self._resource()
        while True:
            yield window.get(1)
            type_, size = yield self.queues[queue].get()
            self.env.process(
                self.handle(queue, consumer, type_, size, sends, window, handlers, connection)
            )

    def handle(
        self,
        queue: int,
        consumer: Any,
        type_: str,
        size: float,
        sends: dict[str, list[int]],
        window: Any,
        handlers: Any,
        connection: Any,
    ) -> Generator[Any, Any, None]:
        """From its queue to its consumer, and what follows from it."""
        env, broker = self.env, self.broker
        yield from self.use_core(self.works[queue], broker.deliver + broker.per_byte * size)
        yield env.timeout(self.link.round_trip / 2 + size / (self.link.bytes_per_second or 1e12))
        with handlers.request() as turn:
            yield turn
            self.received += 1
            yield env.timeout(consumer.work.mean)
        for kind in sends.get(type_, ()):
            env.process(self.message(kind, connection))
        yield env.timeout(self.link.round_trip / 2)
        yield from self.use_core(self.works[queue], broker.acknowledge)
        yield window.put(1)


def steady(scenario: Scenario) -> Scenario:
    """Without the phases of a run: the peer measures at the full rate too."""
    return replace(
        scenario, publishers=[replace(each, schedule=()) for each in scenario.publishers]
    )


def run() -> dict[str, Any]:
    built = workload(vertical(BASE), Phases(10.0, SECONDS, 30.0))
    scenario = steady(built.scenario)
    Simulation(scenario).run_until(1.0)  # compiles if need be
    ours: list[float] = []
    theirs: list[float] = []
    simulated = {}
    for _ in range(REPETITIONS):
        simulation = Simulation(scenario)
        start = time.perf_counter()
        simulation.run_until(SECONDS)
        taken = time.perf_counter() - start
        received = int(simulation.state.consumers["arrivals"].sum())
        ours.append(received / taken)
        simulated["simulator"] = received / SECONDS
        random.seed(1)
        peer = Peer(built)
        start = time.perf_counter()
        peer.env.run(until=PEER_SECONDS)
        theirs.append(peer.received / (time.perf_counter() - start))
        simulated["simpy"] = peer.received / PEER_SECONDS
    ratio = spread(ours)["median"] / spread(theirs)["median"]
    return {
        "simulator_per_second": spread(ours),
        "simpy_per_second": spread(theirs),
        "per_simulated_second": simulated,  # alike: they run the same model
        "ratio": ratio,
        "wanted": WANTED,
        "met": ratio >= WANTED,
    }
