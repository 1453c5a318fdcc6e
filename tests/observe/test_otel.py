"""The metrics through OpenTelemetry: its own reader gets what Prometheus gets."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from controlmq.observe.metrics import DISTRIBUTIONS, METRICS
from controlmq.observe.otel import export_metrics
from controlmq.observe.registry import Registry
from tests.observe.running import Running


def collected(reader: InMemoryMetricReader) -> dict[str, Any]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_the_same_numbers_come_through_opentelemetry() -> None:
    registry = Registry()
    reader = InMemoryMetricReader()
    export_metrics(MeterProvider(metric_readers=[reader]), registry)
    running = Running(registry, "orders", "shop")
    running.sample(30, work=0.004)
    reading = running.sample(20, work=0.004)
    found = collected(reader)
    assert len(found) == len(METRICS) + len(DISTRIBUTIONS)
    (received,) = found["messaging.client.consumed.messages"].data.data_points
    assert received.value == 50
    assert received.attributes == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "deliver",
        "messaging.destination.name": "orders",
        "controlmq.consumer": "shop",
    }
    (rate,) = found["controlmq.rate"].data.data_points
    assert rate.value == reading.rate
    (goal,) = found["controlmq.goal"].data.data_points
    assert (goal.value, goal.attributes["controlmq.kind"]) == (100, "rate")
    (process,) = found["messaging.process.duration"].data.data_points
    assert (process.count, process.sum) == (2, pytest.approx(0.008, rel=1e-3))
    assert found["messaging.process.duration"].unit == "s"


def test_without_a_consumer_nothing_is_reported() -> None:
    registry = Registry()
    reader = InMemoryMetricReader()
    export_metrics(MeterProvider(metric_readers=[reader]), registry)
    data = reader.get_metrics_data()
    points = (
        []
        if data is None
        else [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        ]
    )
    assert points == []
