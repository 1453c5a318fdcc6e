"""An application of FastStream that never starts more than 200 messages/second.

python examples/faststream_app.py amqp://guest:guest@localhost:5672/%2F my-queue
"""

import asyncio
import sys

from faststream import FastStream
from faststream.rabbit import RabbitBroker, RabbitQueue

from controlmq.clients.faststream import adapt

url, queue_name = sys.argv[1:]
broker = adapt(RabbitBroker(url), at_most=200, on_step=print)
app = FastStream(broker)


@broker.subscriber(RabbitQueue(queue_name, durable=True))
async def handle(body: int) -> None:
    """Handle one message."""
    await asyncio.sleep(0.01)  # the work


asyncio.run(app.run())
