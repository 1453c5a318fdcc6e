"""A worker whose connection is lost connects again, whatever noticed the loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from amqp.exceptions import RecoverableConnectionError

from controlmq.clients.celery.lost_connection import raise_when_lost


class Kombu:
    """A connection of kombu, which connects again by itself when it is read."""

    reads = 0

    def drain_events(self, timeout: float | None = None) -> None:
        self.reads += 1


@pytest.fixture
def channel() -> Any:
    return SimpleNamespace(connection=SimpleNamespace(connected=True))


def test_a_connection_that_stands_is_read(channel: Any) -> None:
    connection: Any = Kombu()
    raise_when_lost(connection, channel)
    connection.drain_events(timeout=2.0)
    assert connection.reads == 1


def test_a_connection_whose_writes_failed_is_not_read_again(channel: Any) -> None:
    connection: Any = Kombu()
    raise_when_lost(connection, channel)
    channel.connection.connected = False
    with pytest.raises(RecoverableConnectionError):
        connection.drain_events(timeout=2.0)
    assert connection.reads == 0


def test_nor_is_one_whose_channel_is_gone(channel: Any) -> None:
    connection: Any = Kombu()
    raise_when_lost(connection, channel)
    channel.connection = None
    with pytest.raises(RecoverableConnectionError):
        connection.drain_events()
    assert connection.reads == 0
