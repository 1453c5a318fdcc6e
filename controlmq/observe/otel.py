"""The metrics through OpenTelemetry's API, named by its messaging conventions where they reach.

``messaging.client.consumed.messages`` and ``messaging.process.duration`` are the conventions';
what they have no name for is ``controlmq.`` and the name that Prometheus has. Attributes are
``messaging.system``, ``messaging.destination.name`` (the queue) and ``controlmq.consumer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controlmq.extras import need
from controlmq.observe.metrics import DISTRIBUTIONS, METRICS, Metric
from controlmq.observe.registry import (
    TIME_BOUNDS_SECONDS,
    Observed,
    Reading,
    Registry,
    registry,
)

CONVENTIONAL = {
    "messages_received": "messaging.client.consumed.messages",
    "handler_time_seconds": "messaging.process.duration",
}
"""Names of the conventions for ours."""


def export_metrics(meter_provider: Any = None, consumers: Registry = registry) -> None:
    """Report every adaptive consumer of this process to a meter provider, by default the global.

    Counters and gauges are observed when the provider collects. A histogram gets one observation
    a sample: the mean of its messages, because the API takes no number of messages with a value.
    """
    metrics = need("opentelemetry.metrics", "opentelemetry")
    from controlmq import __version__

    meter = metrics.get_meter("controlmq", __version__, meter_provider)
    for metric in METRICS:
        create = {
            "counter": meter.create_observable_counter,
            "gauge": meter.create_observable_gauge,
        }[metric.kind]
        create(
            _name(metric.name),
            callbacks=[_observe(metric, consumers, metrics.Observation)],
            unit=metric.unit,
            description=metric.meaning,
        )
    histograms = {
        each.name: meter.create_histogram(
            _name(each.name),
            unit="s",
            description=each.meaning,
            explicit_bucket_boundaries_advisory=list(TIME_BOUNDS_SECONDS),
        )
        for each in DISTRIBUTIONS
    }

    def record(observed: Observed, reading: Reading) -> None:
        if reading.rate:
            attributes = _attributes(observed)
            histograms["handler_time_seconds"].record(reading.handler_time, attributes)
            histograms["buffer_time_seconds"].record(reading.buffer_time, attributes)

    consumers.listeners.append(record)


def _observe(
    metric: Metric, consumers: Registry, observation: Any
) -> Callable[[Any], Iterable[Any]]:
    """What a provider calls to collect ``metric``."""

    def observe(options: Any) -> Iterable[Any]:
        for each in consumers.running():
            if each.last is not None:
                for value_of_label, value in metric.values(each.last):
                    more = {f"controlmq.{metric.label}": value_of_label} if metric.label else {}
                    yield observation(value, _attributes(each) | more)

    return observe


def _name(name: str) -> str:
    own = name.removesuffix("_seconds").replace("messages_", "messages.")
    return CONVENTIONAL.get(name, f"controlmq.{own}")


def _attributes(observed: Observed) -> dict[str, str]:
    return {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "deliver",
        "messaging.destination.name": observed.queue,
        "controlmq.consumer": observed.name,
    }
