"""SPECjms2007 on a live broker: the scenario of the simulator as a plan for real clients.

Locations of one kind (all supermarkets, say) share a process, and each kind has its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from controlmq.measure.flows import Driver, Location, Notes, Outgoing, Plan, Receiver, run_flows

if TYPE_CHECKING:
    from array import array

    from simulator import Consumer, Publishers
    from simulator.scenario.distributions import Size
    from simulator.studies.specjms import Option, Run, Workload
    from simulator.studies.specjms.observed import Observed
    from simulator.studies.specjms.progress import Progress


def run_live(
    url: str, workload: Workload, seed: int = 0, watch: Callable[[Progress], None] | None = None
) -> Run:
    """Run all phases of a workload on the broker at ``url``; ``watch`` gets its progress."""
    from simulator.studies.specjms.observed import observed_run

    progress = None if watch is None else partial(_tell, watch, workload)
    return observed_run(workload, observed(run_flows(url, plan_of(workload, seed), progress)))


def _tell(
    watch: Callable[[Progress], None],
    workload: Workload,
    seconds: float,
    sent: Mapping[tuple[str, str], int],
    received: Mapping[tuple[str, str], int],
) -> None:
    from simulator.studies.specjms.progress import noted_progress

    watch(noted_progress(workload, seconds, sent, received))


def plan_of(workload: Workload, seed: int = 0, *, together: bool = False) -> Plan:
    """Who sends, receives and answers what, with unique names on the broker.

    Receivers do no work. With all locations ``together`` in one process none waits for a core
    that another uses, which at a few messages/second is most of the waiting there is.
    """
    scenario, phases = workload.scenario, workload.phases
    drivers: dict[str, list[Driver]] = {}
    receivers: dict[str, list[Receiver]] = {}
    for group in scenario.publishers:
        times = tuple(phases.times(group.every, f"{seed} {group.name}"))
        driver = Driver(group.name, _first(group), times)
        drivers.setdefault(workload.locations[group.name], []).append(driver)
    for consumer in scenario.consumers:
        receiver = _receiver(consumer, workload.options)
        receivers.setdefault(workload.locations[consumer.name], []).append(receiver)
    processes: dict[str, list[Location]] = {}
    for name in dict.fromkeys(workload.locations.values()):
        location = Location(name, drivers.get(name, []), receivers.get(name, []))
        kind = "all" if together else name.rstrip("0123456789")
        processes.setdefault(kind, []).append(location)
    return Plan(
        f"controlmq-specjms-{uuid.uuid4().hex[:8]}.",
        {queue.name: queue.durable for queue in scenario.queues},
        {exchange.name: exchange.kind for exchange in scenario.exchanges},
        [(each.exchange, each.queue, each.routing_key) for each in scenario.bindings],
        workload.queues,
        processes,
        phases.end,
        phases.drain,
    )


def observed(notes: Notes) -> Observed:
    """Notes in seconds from the start of the run."""
    import numpy as np

    from simulator.studies.specjms.observed import Observed

    def since(times: array[float]) -> list[float]:
        return [time - notes.began for time in times]

    return Observed(
        {name: since(times) for name, times in notes.starts.items()},
        {name: since(times) for name, times in notes.late.items()},
        {place: since(times) for place, times in notes.sent.items()},
        {
            place: np.asarray(times).reshape(-1, 3) - notes.began
            for place, times in notes.received.items()
        },
        notes.waiting,
    )


def _first(group: Publishers) -> Outgoing:
    """What starts an interaction."""
    (message,) = group.messages
    return Outgoing(
        str(message.type),
        group.exchange or "",
        message.routing_key,
        _sizes(message.size),
        message.persistent,
        group.confirms is not None,
    )


def _receiver(consumer: Consumer, options: Mapping[str, Option]) -> Receiver:
    from simulator.studies.specjms.flow import base_type

    answers: dict[str, list[Outgoing]] = {}
    for send in consumer.sends:
        answer = Outgoing(
            str(send.type),
            send.exchange,
            send.routing_key,
            _sizes(send.size),
            send.persistent,
            options[base_type(str(send.type))].delivery.transactional,
        )
        answers.setdefault(str(send.on), []).append(answer)
    late = consumer.acknowledge == "after-processing"
    return Receiver(consumer.queue, round(consumer.prefetch), late, answers)


def _sizes(size: int | Size) -> Sequence[int]:
    """A cycle of them, in bytes."""
    if isinstance(size, int):
        return [size]
    assert size.values is not None
    return [round(value) for value in size.values]
