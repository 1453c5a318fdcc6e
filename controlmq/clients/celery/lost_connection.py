"""Notices a lost connection where other greenlets than its reader write to it.

Pools of greenlets acknowledge from greenlets of their own. A write that fails marks the connection
as lost, and kombu answers the next read by a new connection on which nobody consumes: the worker
would wait there for ever. Celery's event loop, which the other pools have, looks for that itself.
"""

from __future__ import annotations

from typing import Any

from amqp.exceptions import RecoverableConnectionError


def raise_when_lost(connection: Any, channel: Any) -> None:
    """Let reads of kombu's ``connection`` fail once that of ``channel`` is lost.

    Celery then connects again, with its consumers.
    """
    drain = connection.drain_events

    def drain_events(**options: Any) -> Any:
        if channel.connection is None or not channel.connection.connected:
            raise RecoverableConnectionError("the connection was lost")
        return drain(**options)

    connection.drain_events = drain_events
