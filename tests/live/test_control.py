"""Control on a real broker, behind a network of 11 ms: the goal is met, and kept after a pause."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pika.exceptions import AMQPConnectionError

from controlmq.clients.pika.wrap import wrap
from controlmq.controllers import PI, Limits
from controlmq.gains import Gains
from controlmq.loop import Step
from controlmq.model import ArxModel
from tests.live.handled import Handled
from tests.testbed import Broker, Proxy
from tests.testbed.publishing import connected, fill, process_until

GOAL = 200.0
SETTLING_DEADLINE_SECONDS = 60.0
"""Seconds for control to settle: eight samples of half a second, more on a busy machine."""

FILLED_MESSAGES = 12_000
"""Messages: what the goal takes in that time."""

GAINS = Gains(kp=0.001, ki=0.005)
"""Prefetch 1 gives about 67 messages/second here, whatever the machine."""


class Consuming:
    """A consumer under PI control whose steps are kept."""

    def __init__(self, connection: Any, queue: str) -> None:
        self.steps: list[Step] = []
        self.handled = 0
        self._connection = connection
        channel = wrap(
            connection.channel(),
            GOAL,
            PI(GAINS, Limits(0.1, 12)),
            prefetch=2,
            interval=0.5,
            on_step=self.steps.append,
        )
        tag = channel.basic_consume(queue, self._on_message)
        self.consumer = channel.adaptive_consumers[tag]

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        assert not method.redelivered
        self.handled += 1
        channel.basic_ack(method.delivery_tag)

    def until(self, condition: Any, what: str, deadline: float = 60.0) -> None:
        process_until(self._connection, condition, what, deadline)

    def rates(self, last: int) -> list[float]:
        return [step.sample.rate for step in self.steps[-last:]]


MODEL = ArxModel(a=0.1, b=70.0, c=0.0, interval=0.02, linear_range=(0.5, 9.0))


@pytest.mark.parametrize("by_name", [False, True], ids=["file", "law and file"])
def test_a_new_model_file_is_taken_up_while_consuming(
    broker: Broker, queue_name: str, tmp_path: Path, by_name: bool
) -> None:
    path = tmp_path / "model.json"
    MODEL.save(path)
    fill(broker.parameters, queue_name, 300)
    with connected(broker.parameters) as connection:
        given = {"controller": "pi", "model": path} if by_name else {"controller": path}
        channel = wrap(connection.channel(), GOAL, **given, interval=0.02)
        handled = Handled()

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled.note(method, properties, body)
            channel.basic_ack(method.delivery_tag)

        tag = channel.basic_consume(queue_name, on_message)
        consumer = channel.adaptive_consumers[tag]
        before = consumer.loop.controller
        process_until(connection, lambda: consumer.last, "a step is taken")
        assert consumer.loop.controller is before
        replace(MODEL, b=140.0).save(path)
        process_until(
            connection,
            lambda: consumer.loop.controller is not before,
            "the new model is taken up",
        )
        fill(broker.parameters, queue_name, 10, first=300)
        process_until(connection, lambda: len(handled.numbers) == 310, "consuming goes on")
    handled.assert_each_once_in_order(310)


def test_after_a_reconnect_control_resumes_from_the_known_model(
    broker: Broker, queue_name: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    MODEL.save(path)
    fill(broker.parameters, queue_name, 300)
    numbers: set[int] = set()
    starts: list[float] = []
    with broker.proxied() as proxy:

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.add(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(numbers) == 100 and len(starts) == 1:
                proxy.cut()
            elif len(numbers) == 300:
                channel.stop_consuming()

        for lost in (True, False):
            with connected(proxy.parameters) as connection:
                channel = wrap(connection.channel(), GOAL, path, interval=0.02)
                tag = channel.basic_consume(queue_name, on_message)
                starts.append(channel.adaptive_consumers[tag].prefetch)
                with pytest.raises(AMQPConnectionError) if lost else nullcontext():
                    channel.start_consuming()
    assert numbers == set(range(300))
    assert starts == [MODEL.prefetch_for(GOAL)] * 2


def near(rates: list[float], share: float = 0.15) -> bool:
    """Whether the mean of ``rates`` is the goal, give or take what a loaded machine adds."""
    return bool(rates) and abs(sum(rates) / len(rates) / GOAL - 1) < share


def test_the_goal_is_met_and_a_dry_queue_does_not_wind_up(
    broker: Broker, proxy: Proxy, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, FILLED_MESSAGES)
    with connected(proxy.parameters) as connection:
        consuming = Consuming(connection, queue_name)
        consuming.until(
            lambda: len(consuming.steps) > 8 and near(consuming.rates(6)),
            "the goal is met",
            SETTLING_DEADLINE_SECONDS,
        )
        with connected(broker.parameters) as other:
            other.channel().queue_purge(queue_name)
        consuming.until(lambda: not any(consuming.rates(6)), "the queue is dry")
        # Rates scatter on a busy machine; what must not grow is the prefetch: by these gains the
        # dry samples alone would have doubled it.
        first, *dry = consuming.steps[-6:]
        assert [step.sample.window_limited for step in dry] == [False] * 5
        assert [step.prefetch for step in dry] == [first.prefetch] * 5
        assert consuming.consumer.held == 0
        before = len(consuming.steps)
        fill(broker.parameters, queue_name, FILLED_MESSAGES)
        consuming.until(
            lambda: len(consuming.steps) > before + 6 and near(consuming.rates(4)),
            "the goal is met again",
            SETTLING_DEADLINE_SECONDS,
        )
