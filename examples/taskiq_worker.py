"""A worker of taskiq that never starts more than 200 tasks/second.

    python examples/taskiq_worker.py amqp://guest:guest@localhost:5672/%2F my-queue

It sends itself 100 tasks first. ``taskiq worker shop:broker`` runs such a broker as well.
"""

import asyncio
import signal
import sys

from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue

from controlmq.clients.aio_pika import adaptive

url, queue_name = sys.argv[1:]
broker = AioPikaBroker(
    url,
    task_queues=[Queue(name=queue_name)],
    connection_class=adaptive(at_most=200, on_step=print),
)


@broker.task
async def pack(order):
    """Do one task."""
    await asyncio.sleep(0.01)  # the work


async def main():
    """Work until interrupted."""
    broker.is_worker_process = True
    await broker.startup()
    for number in range(100):
        await pack.kiq(number)
    receiving = asyncio.create_task(run_receiver_task(broker))
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopped.set)
    await stopped.wait()
    receiving.cancel()
    await asyncio.wait([receiving])
    await broker.shutdown()


asyncio.run(main())
