"""Serves the table of metrics.py to Prometheus.

There is a collector for a registry of prometheus-client, and a server that Prometheus can scrape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlmq.extras import need
from controlmq.observe.metrics import DISTRIBUTIONS, LABELS, METRICS, PREFIX
from controlmq.observe.registry import TIME_BOUNDS_SECONDS, Registry, Times, registry
from controlmq.observe.serving import LOOPBACK, Answer, Request, Server, serve

EXTRA = "metrics"


class Collector:
    """What a registry of prometheus-client asks for the metrics of all consumers that run."""

    def __init__(self, consumers: Registry = registry) -> None:
        self._consumers = consumers
        self._families = need("prometheus_client.core", EXTRA)

    def collect(self) -> Iterable[Any]:
        """A family for each metric, as of the last sample of each consumer."""
        running = [
            ((each.queue, each.name), each.last)
            for each in self._consumers.running()
            if each.last is not None
        ]
        kinds = {
            "counter": self._families.CounterMetricFamily,
            "gauge": self._families.GaugeMetricFamily,
        }
        for metric in METRICS:
            labels = (*LABELS, metric.label) if metric.label else LABELS
            family = kinds[metric.kind](PREFIX + metric.name, metric.meaning, labels=labels)
            for consumer, reading in running:
                for value_of_label, value in metric.values(reading):
                    more = (value_of_label,) if metric.label else ()
                    family.add_metric((*consumer, *more), value)
            yield family
        for each in DISTRIBUTIONS:
            family = self._families.HistogramMetricFamily(
                PREFIX + each.name, each.meaning, labels=LABELS
            )
            for consumer, reading in running:
                times = each.times(reading)
                family.add_metric(consumer, _buckets(times), times.total_seconds)
            yield family


def expose_metrics() -> None:
    """Add the consumers of this process to what prometheus-client exposes; once is enough.

    For programs that serve ``prometheus_client.REGISTRY`` already. Others call
    :func:`serve_metrics`.
    """
    global _exposed
    if not _exposed:
        need("prometheus_client", EXTRA).REGISTRY.register(Collector())
        _exposed = True


_exposed = False


def serve_metrics(port: int, host: str = LOOPBACK, *, allow_remote: bool = False) -> Server | None:
    """Serve the metrics of all adaptive consumers of this process at ``/metrics``.

    Port 0 takes any that is free; the ``url`` of what is returned tells which. A port that
    cannot be had is logged, and None is returned: a consumer does not stop for its metrics. Each
    process needs a port of its own. Without ``allow_remote`` the host must be this machine.
    """
    client = need("prometheus_client", EXTRA)
    expose_metrics()

    def scrape(request: Request) -> Answer:
        render, kind = client.exposition.choose_encoder(request.headers.get("Accept", ""))
        return Answer(render(client.REGISTRY), kind)

    routes = {("GET", "/metrics"): scrape}
    return serve("metrics", routes, host, port, allow_remote=allow_remote)


def _buckets(times: Times) -> list[tuple[str, float]]:
    """Messages at or below each bound, as Prometheus counts them."""
    bounds = [*(f"{bound:g}" for bound in TIME_BOUNDS_SECONDS), "+Inf"]
    below, counted = 0, []
    for bound, number in zip(bounds, times.bins, strict=True):
        below += number
        counted.append((bound, float(below)))
    return counted
