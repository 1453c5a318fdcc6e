"""A run on a real broker, from the notes of its clients, in the form of a simulated run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.engine.latency_bins import edges
from simulator.metrics import Latency
from simulator.studies.specjms.build import Workload
from simulator.studies.specjms.flow import LAST_TYPES, base_type
from simulator.studies.specjms.phased_run import Run, by_base_type, first_types

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Observed:
    """What clients noted; times are in seconds from the start of the run.

    ``starts`` has the times at which each driver started an interaction, ``late`` those that were
    late, ``sent`` the times by type and routing key. ``received``, by queue and type, has a row for
    every message: when it was sent, when its interaction started, when it was received.
    ``waiting`` is the number of messages in each queue before the run.
    """

    starts: Mapping[str, Sequence[float]]
    late: Mapping[str, Sequence[float]]
    sent: Mapping[tuple[str, str], Sequence[float]]
    received: Mapping[tuple[str, str], Times]
    waiting: Mapping[str, int]


def observed_run(workload: Workload, noted: Observed) -> Run:
    """The run, for the audit and the report."""
    phases, drivers = workload.phases, workload.drivers
    measured = _Measured(phases.warm_up, phases.end, noted)
    started, late = (
        {i: sum(measured.count(times.get(name, ())) for name in drivers[i]) for i in drivers}
        for times in (noted.starts, noted.late)
    )
    return Run(
        workload,
        phases.measurement,
        started,
        by_base_type({place: measured.count(times) for place, times in noted.sent.items()}),
        by_base_type(
            {(type_, queue): len(measured.of(queue, type_)) for queue, type_ in noted.received}
        ),
        {queue: latency(measured.delivery_times(queue)) for queue in workload.queues},
        {number: latency(measured.completion_times(number, workload)) for number in drivers},
        {number: late[number] / started[number] if started[number] else 1.0 for number in drivers},
        noted.waiting,
        {queue: _missed(queue, places, noted) for queue, places in workload.queues.items()},
        None,
        None,
    )


def latency(seconds: Times) -> Latency:
    """Latencies from times in seconds, in the simulator's bins."""
    limits = edges()
    counts, _ = np.histogram(np.clip(seconds, 0.0, limits[-1]), limits)
    mean = float(seconds.mean()) if seconds.size else float("nan")
    return Latency(int(seconds.size), mean, counts)


@dataclass(frozen=True)
class _Measured:
    """The notes from ``begin`` to ``end``."""

    begin: float
    end: float
    noted: Observed

    def count(self, times: Sequence[float]) -> int:
        return sum(self.begin <= time < self.end for time in times)

    def of(self, queue: str, type_: str) -> Times:
        """The rows of messages received."""
        rows = self.noted.received[queue, type_]
        return rows[(self.begin <= rows[:, 2]) & (rows[:, 2] < self.end)]

    def delivery_times(self, queue: str) -> Times:
        return self._times([place for place in self.noted.received if place[0] == queue], 0)

    def completion_times(self, interaction: int, workload: Workload) -> Times:
        """Times from the first message to the last; with several receivers, to each of them."""
        first = first_types(workload)[workload.drivers[interaction][0]]
        last = LAST_TYPES.get(interaction, base_type(first))
        return self._times([each for each in self.noted.received if base_type(each[1]) == last], 1)

    def _times(self, places: Sequence[tuple[str, str]], since: int) -> Times:
        """Seconds to the receipt of each message from what the column ``since`` holds."""
        found = [self.of(*place) for place in places]
        return np.concatenate([np.empty(0), *(rows[:, 2] - rows[:, since] for rows in found)])


def _missed(queue: str, places: Sequence[tuple[str, str]], noted: Observed) -> int:
    sent = sum(len(noted.sent.get(place, ())) for place in places)
    return sent - sum(len(rows) for (where, _), rows in noted.received.items() if where == queue)
