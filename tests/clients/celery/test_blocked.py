"""A broker that stops reading from a connection, as an alarm makes it do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amqp import Connection

from controlmq.clients.celery.channel import AdaptiveChannel


class NoTimer:
    """A timer that never fires."""

    def call_later(self, delay: float, callback: Any) -> object:
        return object()

    def cancel(self, timer: Any) -> None:
        pass


def adapted_channel(connection: Connection) -> AdaptiveChannel:
    """A channel with a window, on a connection that was never opened."""
    channel: Any = AdaptiveChannel.__new__(AdaptiveChannel)
    channel.connection = connection
    worker: Any = SimpleNamespace(consumer=SimpleNamespace(pool=SimpleNamespace(is_green=False)))
    channel.adapt(worker, NoTimer())
    adaptive: AdaptiveChannel = channel
    return adaptive


def test_lanes_stay_as_they_are_while_the_connection_is_blocked() -> None:
    connection = Connection()
    core = adapted_channel(connection).runner.core
    connection._on_blocked()
    assert core.blocked
    connection._on_unblocked()
    assert not core.blocked


def test_whoever_listened_before_hears_it_too() -> None:
    heard: list[Any] = []
    connection = Connection(on_blocked=heard.append, on_unblocked=lambda: heard.append("again"))
    adapted_channel(connection)
    connection._on_blocked()
    connection._on_unblocked()
    assert heard == ["connection blocked, see broker logs", "again"]
