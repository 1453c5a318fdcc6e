"""aio-pika: a callback, and an iterator, on a connection that comes back by itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aio_pika
import aiormq.exceptions

from controlmq.clients.aio_pika import adaptive
from tests.conformance.program import RECONNECT_SECONDS, Program

LOST = (aiormq.exceptions.AMQPError, aiormq.exceptions.ChannelInvalidStateError)


def lost(message: Any) -> bool:
    """Whether the channel that brought a message is closed."""
    try:
        return bool(message.channel.closing.done())
    except aiormq.exceptions.ChannelInvalidStateError:
        return True


async def connected(program: Program) -> Any:
    """A robust connection with adaptive channels."""
    return await aio_pika.connect_robust(
        program.url,
        connection_class=adaptive(**program.settings),
        reconnect_interval=RECONNECT_SECONDS,
    )


def run_callbacks(program: Program) -> None:
    """``queue.consume`` with a callback."""

    async def on_message(message: Any) -> None:
        await program.handle_soon(int(message.body), lambda: lost(message))
        await message.ack()

    async def consume() -> None:
        async with await connected(program) as connection:
            channel = await connection.channel()
            queue = await channel.get_queue(program.queue)
            tag = await queue.consume(on_message)
            await program.until_stopping()
            await queue.cancel(tag)
            await program.until_idle()

    asyncio.run(consume())


def run_iterator(program: Program) -> None:
    """``queue.iterator`` with ``process``, one message after another."""

    async def work(message: Any) -> None:
        with contextlib.suppress(*LOST):  # the message comes again
            async with message.process():
                await program.handle_soon(int(message.body), lambda: lost(message))

    async def iterate(messages: Any) -> None:
        async for message in messages:
            await work(message)
            if program.stopping:
                return

    async def consume() -> None:
        async with await connected(program) as connection:
            channel = await connection.channel()
            queue = await channel.get_queue(program.queue)
            async with queue.iterator() as messages:
                iterating = asyncio.create_task(iterate(messages))
                stopping = asyncio.create_task(program.until_stopping())
                await asyncio.wait([iterating, stopping], return_when="FIRST_COMPLETED")
                if not program.running:
                    iterating.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await iterating

    asyncio.run(consume())
