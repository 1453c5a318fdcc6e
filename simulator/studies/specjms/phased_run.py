"""Runs SPECjms2007 in its phases (warm-up, measurement, drain) and counts its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from simulator.meter import Meter
from simulator.metrics import Latency, Metrics
from simulator.simulation import Simulation
from simulator.studies.specjms.build import Workload
from simulator.studies.specjms.flow import LAST_TYPES, base_type
from simulator.studies.specjms.message_types import TYPES, of_interaction

WATCHED_EVERY_SECONDS = 1.0
"""Simulated time between two calls of ``watch``, and so the longest wait for Ctrl-C."""


@dataclass(frozen=True)
class Run:
    """What a run counted.

    In the measurement phase, which is ``seconds`` long: interactions ``started``, messages ``sent``
    and ``received`` by type, the delivery times of every queue, and for every interaction the time
    from its start to its last message and the share of starts that were ``late``. Over all phases:
    messages ``waiting`` in each queue at the start, and the number of messages sent to each queue
    that it ``missed``. The utilisations of a real broker are not known and are None.
    """

    workload: Workload
    seconds: float
    started: Mapping[int, int]
    sent: Mapping[str, int]
    received: Mapping[str, int]
    deliveries: Mapping[str, Latency]
    completions: Mapping[int, Latency]
    late: Mapping[int, float]
    waiting: Mapping[str, int]
    missed: Mapping[str, int]
    core_utilisation: float | None
    disk_utilisation: float | None

    @property
    def interactions(self) -> list[int]:
        """The interactions of the workload."""
        return sorted(self.workload.drivers)

    def counted(self, interaction: int) -> tuple[int, int]:
        """Messages of an interaction sent and received."""
        return of_interaction(self.sent, interaction), of_interaction(self.received, interaction)


def run(
    workload: Workload,
    seed: int = 0,
    simulation: Simulation | None = None,
    watch: Callable[[Simulation], None] = lambda simulation: None,
) -> Run:
    """Run all phases of a workload, in a new simulation of its scenario or in the one given.

    ``watch`` is called after every simulated second and at the end of every phase.
    """
    simulation = simulation or Simulation(workload.scenario, seed)

    def advance(end: float) -> None:
        while simulation.now < end:
            simulation.run_until(min(simulation.now + WATCHED_EVERY_SECONDS, end))
            watch(simulation)

    phases, drivers = workload.phases, workload.drivers
    waiting = _waiting(simulation)
    whole, sent_before = Meter(simulation), simulation.sent
    advance(phases.warm_up)
    measured, at_begin = Meter(simulation), simulation.sent
    advance(phases.end)
    metrics, at_end = measured.read(), simulation.sent
    advance(phases.end + phases.drain)
    sent, received = simulation.sent, whole.read().queues
    return Run(
        workload,
        phases.measurement,
        {i: round(_total(metrics, names)) for i, names in drivers.items()},
        by_base_type({name: at_end[name] - at_begin[name] for name in at_end}),
        by_base_type({(name, ""): each.count for name, each in metrics.types.items()}),
        {name: queue.latency for name, queue in metrics.queues.items()},
        _completions(metrics, workload),
        {i: _late(metrics, names) for i, names in drivers.items()},
        waiting,
        {
            queue: sum(sent[place] - sent_before[place] for place in places)
            - received[queue].latency.count
            for queue, places in workload.queues.items()
        },
        metrics.broker.core_utilisation,
        metrics.broker.disk_utilisation,
    )


def _waiting(simulation: Simulation) -> dict[str, int]:
    """Messages in each queue, including those delivered and not acknowledged."""
    consumers = simulation.state.consumers
    names = [queue.name for queue in simulation.scenario.queues]
    held = np.bincount(consumers["queue"], consumers["in_flight"], minlength=len(names))
    lengths = simulation.state.queues["length"]
    return {name: int(lengths[row] + held[row]) for row, name in enumerate(names)}


def by_base_type(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Counts by type and another key, added up by the type of SPECjms2007."""
    sums = {each.name: 0 for each in TYPES}
    for (name, _), count in counts.items():
        if base_type(name) in sums:
            sums[base_type(name)] += count
    return sums


def _total(metrics: Metrics, groups: list[str]) -> float:
    return sum(metrics.publishers[name].publish_rate * metrics.interval for name in groups)


def _late(metrics: Metrics, groups: list[str]) -> float:
    """The share of late starts of several drivers; 1 if none started at all."""
    starts = {name: metrics.publishers[name].publish_rate for name in groups}
    late = sum(starts[name] * metrics.publishers[name].late for name in groups if starts[name])
    total = sum(starts.values())
    return late / total if total else 1.0


def _completions(metrics: Metrics, workload: Workload) -> dict[int, Latency]:
    """Times from the start of each interaction to its last message, to all its receivers."""
    first = first_types(workload)
    return {
        number: metrics.chains[LAST_TYPES[number]]
        if number in LAST_TYPES
        else metrics.types[first[groups[0]]]
        for number, groups in workload.drivers.items()
    }


def first_types(workload: Workload) -> dict[str, str]:
    """The type with which each driver starts an interaction."""
    return {
        group.name: str(message.type)
        for group in workload.scenario.publishers
        for message in group.messages
    }
