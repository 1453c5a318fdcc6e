"""Metrics of an interval, as RabbitMQ users know them: rates, lengths, latencies, utilisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from simulator.engine.latency_bins import quantile

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}
"""The percentiles of a latency that recordings keep and tables show, by name."""


class _Percentile:
    """A percentile of a latency as its attribute."""

    def __init__(self, percent: float) -> None:
        self.percent = percent

    def __get__(self, latency: Latency, owner: type) -> float:
        return latency.percentile(self.percent)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the publisher to the business logic of the ``count`` messages handed to it.

    ``mean`` is exact, nan without messages; percentiles are exact to about 1.5 %.
    """

    count: int
    mean: float
    counts: npt.NDArray[Any] = field(repr=False)

    def percentile(self, percent: float) -> float:
        """The latency below which ``percent`` % of the messages stayed."""
        return quantile(self.counts, percent / 100)

    p50, p90, p99, p999 = map(_Percentile, PERCENTILES.values())


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """A queue: rates in messages/second, ``length`` and ``growth`` at the end of the interval.

    ``mean_length`` is over time. ``memory`` is in bytes, messages in flight included.
    """

    length: int
    mean_length: float
    growth: float
    memory: int
    publish_rate: float
    deliver_rate: float
    acknowledge_rate: float
    redeliver_rate: float
    drop_rate: float
    expire_rate: float
    reject_rate: float
    dead_letter_rate: float
    latency: Latency


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """A consumer: its prefetch, messages/second handed to its handlers, mean number in flight.

    ``buffer_time`` and ``work_time`` are mean seconds per message. ``utilisation`` is the share of
    time that its handlers were busy; ``starved`` is the share of time that its window had room
    and the queue was empty.
    """

    prefetch: float
    arrival_rate: float
    in_flight: float
    buffer_time: float
    work_time: float
    utilisation: float
    starved: float
    failures: int
    crashes: int
    lost: int


@dataclass(frozen=True, slots=True)
class PublisherMetrics:
    """A group of publishers: messages/second, and the share of time each was blocked.

    ``confirm_time`` is the mean number of seconds from sending a message to its confirm. ``late``
    is the share of messages that were sent later than they were due.
    """

    publish_rate: float
    confirm_rate: float
    refuse_rate: float
    confirm_time: float
    blocked: float
    late: float


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """The broker: how busy its cores and its disk were, as shares, and the bytes in all queues."""

    core_utilisation: float
    disk_utilisation: float
    memory: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """One interval that ended at ``time`` and was ``interval`` seconds long.

    ``chains`` has the types that consumers pass on, with the time since the first message of each
    chain was published.
    """

    time: float
    interval: float
    queues: dict[str, QueueMetrics]
    consumers: dict[str, ConsumerMetrics]
    publishers: dict[str, PublisherMetrics]
    types: dict[str, Latency]
    broker: BrokerMetrics
    chains: dict[str, Latency]
