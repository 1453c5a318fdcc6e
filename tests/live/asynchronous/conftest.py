"""Programs on a channel of either asynchronous connection of pika."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

Program = Callable[[Any, Callable[[], None]], None]
"""What a test does with an open channel, and what it calls when it is done."""


DEADLINE = 90.0
"""Seconds for what takes one or two."""


def run_select(parameters: Any, program: Program) -> Any:
    """Run ``program`` on a channel of a ``SelectConnection`` and return why it closed."""
    reasons: list[Any] = []

    def on_close(connection: Any, reason: Any) -> None:
        reasons.append(reason)
        connection.ioloop.stop()

    connection = pika.SelectConnection(
        parameters,
        on_open_callback=lambda connection: connection.channel(
            on_open_callback=lambda channel: program(channel, connection.close)
        ),
        on_open_error_callback=on_close,
        on_close_callback=on_close,
    )
    timer = connection.ioloop.call_later(DEADLINE, connection.ioloop.stop)
    connection.ioloop.start()
    connection.ioloop.remove_timeout(timer)
    assert reasons, f"not done after {DEADLINE:g} s"
    return reasons[0]


def run_asyncio(parameters: Any, program: Program) -> Any:
    """The same on an ``AsyncioConnection``."""

    async def run() -> Any:
        closed = asyncio.get_running_loop().create_future()
        AsyncioConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(
                on_open_callback=lambda channel: program(channel, connection.close)
            ),
            on_open_error_callback=lambda _, reason: closed.set_result(reason),
            on_close_callback=lambda _, reason: closed.set_result(reason),
        )
        return await asyncio.wait_for(closed, DEADLINE)

    return asyncio.run(run())


@pytest.fixture(params=[run_select, run_asyncio], ids=["select", "asyncio"])
def run(request: pytest.FixtureRequest) -> Any:
    """Runs a program; pika closes the connection if a callback raises, which must not pass."""

    def run(
        parameters: Any,
        program: Program,
        closes: type[Exception] = pika.exceptions.ConnectionClosedByClient,
    ) -> None:
        reason = request.param(parameters, program)
        assert isinstance(reason, closes), repr(reason)

    return run
