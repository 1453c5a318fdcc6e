"""Goals without a model on a real broker: each runs as written."""

from __future__ import annotations

from typing import Any

import pytest

import controlmq
from controlmq.goals import Goals
from controlmq.loop import Step
from tests.live.handled import Handled
from tests.testbed import Broker, Proxy
from tests.testbed.publishing import connected, fill, process_until

WRITTEN: list[dict[str, Any]] = [
    {},
    {"goal": 200},
    {"goal": "200/s"},
    {"at_most": 100},
    {"buffer_time": 0.1},
    {"protect": True},
    {"at_most": 150, "buffer_time": "100 ms", "protect": True},
]
COUNT = 150


@pytest.mark.parametrize("goals", WRITTEN, ids=lambda goals: str(goals))
def test_it_runs_as_written(broker: Broker, queue_name: str, goals: dict[str, Any]) -> None:
    fill(broker.parameters, queue_name, COUNT)
    handled = Handled()
    with connected(broker.parameters) as connection:
        channel = controlmq.wrap(connection.channel(), interval=0.1, **goals)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            channel.basic_ack(method.delivery_tag)

        tag = channel.basic_consume(queue_name, on_message)
        consumer = channel.adaptive_consumers[tag]
        assert consumer.goals == Goals(**goals)
        process_until(connection, lambda: len(handled.numbers) == COUNT, "all are handled")
        process_until(connection, lambda: consumer.last is not None, "a step is taken")
    handled.assert_each_once_in_order(COUNT)


def test_five_a_minute_is_the_first_at_once_and_then_none(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 10)
    numbers: list[int] = []
    steps: list[Step] = []
    with connected(broker.parameters) as connection:
        channel = controlmq.wrap(
            connection.channel(), at_most="5/minute", interval=0.1, on_step=steps.append
        )

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue_name, on_message)
        process_until(connection, lambda: len(steps) >= 20, "two seconds have passed")
    assert numbers == [0]


def test_the_least_prefetch_grows_to_what_the_network_needs(
    broker: Broker, proxy: Proxy, queue_name: str
) -> None:
    """Prefetch 1 gives 67 messages/second through 11 ms; handlers of no work do hundreds."""
    fill(broker.parameters, queue_name, 20_000)
    steps: list[Step] = []
    with connected(proxy.parameters) as connection:
        channel = controlmq.wrap(connection.channel(), interval=0.5, on_step=steps.append)
        channel.basic_consume(
            queue_name, lambda channel, method, *_: channel.basic_ack(method.delivery_tag)
        )
        process_until(
            connection,
            lambda: any(step.sample.rate > 200 for step in steps),
            "the rate is three times that of prefetch 1",
        )
    assert max(step.prefetch for step in steps) <= 2000


def test_a_law_without_a_model_holds_a_rate_by_the_prefetch_alone(
    broker: Broker, proxy: Proxy, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 20_000)
    steps: list[Step] = []
    with connected(proxy.parameters) as connection:
        channel = controlmq.wrap(
            connection.channel(), goal=200, controller="scale", interval=0.5, on_step=steps.append
        )
        tag = channel.basic_consume(
            queue_name, lambda channel, method, *_: channel.basic_ack(method.delivery_tag)
        )

        def settled() -> bool:
            rates = [step.sample.rate for step in steps[-4:]]
            return len(rates) == 4 and all(abs(rate / 200 - 1) < 0.15 for rate in rates)

        process_until(connection, settled, "the goal is met", 60)
        # No bucket: what sets the rate is the prefetch.
        assert channel.adaptive_consumers[tag].plant.gate.bucket is None
    assert 1 < steps[-1].prefetch < 20


def test_goals_change_while_it_runs(broker: Broker, proxy: Proxy, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 20_000)
    steps: list[Step] = []
    with connected(proxy.parameters) as connection:
        channel = controlmq.wrap(connection.channel(), goal=100, interval=0.5, on_step=steps.append)
        tag = channel.basic_consume(
            queue_name, lambda channel, method, *_: channel.basic_ack(method.delivery_tag)
        )
        consumer = channel.adaptive_consumers[tag]

        def settled(goal: float) -> bool:
            rates = [step.sample.rate for step in steps[-4:]]
            return len(rates) == 4 and all(abs(rate / goal - 1) < 0.15 for rate in rates)

        process_until(connection, lambda: settled(100), "the goal is met", 60)
        assert consumer.goal == 100
        consumer.goal = "200/s"
        process_until(connection, lambda: settled(200), "the new goal is met", 60)
        consumer.goals = Goals(at_most=50)
        process_until(connection, lambda: settled(50), "the ceiling is kept", 60)


def test_a_fixed_prefetch_has_no_goals(broker: Broker, queue_name: str) -> None:
    with connected(broker.parameters) as connection:
        channel = controlmq.wrap(connection.channel(), prefetch=5)
        tag = channel.basic_consume(queue_name, print)
        with pytest.raises(controlmq.InputError, match="is fixed; wrap without prefetch="):
            channel.adaptive_consumers[tag].goals = Goals(goal=5)
