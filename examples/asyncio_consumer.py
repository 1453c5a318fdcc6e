"""Handlers as coroutines: an asyncio program with pika's own connection.

    python examples/asyncio_consumer.py amqp://guest:guest@localhost:5672/%2F my-queue model.json

``model.json`` comes from ``controlmq identify``; without it, the prefetch stays at 8.
"""

import asyncio
import signal
import sys

import pika
from pika.adapters.asyncio_connection import AsyncioConnection

import controlmq

url, queue, *model = sys.argv[1:]


async def handle(channel, tag, body):
    """Handle one message."""
    await asyncio.sleep(0.02)  # the work
    channel.basic_ack(tag)


def consume(channel):
    """Start consuming on a channel that was opened."""
    tasks = set()

    def on_message(channel, method, properties, body):
        task = asyncio.create_task(handle(channel, method.delivery_tag, body))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if model:
        controlmq.wrap(channel, goal=200, controller=model[0], on_step=print)
    else:
        controlmq.wrap(channel, prefetch=8, on_step=print)
    channel.basic_consume(queue, on_message)


async def main():
    """Consume until interrupted."""
    loop = asyncio.get_running_loop()
    closed = loop.create_future()
    connection = AsyncioConnection(
        pika.URLParameters(url),
        on_open_callback=lambda connection: connection.channel(on_open_callback=consume),
        on_open_error_callback=lambda _, error: closed.set_exception(error),
        on_close_callback=lambda _, reason: closed.set_result(reason),
    )
    loop.add_signal_handler(signal.SIGINT, connection.close)
    await closed


asyncio.run(main())
