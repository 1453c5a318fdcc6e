"""Rules and board on a real Prometheus that scrapes a real consumer: all of them say something."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import controlmq
from controlmq.controllers import Limits
from controlmq.loop import Sample
from tests.testbed import Broker, Proxy, wait_until
from tests.testbed.prometheus import Prometheus, program, prometheus
from tests.testbed.publishing import Publisher, connected, fill, process_until

MONITORING = resources.files("controlmq.observe").joinpath("monitoring")
RULES = MONITORING.joinpath("rules.yml").read_text()
BOARD = json.loads(MONITORING.joinpath("grafana-board.json").read_text())
UNIT_TESTS = Path(__file__).parents[1] / "observe" / "rules_test.yml"

ALERT_DEADLINE_SECONDS = 120.0
"""Seconds for an alert to fire or clear; two or three on a machine that does nothing else."""


def shortened(rules: str) -> str:
    """The same rules with seconds where they have minutes."""
    for pattern, short in (
        (r"for: \d+m", "for: 2s"),
        (r"\[1m\]", "[3s]"),
        (r"\[5m\]", "[5s]"),
        (r"> 60 \+ 5 \*", "> 2 + 5 *"),
    ):
        rules, changed = re.subn(pattern, short, rules)
        assert changed, pattern
    return rules


@pytest.fixture(scope="module")
def stored() -> Iterator[Prometheus]:
    """A server with the shortened rules that scrapes this process."""
    server = controlmq.serve_metrics(0)
    assert server is not None
    try:
        with prometheus(
            [server.url.removeprefix("http://")], shortened(RULES), every="250ms"
        ) as stored:
            yield stored
    finally:
        server.close()


class Situation:
    """A consumer of a filled queue whose connection goes on while a test waits for an alert."""

    def __init__(self, connection: Any, stored: Prometheus, consumer: Any) -> None:
        self.connection = connection
        self.stored = stored
        self.consumer = consumer

    def until(self, condition: Callable[[], object], what: str) -> None:
        process_until(self.connection, condition, what, ALERT_DEADLINE_SECONDS)

    def firing(self) -> set[str]:
        return self.stored.firing(self.consumer.queue)

    def fires(self, alert: str) -> None:
        self.until(lambda: alert in self.firing(), f"{alert} fires")

    def clears(self, alert: str) -> None:
        self.until(lambda: alert not in self.firing(), f"{alert} clears")


def acknowledge(channel: Any, method: Any, properties: Any, body: bytes) -> None:
    channel.basic_ack(method.delivery_tag)


@contextmanager
def consuming(proxy: Proxy, queue: str, stored: Prometheus, **settings: Any) -> Iterator[Situation]:
    with connected(proxy.parameters) as connection:
        channel = controlmq.wrap(connection.channel(), interval=0.2, **settings)
        tag = channel.basic_consume(queue, acknowledge)
        yield Situation(connection, stored, channel.adaptive_consumers[tag])


@pytest.fixture
def filled(broker: Broker, queue_name: str) -> str:
    fill(broker.parameters, queue_name, 20_000)
    return queue_name


def stay(prefetch: float) -> Callable[[Sample, float], float]:
    return lambda sample, goal: prefetch


def test_a_missed_goal(proxy: Proxy, filled: str, stored: Prometheus) -> None:
    with consuming(proxy, filled, stored, goal=5000, controller=stay(2.0)) as situation:
        situation.fires("ControlmqGoalMissed")

        # Prefetch 2 gives some rate or other; the goal becomes that one.
        def meet() -> bool:
            situation.consumer.goal = situation.consumer.last.sample.rate
            return "ControlmqGoalMissed" not in situation.firing()

        situation.until(meet, "ControlmqGoalMissed clears")


def test_a_prefetch_at_its_limit(proxy: Proxy, filled: str, stored: Prometheus) -> None:
    settings = {"goal": 5000, "controller": stay(99.0), "limits": Limits(0.1, 3)}
    with consuming(proxy, filled, stored, **settings) as situation:
        situation.fires("ControlmqStuckAtLimit")
        situation.consumer.loop.controller = stay(1.5)
        situation.clears("ControlmqStuckAtLimit")


def test_held_acks_near_their_bound(proxy: Proxy, filled: str, stored: Prometheus) -> None:
    settings = {"goal": 5000, "controller": stay(1.0), "limits": Limits(0.1, 20)}
    with consuming(proxy, filled, stored, window="single", max_held=20, **settings) as situation:
        situation.fires("ControlmqHeldAcksNearBound")
        situation.consumer.loop.controller = stay(15.0)
        situation.clears("ControlmqHeldAcksNearBound")


def test_a_controller_that_fails(proxy: Proxy, filled: str, stored: Prometheus) -> None:
    def fail(sample: Sample, goal: float) -> float:
        raise ZeroDivisionError

    with consuming(proxy, filled, stored, goal=100, controller=fail) as situation:
        situation.fires("ControlmqControllerFailing")
        situation.consumer.loop.controller = stay(1.0)
        situation.clears("ControlmqControllerFailing")


def test_a_law_that_is_frozen(
    broker: Broker, proxy: Proxy, queue_name: str, stored: Prometheus
) -> None:
    with (
        Publisher(broker.url, queue_name, [(60.0, 30.0)]),
        consuming(proxy, queue_name, stored, goal=500, controller=stay(20.0)) as situation,
    ):
        situation.fires("ControlmqConsumerFrozen")
        fill(broker.parameters, queue_name, 20_000)
        situation.clears("ControlmqConsumerFrozen")


def test_a_consumer_that_does_nothing(proxy: Proxy, filled: str, stored: Prometheus) -> None:
    with consuming(proxy, filled, stored, goal=100, controller=stay(1.0)) as situation:
        situation.until(lambda: situation.consumer.last, "a first sample")
        # Nobody processes events any more: as a handler that does not return.
        wait_until(
            lambda: "ControlmqConsumerSilent" in situation.firing(),
            "it is noticed",
            ALERT_DEADLINE_SECONDS,
        )
        situation.clears("ControlmqConsumerSilent")


def queries() -> Iterator[tuple[str, str]]:
    """Every query of the board, as Grafana would send it."""
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "10s")
            yield panel["title"], re.sub(r"\$(queue|consumer)", ".*", expression)


def test_every_query_of_the_board_and_every_recording_rule_has_data(
    proxy: Proxy, filled: str, stored: Prometheus
) -> None:
    recorded = re.findall(r"record: (\S+)", RULES)
    asked = [*queries(), *[("rules", name) for name in recorded]]
    assert len(asked) > 25
    settings = {"goal": 100, "controller": stay(1.5), "limits": Limits(0.1, 12)}
    with consuming(proxy, filled, stored, **settings) as situation:
        for title, expression in asked:

            def answered(expression: str = expression) -> bool:
                return bool(stored.query(expression))

            situation.until(answered, f"{title}: {expression} has data")


def test_promtool_accepts_the_rules_and_their_tests_pass(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES)
    for words in (["check", "rules", str(rules)], ["test", "rules", str(UNIT_TESTS)]):
        done = subprocess.run([program("promtool"), *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout + done.stderr
