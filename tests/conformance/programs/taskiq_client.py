"""taskiq: a receiver of a broker, as its worker runs it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from taskiq.receiver import Receiver
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue

from controlmq.clients.aio_pika import adaptive
from tests.conformance.program import RECONNECT_SECONDS, Program


def run(program: Program) -> None:
    """A receiver until it is time to stop."""

    async def consume() -> None:
        broker = AioPikaBroker(
            program.url,
            task_queues=[Queue(name=program.queue, declare=False)],
            connection_class=adaptive(**program.settings),
            reconnect_interval=RECONNECT_SECONDS,
        )

        async def handle(number: int) -> None:
            await program.handle_soon(number)

        broker.register_task(handle, task_name="handle")
        broker.is_worker_process = True
        await broker.startup()
        finish = asyncio.Event()
        with ThreadPoolExecutor(1) as executor:
            receiver = Receiver(broker, executor=executor, run_startup=False)
            listening = asyncio.create_task(receiver.listen(finish))
            await program.until_stopping()
            finish.set()
            await listening
        await broker.shutdown()

    asyncio.run(consume())
