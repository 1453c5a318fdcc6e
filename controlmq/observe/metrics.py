"""The metrics of a consumer: their names, what they mean, and where a reading has them.

One table, from which Prometheus and OpenTelemetry are served alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from controlmq.observe.registry import Reading, Times

PREFIX = "controlmq_"

LABELS = ("queue", "consumer")
"""What every metric is told apart by."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of each consumer, or one for each value of ``label``.

    ``name`` is without the prefix, and for a counter without ``_total``. ``unit`` is in the
    notation of UCUM, as OpenTelemetry wants it.
    """

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    meaning: str
    value: Callable[[Reading], float | Mapping[str, float]]
    label: str = ""

    def values(self, reading: Reading) -> list[tuple[str, float]]:
        """The value for each value of ``label``, which is empty where there is none."""
        value = self.value(reading)
        return [*value.items()] if isinstance(value, Mapping) else [("", value)]

    @property
    def exposed_name(self) -> str:
        """The name in Prometheus."""
        return f"{PREFIX}{self.name}{'_total' if self.kind == 'counter' else ''}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram of times in seconds."""

    name: str
    meaning: str
    times: Callable[[Reading], Times]


COUNTERS = (
    Metric(
        *("messages_received", "counter", "{message}"),
        "Messages handed to the handler.",
        lambda reading: reading.received,
    ),
    Metric(
        *("messages_acknowledged", "counter", "{message}"),
        "Messages that the handler acknowledged, those whose ack is held included.",
        lambda reading: reading.acknowledged,
    ),
    Metric(
        *("messages_rejected", "counter", "{message}"),
        "Messages that the handler rejected or gave back.",
        lambda reading: reading.refused,
    ),
    Metric(
        *("messages_redelivered", "counter", "{message}"),
        "Received messages that the broker had delivered before.",
        lambda reading: reading.redelivered,
    ),
    Metric(
        *("samples", "counter", "{sample}"),
        "Turns of the control loop.",
        lambda reading: reading.samples,
    ),
    Metric(
        *("lane_requests", "counter", "{lane}"),
        "Lanes asked for, the first one included.",
        lambda reading: reading.lanes_asked,
    ),
    Metric(
        *("lane_refusals", "counter", "{lane}"),
        "Lanes that the broker refused.",
        lambda reading: reading.lanes_refused,
    ),
    Metric(
        *("controller_failures", "counter", "{failure}"),
        "Samples for which the controller failed to decide, so that the prefetch stayed.",
        lambda reading: reading.controller_failures,
    ),
    Metric(
        *("recorder_failures", "counter", "{failure}"),
        "Transitions that could not be recorded.",
        lambda reading: reading.record_failures,
    ),
)

GAUGES = (
    Metric(
        *("goal", "gauge", "1"),
        "The goal by kind: rate and at_most in messages per second, buffer_time in seconds.",
        lambda reading: reading.goals,
        label="kind",
    ),
    Metric(
        *("rate", "gauge", "{message}/s"),
        "Messages per second handed to the handler in the last sample.",
        lambda reading: reading.rate,
    ),
    Metric(
        *("prefetch", "gauge", "{message}"),
        "The prefetch in force, a real number of messages.",
        lambda reading: reading.prefetch,
    ),
    Metric(
        *("prefetch_limit", "gauge", "{message}"),
        "Between which the prefetch may move.",
        lambda reading: dict(zip(("low", "high"), reading.limits or (), strict=False)),
        label="limit",
    ),
    Metric(
        *("at_limit", "gauge", "1"),
        "1 where the prefetch is at this limit, else 0.",
        lambda reading: {
            limit: float(reading.at_limit == limit)
            for limit in (("low", "high") if reading.limits else ())
        },
        label="limit",
    ),
    Metric(
        *("open_slots", "gauge", "{message}"),
        "Messages that the broker may have on their way to the handler or in it.",
        lambda reading: reading.open_slots,
    ),
    Metric(
        *("granted_slots", "gauge", "{message}"),
        "Slots that the broker has: the open ones and those of held acks.",
        lambda reading: reading.granted,
    ),
    Metric(
        *("in_flight", "gauge", "{message}"),
        "Mean number of messages delivered and not acknowledged, in the last sample.",
        lambda reading: reading.in_flight,
    ),
    Metric(
        *("held_acks", "gauge", "{message}"),
        "Mean number of acks held back, in the last sample.",
        lambda reading: reading.held,
    ),
    Metric(
        *("held_acks_limit", "gauge", "{message}"),
        "Acks that may be held back at most.",
        lambda reading: reading.max_held,
    ),
    Metric(
        *("lanes", "gauge", "{lane}"),
        "Subscriptions at the broker of which the consumer is made.",
        lambda reading: reading.lanes,
    ),
    Metric(
        *("starved_ratio", "gauge", "1"),
        "Share of the last sample in which the window had room and the queue no message.",
        lambda reading: reading.starved,
    ),
    Metric(
        *("frozen_ratio", "gauge", "1"),
        "1 while the law stands still because the queue, not the window, sets the rate.",
        lambda reading: float(reading.frozen),
    ),
    Metric(
        *("law", "gauge", "1"),
        "1 for the law in force.",
        lambda reading: {reading.law: 1.0},
        label="law",
    ),
    Metric(
        *("kill_switch", "gauge", "1"),
        "1 while the kill switch holds the prefetch.",
        lambda reading: float(reading.switched_off),
    ),
    Metric(
        *("sample_interval_seconds", "gauge", "s"),
        "Length of the last sample.",
        lambda reading: reading.interval,
    ),
    Metric(
        *("last_sample_timestamp_seconds", "gauge", "s"),
        "When the last sample ended, in seconds since 1970.",
        lambda reading: reading.time,
    ),
)

METRICS = COUNTERS + GAUGES

DISTRIBUTIONS = (
    Distribution(
        "handler_time_seconds",
        "Time of a message in the handler until its ack; each counts with the mean of its sample.",
        lambda reading: reading.handler_times,
    ),
    Distribution(
        "buffer_time_seconds",
        "Time of a message in the client before its handler; each counts with the mean of its "
        "sample.",
        lambda reading: reading.buffer_times,
    ),
)

NAMES = frozenset(
    [metric.exposed_name for metric in METRICS]
    + [
        f"{PREFIX}{each.name}_{part}"
        for each in DISTRIBUTIONS
        for part in ("bucket", "sum", "count")
    ]
)
"""Every name of a time series, as queries have them."""
