"""A broker that ends the connection when a further lane is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from controlmq.clients.channel_runner import Runner, clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.settings import settings_from
from controlmq.consumer.lanes import Lane


class Client:
    """A client whose broker confirms the first lane of a consumer, and never answers others."""

    def __init__(self) -> None:
        self.runner: Runner
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        """Everything else of an adapter does nothing here."""
        return lambda *_: None

    def open_lane(self, lane: Lane) -> None:
        self.asked += 1
        if self.asked == 1:
            self.runner.lane_opened(lane)


def connected(
    last: ControlledConsumer | None, prefetch: float
) -> tuple[Client, ControlledConsumer]:
    """A consumer on a new connection, which goes on from the one before and wants this prefetch."""
    client = Client()
    client.runner = Runner(client)  # type: ignore[arg-type]
    settings = settings_from(prefetch=3, window="lanes", interval=60)
    consumer = ControlledConsumer("tag", "queue", settings, None, None, client.runner)
    client.runner.subscribe(consumer.plant)
    if last is not None:
        consumer.go_on_from(last)
    consumer.prefetch = prefetch
    client.runner.wake(clock())
    return client, consumer


def test_a_lane_that_ends_two_connections_is_not_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    last = None
    for _ in range(2):
        client, last = connected(last, 8)
        assert client.asked == 2
    for _ in range(2):
        client, last = connected(last, 8)
        assert client.asked == 1
    assert "ends the connection when a further consumer is added" in caplog.text


def test_one_connection_that_is_lost_meanwhile_changes_nothing() -> None:
    _, last = connected(None, 8)
    _, last = connected(last, 3)
    _, last = connected(last, 8)
    client, _ = connected(last, 8)
    assert client.asked == 2
