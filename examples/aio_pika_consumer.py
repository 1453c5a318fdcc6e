"""A consumer of aio-pika that never starts more than 200 messages/second.

python examples/aio_pika_consumer.py amqp://guest:guest@localhost:5672/%2F my-queue
"""

import asyncio
import signal
import sys

import aio_pika

from controlmq.clients.aio_pika import adaptive

url, queue_name = sys.argv[1:]


handlers = set()


async def on_message(message):
    """Handle one message."""
    handlers.add(asyncio.current_task())
    asyncio.current_task().add_done_callback(handlers.discard)
    async with message.process():
        await asyncio.sleep(0.01)  # the work


async def main():
    """Consume until interrupted, and finish what is being handled then."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopped.set)
    words = adaptive(at_most=200, on_step=print)
    async with await aio_pika.connect_robust(url, connection_class=words) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(queue_name)
        tag = await queue.consume(on_message)
        await stopped.wait()
        await queue.cancel(tag)
        await asyncio.gather(*handlers, return_exceptions=True)


asyncio.run(main())
