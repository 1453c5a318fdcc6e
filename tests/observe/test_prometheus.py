"""The metrics in Prometheus' format: names, labels, values, and who may ask for them."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import controlmq
from controlmq.errors import InputError
from controlmq.observe.metrics import DISTRIBUTIONS, METRICS, NAMES
from controlmq.observe.prometheus import Collector
from controlmq.observe.registry import Registry
from controlmq.observe.registry import registry as of_this_process
from tests.observe.running import Running

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def exposed(registry: Registry) -> list[Any]:
    """The families that a scrape gets, read by the library's own parser."""
    shown = CollectorRegistry()
    shown.register(Collector(registry))
    return list(text_string_to_metric_families(generate_latest(shown).decode()))


def series(registry: Registry) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in exposed(registry)
        for sample in family.samples
    }


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def running() -> Iterator[Running]:
    """A consumer in the registry of this process, in which those of other tests may be."""
    running = Running(of_this_process, "served")
    running.sample()
    yield running
    running.running = False


def test_what_is_exposed_is_what_was_read(registry: Registry) -> None:
    running = Running(registry, "orders", "shop")
    running.sample(30, work=0.001, rejected=2, redelivered=1)
    reading = running.sample(20, work=0.001)
    found = series(registry)
    labels = (("consumer", "shop"), ("queue", "orders"))

    def value(name: str, *more: tuple[str, str]) -> float:
        return found[f"controlmq_{name}", tuple(sorted([*labels, *more]))]

    assert value("messages_received_total") == 50
    assert value("messages_acknowledged_total") == 48
    assert value("messages_rejected_total") == 2
    assert value("messages_redelivered_total") == 1
    assert value("goal", ("kind", "rate")) == 100
    assert value("rate") == reading.rate == running.steps[-1].sample.rate
    assert value("prefetch") == reading.prefetch == running.steps[-1].prefetch
    assert value("law", ("law", "pi")) == 1
    assert value("at_limit", ("limit", "high")) == 0
    assert value("prefetch_limit", ("limit", "low")) == 0.5
    assert value("last_sample_timestamp_seconds") == reading.time
    assert value("handler_time_seconds_count") == 50
    assert value("handler_time_seconds_sum") == pytest.approx(0.05, rel=1e-3)
    assert value("handler_time_seconds_bucket", ("le", "+Inf")) == 50
    assert value("handler_time_seconds_bucket", ("le", "0.0005")) == 0
    assert value("handler_time_seconds_bucket", ("le", "0.0025")) == 50


def test_every_metric_is_there_and_has_the_two_labels(registry: Registry) -> None:
    Running(registry).sample()
    found = exposed(registry)
    assert {sample.name for family in found for sample in family.samples} == NAMES
    allowed = {metric.label for metric in METRICS} | {"le", ""}
    for family in found:
        assert family.documentation.endswith(".")
        for sample in family.samples:
            assert set(sample.labels) - {"queue", "consumer"} <= allowed
            assert {"queue", "consumer"} <= set(sample.labels)


def test_names_have_the_prefix_and_base_units() -> None:
    for metric in METRICS:
        assert metric.exposed_name.startswith("controlmq_")
        assert metric.exposed_name.endswith("_total") == (metric.kind == "counter")
        assert (metric.unit == "s") == metric.name.endswith("_seconds")
    assert all(each.name.endswith("_seconds") for each in DISTRIBUTIONS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_a_consumer_without_goal_and_limits_has_no_goal_and_no_limits(registry: Registry) -> None:
    running = Running(registry, goal=None)
    running.plant.limits = None
    running.sample()
    names = {name for name, _ in series(registry)}
    assert names.isdisjoint({"controlmq_goal", "controlmq_prefetch_limit", "controlmq_at_limit"})


def test_without_a_consumer_there_is_no_series(registry: Registry) -> None:
    running = Running(registry)
    running.sample()
    running.running = False
    assert series(registry) == {}


def scraped(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return str(answer.read().decode())


def test_one_call_serves_all_consumers_of_the_process(running: Running) -> None:
    server = controlmq.serve_metrics(0)
    assert server is not None
    other = controlmq.serve_metrics(0)
    assert other is not None, "a second one is not refused"
    try:
        text = scraped(server.url)
        assert 'controlmq_rate{consumer="served",queue="served"} 50.0' in text
        assert "python_info" in text, "what else the program counts is there too"
        assert scraped(other.url).count('controlmq_rate{consumer="served"') == 1
    finally:
        server.close()
        other.close()


def test_a_port_in_use_is_one_sentence_and_the_consumer_lives_on(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    server = controlmq.serve_metrics(0)
    assert server is not None
    try:
        assert controlmq.serve_metrics(server.port) is None
    finally:
        server.close()
    assert [record.message for record in caplog.records] == [
        f"the metrics cannot be served on 127.0.0.1 port {server.port} (address already in use); "
        "consuming goes on without it, give another port"
    ]
    running.sample()


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "shop.example"])
def test_another_machine_is_not_served_unless_that_is_asked_for(host: str) -> None:
    with pytest.raises(InputError, match=f"{host}, where other machines .* allow_remote=True"):
        controlmq.serve_metrics(0, host)


@pytest.mark.parametrize("port", [-1, 65536, True, "9464"])
def test_a_port_that_does_not_exist_is_refused(port: Any) -> None:
    with pytest.raises(InputError, match="give 0 to 65535"):
        controlmq.serve_metrics(port)
