"""Builds SPECjms2007 as a scenario for the simulator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from random import Random

from controlmq.checks import above_zero
from simulator.scenario import checks
from simulator.scenario.broker import Broker
from simulator.scenario.changes import Change
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import Duration
from simulator.scenario.exchanges import Binding, Exchange
from simulator.scenario.links import Link
from simulator.scenario.messages import Message, Send
from simulator.scenario.publishers import Publishers
from simulator.scenario.queues import Queue
from simulator.scenario.scenario import Scenario
from simulator.studies.specjms.expected import Expected, expected
from simulator.studies.specjms.flow import Answer, Flow, Start, base_type
from simulator.studies.specjms.message_types import BY_NAME
from simulator.studies.specjms.options import Option, options
from simulator.studies.specjms.topology import Topology

PACINGS = ("deterministic", "exponential")

ASSUMED_BROKER = Broker(
    cores=8,
    publish=60e-6,
    copy=20e-6,
    enqueue=20e-6,
    deliver=40e-6,
    acknowledge=20e-6,
    per_byte=2e-9,
    disk_write=0.3e-3,
    disk_per_byte=1e-8,
)
"""A broker of about today's speed. Its costs are assumptions; calibrate your own."""


@dataclass(frozen=True)
class Phases:
    """Seconds of each phase: the rate ramps up from 0, is measured, and messages drain."""

    warm_up: float = 10.0
    measurement: float = 300.0
    drain: float = 30.0

    def __post_init__(self) -> None:
        for key in ("warm_up", "measurement", "drain"):
            checks.seconds(key, above_zero(key, getattr(self, key)))

    @property
    def end(self) -> float:
        """When publishers stop."""
        return self.warm_up + self.measurement

    @property
    def schedule(self) -> tuple[Change, ...]:
        """The changes of every publisher's rate."""
        # A schedule begins at a factor of 1, so the ramp from 0 begins an instant later.
        ramp = Change(1e-9, 1.0, over=self.warm_up - 1e-9)
        return Change(0.0, 0.0), ramp, Change(self.end, 0.0)

    def at(self, time: float) -> str:
        """The phase of a run at ``time``."""
        if time < self.warm_up:
            return "warm-up"
        return "measurement" if time < self.end else "drain"

    def at_full_rate(self, time: float) -> float:
        """Seconds at the full rate that give as many messages as the schedule by ``time``."""
        ramped = min(time, self.warm_up)
        return ramped**2 / (2 * self.warm_up) + max(min(time, self.end) - self.warm_up, 0.0)

    def times(self, every: Duration, seed: str) -> Iterator[float]:
        """The times at which a driver starts interactions under this schedule.

        ``every`` is deterministic or exponential. The driver begins at a random point of its cycle.
        """
        draw = Random(seed)
        assert every.mean is not None
        full = draw.random() * every.mean
        while True:
            # `full` seconds at the full rate take longer during the ramp.
            ramped = sqrt(2 * self.warm_up * full)
            time = ramped if ramped < self.warm_up else full + self.warm_up / 2
            if time >= self.end:
                return
            yield time
            exponential = every.distribution == "exponential"
            full += draw.expovariate(1 / every.mean) if exponential else every.mean


@dataclass(frozen=True)
class Deployment:
    """Where the workload runs: the broker, the link to it, and the receivers.

    A receiver spends ``work`` seconds on a message and its client ``overhead`` more; it has
    ``handlers`` threads and a prefetch of ``prefetch``. Drivers, which start interactions, may have
    a link of their own, ``driving``.

    With ``write_first`` a persistent message is written to disk before it is delivered. RabbitMQ's
    classic queues do not wait for the write if a consumer is ready.
    """

    broker: Broker | None = ASSUMED_BROKER
    link: Link = field(default_factory=lambda: Link("network", 0.4e-3, bytes_per_second=125e6))
    driving: Link | None = None
    write_first: bool = True
    work: float = 0.1e-3
    overhead: float = 0.0
    handlers: int = 1
    prefetch: float = 20.0


@dataclass(frozen=True)
class Workload:
    """A scenario, with what an audit compares its run with.

    ``queues`` has the types and routing keys that every queue should receive, ``drivers`` the
    groups of publishers of each interaction, ``locations`` the location of each publisher and
    consumer, ``options`` how each type is sent.
    """

    scenario: Scenario
    topology: Topology
    phases: Phases
    expected: Expected
    queues: Mapping[str, list[tuple[str, str]]]
    drivers: Mapping[int, list[str]]
    locations: Mapping[str, str]
    options: Mapping[str, Option]

    def expected_counts(self, interaction: int, seconds: float) -> tuple[float, float, float]:
        """Interactions started, their messages sent and received, in ``seconds`` at full rate."""
        sent, received = self.expected.of_interaction(interaction)
        starts = self.topology.starts[interaction - 1]
        return starts * seconds, sent * seconds, received * seconds


def workload(
    topology: Topology,
    phases: Phases | None = None,
    deployment: Deployment | None = None,
    *,
    pacing: str = "deterministic",
    types: Mapping[str, Option] | None = None,
) -> Workload:
    """SPECjms2007 of a topology; ``types`` changes how some types are sent (jms2009-PS)."""
    checks.choice("pacing", pacing, PACINGS)
    phases = phases or Phases()
    return _Builder(topology, phases, deployment or Deployment(), pacing, options(types)).workload()


