"""What a real Prometheus scrapes of a consumer on a real broker is what the consumer did."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import controlmq
from controlmq.controllers import PI, Limits
from controlmq.gains import Gains
from controlmq.loop import Step
from controlmq.observe.serving import Server
from tests.testbed import Broker, Proxy, wait_until
from tests.testbed.prometheus import program, prometheus
from tests.testbed.publishing import connected, fill, process_until

SAMPLES = 60
INTERVAL = 0.25
GOAL = 200.0


@pytest.fixture
def server() -> Iterator[Server]:
    server = controlmq.serve_metrics(0)
    assert server is not None
    yield server
    server.close()


def acknowledge(channel: Any, method: Any, properties: Any, body: bytes) -> None:
    channel.basic_ack(method.delivery_tag)


def test_a_server_stores_what_the_consumer_recorded(
    broker: Broker, proxy: Proxy, queue_name: str, server: Server
) -> None:
    fill(broker.parameters, queue_name, int(4 * GOAL * INTERVAL * SAMPLES))
    steps: list[Step] = []
    address = server.url.removeprefix("http://")
    with prometheus([address], every="100ms") as stored, connected(proxy.parameters) as connection:
        wait_until(lambda: stored.query("up == 1"), "the first scrape is done")
        channel = controlmq.wrap(
            connection.channel(),
            GOAL,
            PI(Gains(0.001, 0.005), Limits(0.1, 12)),
            prefetch=2,
            interval=INTERVAL,
            on_step=steps.append,
            group="shop",
        )
        tag = channel.basic_consume(queue_name, acknowledge)
        label = f'{{queue="{queue_name}", consumer="shop"}}'

        def scraped(samples: int) -> bool:
            """Whether the server has seen this number of samples; asked once a sample."""
            after = len(steps)
            process_until(connection, lambda: len(steps) > after, "another sample")
            changes = f"changes(controlmq_last_sample_timestamp_seconds{label}[10m]) >= {samples}"
            return bool(stored.query(changes))

        wait_until(lambda: scraped(SAMPLES // 2), "half of the samples", deadline=120)
        channel.adaptive_consumers[tag].goal = GOAL / 2
        wait_until(lambda: scraped(SAMPLES), "all samples", deadline=120)
        seen = {
            name: dict(stored.history(f"controlmq_{name}{label}", 600))
            for name in ("last_sample_timestamp_seconds", "rate", "prefetch", "goal")
        }
    recorded = {step.sample.time: step for step in steps}
    told: dict[float, tuple[float, float, float]] = {}
    for scraped, time in seen["last_sample_timestamp_seconds"].items():
        values = seen["rate"][scraped], seen["goal"][scraped], seen["prefetch"][scraped]
        assert told.setdefault(time, values) == values
    for time, (rate, goal, prefetch) in told.items():
        step = recorded[time]
        assert (rate, goal, prefetch) == (step.sample.rate, step.goal, step.prefetch)
    assert len(told) >= SAMPLES
    assert {goal for _, goal, _ in told.values()} == {GOAL, GOAL / 2}


def test_promtool_has_no_complaint(broker: Broker, queue_name: str, server: Server) -> None:
    fill(broker.parameters, queue_name, 100)
    steps: list[Step] = []
    with connected(broker.parameters) as connection:
        channel = controlmq.wrap(
            connection.channel(),
            100,
            PI(Gains(0.001, 0.005), Limits(0.1, 12)),
            interval=0.05,
            on_step=steps.append,
        )
        channel.basic_consume(queue_name, acknowledge)
        process_until(connection, lambda: len(steps) > 3, "a few samples")
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
            text = answer.read()
    assert f'controlmq_rate{{consumer="{queue_name}"'.encode() in text
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_what_was_rejected_redelivered_and_acknowledged_is_counted(
    broker: Broker, queue_name: str, server: Server
) -> None:
    fill(broker.parameters, queue_name, 60)
    steps: list[Step] = []
    handled = 0

    def answer(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal handled
        handled += 1
        if int(body) % 3 == 0 and not method.redelivered:
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            channel.basic_ack(method.delivery_tag)

    def shown() -> dict[str, float]:
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        values = [line.rpartition(" ") for line in lines if f'queue="{queue_name}"' in line]
        return {name.partition("{")[0]: float(value) for name, _, value in values}

    with connected(broker.parameters) as connection:
        channel = controlmq.wrap(
            connection.channel(), prefetch=5, interval=0.05, on_step=steps.append
        )
        channel.basic_consume(queue_name, answer)
        process_until(connection, lambda: handled == 80, "60 messages and 20 again")
        after = len(steps)
        process_until(connection, lambda: len(steps) > after + 1, "a sample after the last")
        values = shown()
        assert values["controlmq_messages_received_total"] == 80
        assert values["controlmq_messages_acknowledged_total"] == 60
        assert values["controlmq_messages_rejected_total"] == 20
        assert values["controlmq_messages_redelivered_total"] == 20
        assert values["controlmq_lane_requests_total"] == 1
    process_gone = shown()
    assert process_gone == {}, "a consumer that has ended is not exposed"
