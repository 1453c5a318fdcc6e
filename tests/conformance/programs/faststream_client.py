"""FastStream: a subscriber of a broker, as its application runs it."""

from __future__ import annotations

import asyncio
from typing import Any

from faststream.rabbit import RabbitBroker, RabbitMessage, RabbitQueue

from controlmq.clients.faststream import adapt
from tests.conformance.program import RECONNECT_SECONDS, Program
from tests.conformance.programs.aio_pika_clients import lost


def run(program: Program) -> None:
    """A broker until it is time to stop."""

    async def consume() -> None:
        broker = adapt(
            RabbitBroker(program.url, reconnect_interval=RECONNECT_SECONDS, logger=None),
            **program.settings,
        )

        async def handle(body: Any, message: RabbitMessage) -> None:
            raw = message.raw_message
            await program.handle_soon(int(message.body), lambda: lost(raw))

        broker.subscriber(RabbitQueue(program.queue, declare=False))(handle)
        await broker.start()
        await program.until_stopping()
        await broker.stop()

    asyncio.run(consume())