def queue_name(location: str, type_: str) -> str:
    """The queue in which a location receives a type."""
    return f"{location}.{base_type(type_)}"


@dataclass
class _Builder:
    topology: Topology
    phases: Phases
    deployment: Deployment
    pacing: str
    options: Mapping[str, Option]

    def __post_init__(self) -> None:
        self.flow = Flow(self.topology)
        self.answers: dict[tuple[str, str], list[Answer]] = {}
        for answer in self.flow.answers:
            self.answers.setdefault((answer.location, base_type(answer.on)), []).append(answer)
        self.turn = itertools.count()
        self.bindings: dict[tuple[str, str, str], Binding] = {}
        self.addressed: dict[str, set[tuple[str, str]]] = {}

    def workload(self) -> Workload:
        starts = self.flow.starts
        publishers = [self._publishers(start) for start in starts]
        received = self.flow.destinations()
        consumers = [self._consumer(location, type_) for location, type_ in received]
        scenario = Scenario(
            f"SPECjms2007 {self.topology.name}",
            1.0,
            publishers,
            [self._queue(location, type_) for location, type_ in received],
            consumers,
            list(dict.fromkeys([self.deployment.link, self._driving])),
            self._exchanges(),
            list(self.bindings.values()),
            self.deployment.broker,
        )
        drivers: dict[int, list[str]] = {}
        for start, group in zip(starts, publishers, strict=True):
            drivers.setdefault(start.interaction, []).append(group.name)
        return Workload(
            scenario,
            self.topology,
            self.phases,
            expected(self.topology),
            {queue: sorted(sent) for queue, sent in self.addressed.items()},
            drivers,
            {group.name: start.sender for start, group in zip(starts, publishers, strict=True)}
            | {queue_name(location, type_): location for location, type_ in received},
            self.options,
        )

    @property
    def _driving(self) -> Link:
        return self.deployment.driving or self.deployment.link

    def _publishers(self, start: Start) -> Publishers:
        type_ = base_type(start.type)
        delivery = self.options[type_].delivery
        exchange, key = self._address(start.type, start.to)
        size = BY_NAME[type_].drawn(next(self.turn))
        return Publishers(
            f"{start.sender} {start.type}",
            every=Duration(1 / start.rate, self.pacing),
            exchange=exchange or None,
            messages=[Message(key, start.type, size=size, persistent=delivery.persistent)],
            confirms=1 if delivery.transactional else None,
            link=self._driving.name,
            schedule=self.phases.schedule,
        )

    def _address(self, type_: str, to: tuple[str, ...]) -> tuple[str, str]:
        """The exchange and routing key with which a type reaches these locations."""
        name = base_type(type_)
        queues = [queue_name(location, type_) for location in to]
        exchange, key = "", queues[0]
        if self.options[name].delivery.topic:
            exchange, key = self._exchange(name, to[0]), f"{name}.{self._addressees(to)}"
            for queue in queues:
                self.bindings[exchange, queue, key] = Binding(exchange, queue, key)
        for queue in queues:
            self.addressed.setdefault(queue, set()).add((type_, key))
        return exchange, key

    def _exchanges(self) -> list[Exchange]:
        """Fanout exchanges, and topic exchanges where subscribers get only some messages."""
        keys: dict[str, set[str]] = {}
        for exchange, _, key in self.bindings:
            keys.setdefault(exchange, set()).add(key)
        return [
            Exchange(name, "fanout" if len(sent) == 1 else "topic") for name, sent in keys.items()
        ]

    def _addressees(self, to: tuple[str, ...]) -> str:
        # A routing key has 255 bytes at most, and there may be hundreds of supermarkets.
        return "all" if to == tuple(self.flow.shops) and len(to) > 1 else "+".join(to)

    def _exchange(self, name: str, location: str) -> str:
        return {
            "location-and-type": f"{location}/{name}",
            "type": name,
            "interaction": f"interaction {BY_NAME[name].interaction}",
            "location-type": location.rstrip("0123456789"),
            "location": location,
            "central": "central",
        }[self.options[name].destination]

    def _queue(self, location: str, type_: str) -> Queue:
        delivery = self.options[type_].delivery
        write_first = self.deployment.write_first and delivery.persistent and delivery.durable
        name = queue_name(location, type_)
        return Queue(name, durable=delivery.durable, write_before_delivery=write_first)

    def _consumer(self, location: str, type_: str) -> Consumer:
        late = self.options[type_].delivery.transactional
        return Consumer(
            queue_name(location, type_),
            queue_name(location, type_),
            Duration(self.deployment.work),
            handlers=self.deployment.handlers,
            overhead=self.deployment.overhead,
            link=self.deployment.link.name,
            prefetch=self.deployment.prefetch,
            acknowledge="after-processing" if late else "on-receipt",
            sends=[self._send(answer) for answer in self.answers.get((location, type_), [])],
        )

    def _send(self, answer: Answer) -> Send:
        type_ = base_type(answer.type)
        exchange, key = self._address(answer.type, (answer.to,))
        return Send(
            key,
            exchange=exchange,
            on=answer.on,
            type=answer.type,
            size=BY_NAME[type_].drawn(next(self.turn)),
            persistent=self.options[type_].delivery.persistent,
        )
