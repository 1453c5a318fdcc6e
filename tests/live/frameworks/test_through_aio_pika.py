"""taskiq and FastStream on a real broker, through aio-pika."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

import pytest
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue
from taskiq.receiver import Receiver
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue

from controlmq.clients.aio_pika import adaptive
from controlmq.clients.faststream import adapt
from controlmq.errors import InputError
from tests.live.handled import assert_empty
from tests.sharing.processes import most_in
from tests.testbed import Broker
from tests.testbed.management import DEADLINE
from tests.testbed.publishing import DeclareQueue

COUNT = 200


async def until(condition: Any, what: str) -> None:
    end = asyncio.get_running_loop().time() + DEADLINE
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"waited {DEADLINE:g} s until {what}"
        await asyncio.sleep(0.01)


def test_tasks_of_taskiq(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("classic")
    seen: list[int] = []
    steps: list[Any] = []

    async def program() -> None:
        tasks = AioPikaBroker(
            broker.url,
            task_queues=[Queue(name=name, declare=False)],
            connection_class=adaptive(at_most=2000, interval=0.05, on_step=steps.append),
        )

        async def handle(number: int) -> None:
            seen.append(number)

        task = tasks.register_task(handle, task_name="handle")
        tasks.is_worker_process = True
        await tasks.startup()
        exchange = await tasks.write_channel.get_exchange("taskiq", ensure=False)
        source = await tasks.write_channel.get_queue(name)
        await source.bind(exchange, routing_key=name)
        for number in range(COUNT):
            await task.kiq(number)
        finish = asyncio.Event()
        with ThreadPoolExecutor(1) as executor:
            receiver = Receiver(tasks, executor=executor, run_startup=False)
            listening = asyncio.create_task(receiver.listen(finish))
            await until(lambda: len(seen) == COUNT, "all tasks are done")
            finish.set()
            await listening
        await tasks.shutdown()

    asyncio.run(program())
    assert sorted(seen) == list(range(COUNT))
    assert steps, "the loop has turned"
    assert_empty(broker, name)


def test_subscribers_of_faststream(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("classic")
    seen: list[int] = []
    steps: list[Any] = []

    async def program() -> None:
        rabbit = adapt(
            RabbitBroker(broker.url, default_channel=Channel(prefetch_count=7), logger=None),
            prefetch=None,
            interval=0.05,
            on_step=steps.append,
        )

        async def handle(body: int) -> None:
            seen.append(body)

        rabbit.subscriber(RabbitQueue(name, declare=False))(handle)
        async with rabbit:
            await rabbit.start()
            for number in range(COUNT):
                await rabbit.publish(number, name)
            await until(lambda: len(seen) == COUNT, "all are handled")
            with pytest.raises(InputError, match="connected already"):
                adapt(rabbit, prefetch=3)
            await until(lambda: steps, "the loop has turned")

    asyncio.run(program())
    assert sorted(seen) == list(range(COUNT))
    assert steps[0].sample.prefetch == 7, "it starts from what the channel says"
    assert_empty(broker, name)


def test_subscribers_of_faststream_share_a_rate(broker: Broker, queue: DeclareQueue) -> None:
    names = queue("classic"), queue("classic")
    times: list[float] = []

    async def program() -> None:
        clock = asyncio.get_running_loop().time

        async def handle(body: int) -> None:
            times.append(clock())

        steps: dict[str, list[Any]] = {name: [] for name in names}
        async with AsyncExitStack() as stack:
            for name in names:
                rabbit = RabbitBroker(broker.url, logger=None)
                adapt(rabbit, at_most=100, shared="faststream", on_step=steps[name].append)
                rabbit.subscriber(RabbitQueue(name, declare=False))(handle)
                await stack.enter_async_context(rabbit)
                await rabbit.start()
                for number in range(COUNT):
                    await rabbit.publish(number, name)
            await until(lambda: len(times) == 2 * COUNT, "all are handled")
        for name in names:
            assert steps[name], f"{name} was consumed"

    asyncio.run(program())
    assert most_in(times, 1.0) <= 105
    for name in names:
        assert_empty(broker, name)
