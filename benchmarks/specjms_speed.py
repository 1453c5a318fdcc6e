"""SPECjms2007 on this simulator beside SimPy, same model: messages received per wall second.

SimPy runs it as its tutorial teaches: a process for every message, stores for queues, resources
for what is shared. Both simulate 300 seconds of vertical BASE 45 and take turns. Nothing in it is
left to chance: drivers begin when ours do and sizes come in the same order, so that delivery times
of every type of message have to be alike, too.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measure import spread
from simulator import Broker, Consumer, Link, Meter, Scenario, Simulation
from simulator.engine.latency_bins import quantile
from simulator.metrics import Latency
from simulator.studies.specjms import Phases, vertical, workload
from simulator.studies.specjms.flow import base_type
from simulator.studies.specjms.observed import latency

BASE, SECONDS = 45, 300.0
REPETITIONS = 3
LEAST_SPEEDUP = 30
MOST_DIFFERENCE_PERCENT = 1.0
"""Percent that counts and delivery times of a type may differ by between the two."""

FOR_CONSUMERS, FOR_PUBLISHERS = 0, 1
"""Of its jobs a queue does those for consumers first, as RabbitMQ's queues do."""

Process = Generator[Any, Any, None]


class Line:
    """One way of a connection: what is sent on it leaves one after the other, and arrives later."""

    def __init__(self, env: Any, link: Link) -> None:
        self.env, self.delay, self.free = env, link.round_trip / 2, 0.0
        self.seconds_per_byte = 1 / link.bytes_per_second if link.bytes_per_second else 0.0

    def carry(self, size: int) -> Any:
        """A message is at the other end."""
        self.free = max(self.free, self.env.now) + size * self.seconds_per_byte
        return self.env.timeout(self.free + self.delay - self.env.now)


class Disk:
    """Writes all that waits for it at once; what comes meanwhile waits for the next time."""

    def __init__(self, env: Any, broker: Broker) -> None:
        self.env, self.broker = env, broker
        self.waiting: list[tuple[int, Any]] = []
        self.writing = False

    def written(self, size: int) -> Any:
        """A message is on disk."""
        done = self.env.event()
        self.waiting.append((size, done))
        if not self.writing:
            self.writing = True
            self.env.process(self.write())
        return done

    def write(self) -> Process:
        """One batch after the other while there is something to write."""
        while self.waiting:
            batch, self.waiting = self.waiting, []
            size = sum(size for size, _ in batch)
            yield self.env.timeout(self.broker.disk_write + size * self.broker.disk_per_byte)
            for _, done in batch:
                done.succeed()
        self.writing = False


class Client:
    """A publisher's or consumer's connection: its line to the broker, and its process there."""

    def __init__(self, env: Any, link: Link) -> None:
        import simpy

        self.line = Line(env, link)
        self.process = simpy.Resource(env, 1)


class Peer:
    """A SPECjms workload in SimPy: publishers, connections, cores, disk, queues, consumers.

    ``firsts`` says when each group of publishers sends its first message. The broker never stops
    publishers at this load, so that this part is not here.
    """

    def __init__(self, scenario: Scenario, firsts: Mapping[str, float]) -> None:
        import simpy

        self.env = simpy.Environment()
        self.broker = scenario.broker or Broker()
        self.cores = simpy.Resource(self.env, self.broker.cores)
        self.disk = Disk(self.env, self.broker)
        (self.link,) = scenario.links
        flows = scenario.message_paths()
        self.kinds, self.types = flows.kinds, flows.types
        self.sent = [0] * len(self.kinds)
        self.queues = [simpy.Store(self.env) for _ in scenario.queues]
        self.works = [simpy.PriorityResource(self.env, 1) for _ in scenario.queues]
        self.to_disk = [queue.write_before_delivery for queue in scenario.queues]
        self.taken: dict[str, list[float]] = {type_: [] for type_ in self.types}
        for group in scenario.publishers:
            (kind,) = flows.published[group.name]
            confirmed = group.confirms is not None
            self.env.process(self.publish(kind, firsts[group.name], group.every.mean, confirmed))
        names = [queue.name for queue in scenario.queues]
        for consumer in scenario.consumers:
            sends: dict[str, list[int]] = {}
            for send, kind in zip(consumer.sends, flows.sent[consumer.name], strict=True):
                sends.setdefault(send.on or "", []).append(kind)
            receiver = Receiver(self, names.index(consumer.queue), consumer, sends)
            self.env.process(receiver.consume())

    @property
    def received(self) -> int:
        """Messages that consumers have begun to work on."""
        return sum(map(len, self.taken.values()))

    def size(self, kind: int) -> int:
        """The next size of a kind of message, in bytes."""
        values = self.kinds[kind].message.size.values  # type: ignore[union-attr]
        assert values is not None
        self.sent[kind] += 1
        return round(values[(self.sent[kind] - 1) % len(values)])

    def publish(self, kind: int, first: float, every: float, confirmed: bool) -> Process:
        """Sends at its pace; with confirms it waits for the broker each time."""
        env, client = self.env, Client(self.env, self.link)
        yield env.timeout(first)
        while True:
            start = env.now
            sending = env.process(self.message(kind, client))
            if confirmed:
                yield sending
                yield env.timeout(self.link.round_trip / 2)
            yield env.timeout(max(start + every - env.now, 0.0))

    def use_core(self, turn: Any, seconds: float) -> Process:
        """A process of the broker works, when it is this thing's turn, on one of the cores."""
        with turn:
            yield turn
            with self.cores.request() as core:
                yield core
                yield self.env.timeout(seconds)

    def message(self, number: int, client: Client) -> Process:
        """From its sender to its queues."""
        broker, kind, sent = self.broker, self.kinds[number], self.env.now
        size = self.size(number)
        yield client.line.carry(size)
        cost = broker.publish + broker.per_byte * size + broker.copy * len(kind.targets)
        yield from self.use_core(client.process.request(), cost)
        entering = [self.env.process(self.enter(kind, queue, size, sent)) for queue in kind.targets]
        yield self.env.all_of(entering)

    def enter(self, kind: Any, queue: int, size: int, sent: float) -> Process:
        """Into one queue, by way of the disk if it is to be safe."""
        turn = self.works[queue].request(FOR_PUBLISHERS)
        yield from self.use_core(turn, self.broker.enqueue)
        if kind.message.persistent and self.to_disk[queue]:
            yield self.disk.written(size)
        yield self.queues[queue].put((self.types[kind.type], size, sent))


