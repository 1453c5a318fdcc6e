"""Reads the metrics of a simulation: what happened since they were last read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simulator.engine.latency_bins import BINS
from simulator.metrics import (
    BrokerMetrics,
    ConsumerMetrics,
    Latency,
    Metrics,
    PublisherMetrics,
    QueueMetrics,
)

if TYPE_CHECKING:
    from simulator.simulation import ConsumerTotals, Simulation


PUBLISHED = ("published", "late", "confirmed", "refused", "confirm_time")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Copies of all counters at an instant."""

    time: float
    clock: Any
    queues: Any
    lengths: npt.NDArray[Any]  # integral of each length over time
    totals: dict[str, ConsumerTotals]
    consumers: Any
    publishers: dict[str, npt.NDArray[Any]]  # sums of PUBLISHED, and the time blocked
    latencies: Any
    bins: Any


class Meter:
    """Reads the metrics of a simulation, each time for the interval since the last reading."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._before = self._snapshot()

    def read(self) -> Metrics:
        """The metrics since the last reading, or since the meter was made."""
        before, after = self._before, self._snapshot()
        self._before = after
        interval = after.time - before.time
        state = self.simulation.state
        counted = (after.bins - before.bins).reshape(-1, BINS)
        noted = after.latencies["count"] - before.latencies["count"]
        sums = after.latencies["sum"] - before.latencies["sum"]

        def of_queue(row: int) -> Any:
            queue = state.queues[row]
            return np.arange(queue["first_pair"], queue["first_pair"] + queue["pairs"])

        def latency(rows: Any) -> Latency:
            count = int(noted[rows].sum())
            mean = float(sums[rows].sum()) / count if count else float("nan")
            return Latency(count, mean, counted[rows].sum(axis=0))

        types = self.simulation.types
        return Metrics(
            time=after.time,
            interval=interval,
            queues={
                queue.name: _queue(before, after, row, interval, latency(of_queue(row)))
                for row, queue in enumerate(self.simulation.scenario.queues)
            },
            consumers={
                name: self._consumer(index, name, before, after, interval)
                for index, name in enumerate(after.totals)
            },
            publishers={
                name: self._publishers(name, before, after, interval) for name in after.publishers
            },
            types={
                name: latency(np.flatnonzero(state.pairs == type_))
                for type_, name in enumerate(types)
            },
            broker=_broker(before, after, interval),
            chains={
                types[type_]: latency(np.array([row]))
                for type_, row in self.simulation.chain_rows.items()
            },
        )

    def _consumer(
        self, index: int, name: str, before: _Snapshot, after: _Snapshot, interval: float
    ) -> ConsumerMetrics:
        new, row = after.totals[name], after.consumers[index]
        old = before.totals.get(name)  # None if it has joined since

        def grew(key: str) -> float:
            return float(getattr(new, key) - (0 if old is None else getattr(old, key)))

        def counted(key: str) -> int:
            return int(row[key]) - (0 if old is None else int(before.consumers[index][key]))

        return ConsumerMetrics(
            prefetch=float(row["wanted_prefetch"]),
            arrival_rate=_per(grew("arrivals"), interval),
            in_flight=_per(grew("in_flight_time"), interval),
            buffer_time=_per(grew("buffer_time"), grew("arrivals")),
            work_time=_per(grew("work_time"), grew("finished")),
            utilisation=_per(grew("busy_time"), interval * int(row["handlers"])),
            starved=_per(grew("starved_time"), interval),
            failures=counted("failed"),
            crashes=counted("crashes"),
            lost=counted("lost"),
        )

    def _publishers(
        self, name: str, before: _Snapshot, after: _Snapshot, interval: float
    ) -> PublisherMetrics:
        grown = after.publishers[name] - before.publishers.get(name, 0.0)
        sent, late, confirmed, refused, waited, blocked = grown.tolist()
        count = len(self.simulation.publisher_rows(name))
        return PublisherMetrics(
            publish_rate=_per(sent, interval),
            confirm_rate=_per(confirmed, interval),
            refuse_rate=_per(refused, interval),
            confirm_time=_per(waited, confirmed + refused),
            blocked=_per(blocked, interval * count),
            late=_per(late, sent),
        )

    def _snapshot(self) -> _Snapshot:
        simulation = self.simulation
        state, now = simulation.state, simulation.now
        queues = state.queues.copy()
        lengths = queues["length_time"] + queues["length"] * (now - queues["since"])
        publishers = {}
        for name in simulation.publishers:
            rows = simulation.publisher_rows(name)
            waits = rows["blocked_time"] + np.where(rows["blocked"], now - rows["since"], 0.0)
            publishers[name] = np.array([*(rows[key].sum() for key in PUBLISHED), waits.sum()])
        return _Snapshot(
            time=now,
            clock=state.clock[0].copy(),
            queues=queues,
            lengths=lengths,
            totals={name: simulation.totals(name) for name in simulation.consumers},
            consumers=state.consumers.copy(),
            publishers=publishers,
            latencies=state.latencies.copy(),
            bins=state.bins.copy(),
        )


def _per(amount: float, of: float) -> float:
    """``amount / of``, or nan if ``of`` is 0."""
    return float(amount) / of if of else float("nan")


def _queue(
    before: _Snapshot, after: _Snapshot, row: int, interval: float, latency: Latency
) -> QueueMetrics:
    old, new = before.queues[row], after.queues[row]

    def rate(key: str) -> float:
        return _per(int(new[key]) - int(old[key]), interval)

    return QueueMetrics(
        length=int(new["length"]),
        mean_length=_per(after.lengths[row] - before.lengths[row], interval),
        growth=rate("length"),
        memory=int(new["bytes"]),
        publish_rate=rate("published"),
        deliver_rate=rate("delivered"),
        acknowledge_rate=rate("acknowledged"),
        redeliver_rate=rate("returned"),
        drop_rate=rate("dropped"),
        expire_rate=rate("expired"),
        reject_rate=rate("rejected"),
        dead_letter_rate=rate("dead_lettered"),
        latency=latency,
    )


def _broker(before: _Snapshot, after: _Snapshot, interval: float) -> BrokerMetrics:
    cores = int(after.clock["cores"])

    def busy(key: str) -> float:
        return float(after.clock[key]) - float(before.clock[key])

    return BrokerMetrics(
        core_utilisation=_per(busy("core_time"), interval * cores) if cores else 0.0,
        disk_utilisation=_per(busy("disk_time"), interval),
        memory=int(after.clock["bytes"]),
    )