class Receiver:
    """A consumer: its window, its handlers and what follows from each message."""

    def __init__(
        self, peer: Peer, queue: int, consumer: Consumer, sends: dict[str, list[int]]
    ) -> None:
        import simpy

        self.peer, self.env, self.broker = peer, peer.env, peer.broker
        self.queue, self.works, self.sends = peer.queues[queue], peer.works[queue], sends
        self.on_receipt = consumer.acknowledge == "on-receipt"
        self.work = consumer.work.mean + consumer.overhead
        self.window = simpy.Container(self.env, init=int(consumer.prefetch))
        self.handlers = simpy.Resource(self.env, consumer.handlers)
        self.down, self.client = Line(self.env, peer.link), Client(self.env, peer.link)

    def consume(self) -> Process:
        """Takes messages while its window has room."""
        while True:
            yield self.window.get(1)
            message = yield self.queue.get()
            self.env.process(self.handle(*message))

    def handle(self, type_: str, size: int, sent: float) -> Process:
        """From the queue to the business logic, and what follows from it."""
        cost = self.broker.deliver + self.broker.per_byte * size
        yield from self.peer.use_core(self.works.request(FOR_CONSUMERS), cost)
        yield self.down.carry(size)
        if self.on_receipt:
            self.env.process(self.acknowledge())
        with self.handlers.request() as turn:
            yield turn
            self.peer.taken[type_].append(self.env.now - sent)
            yield self.env.timeout(self.work)
        for kind in self.sends.get(type_, ()):
            self.env.process(self.peer.message(kind, self.client))
        if not self.on_receipt:
            yield from self.acknowledge()

    def acknowledge(self) -> Process:
        """The broker hears of it, and the window has room again."""
        yield self.env.timeout(self.peer.link.round_trip / 2)
        yield from self.peer.use_core(self.works.request(FOR_CONSUMERS), self.broker.acknowledge)
        yield self.window.put(1)


def steady(scenario: Scenario) -> Scenario:
    """Without the phases of a run: at the full rate from the start."""
    return replace(
        scenario, publishers=[replace(each, schedule=()) for each in scenario.publishers]
    )


def by_type(found: Mapping[str, Latency]) -> dict[str, dict[str, float]]:
    """Messages of each type as SPECjms2007 calls it, median and mean milliseconds."""
    counts: dict[str, Any] = {}
    sums: dict[str, float] = {}
    for type_, each in found.items():
        name = base_type(type_)
        counts[name] = counts.get(name, 0) + np.asarray(each.counts)
        sums[name] = sums.get(name, 0.0) + (each.mean * each.count if each.count else 0.0)
    return {
        name: {
            "received": int(each.sum()),
            "median_ms": 1000 * quantile(each, 0.5),
            "mean_ms": 1000 * sums[name] / int(each.sum()),
        }
        for name, each in counts.items()
    }


def run() -> dict[str, Any]:
    scenario = steady(workload(vertical(BASE), Phases(10.0, SECONDS, 30.0)).scenario)
    Simulation(scenario).run_until(1.0)  # compiles if need be
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(REPETITIONS):
        simulation = Simulation(scenario)
        meter = Meter(simulation)
        firsts = {
            group.name: float(simulation.publisher_rows(group.name)["left"][0])
            for group in scenario.publishers
        }
        start = time.perf_counter()
        simulation.run_until(SECONDS)
        taken = time.perf_counter() - start
        received = int(simulation.state.consumers["arrivals"].sum())
        ours.append(received / taken)
        peer = Peer(scenario, firsts)
        start = time.perf_counter()
        peer.env.run(until=SECONDS)
        theirs.append(peer.received / (time.perf_counter() - start))
    ratio = spread(ours)["median"] / spread(theirs)["median"]
    return {
        "simulated_seconds": SECONDS,
        "simulator_per_second": spread(ours),
        "simpy_per_second": spread(theirs),
        "per_simulated_second": {
            "simulator": received / SECONDS,
            "simpy": peer.received / SECONDS,
        },
        "same_model": compared(
            by_type(meter.read().types),
            by_type({type_: latency(np.array(taken)) for type_, taken in peer.taken.items()}),
        ),
        "ratio": ratio,
        "ratio_of_our_slowest_to_their_fastest": min(ours) / max(theirs),
        "wanted": LEAST_SPEEDUP,
        "met": ratio >= LEAST_SPEEDUP,
    }


def compared(
    ours: dict[str, dict[str, float]], theirs: dict[str, dict[str, float]]
) -> dict[str, Any]:
    """Delivery times of every type in both."""
    off = {
        key: max(100 * abs(theirs[name][key] / ours[name][key] - 1) for name in ours)
        for key in ("received", "median_ms", "mean_ms")
    }
    return {
        "types": {name: {"simulator": ours[name], "simpy": theirs[name]} for name in sorted(ours)},
        "most_off_percent": off,
        "allowed_percent": MOST_DIFFERENCE_PERCENT,
        "met": max(off.values()) <= MOST_DIFFERENCE_PERCENT,
    }
