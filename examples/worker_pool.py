"""Handlers in a pool of threads: the window bounds how many messages are worked on at once.

    python examples/worker_pool.py amqp://guest:guest@localhost:5672/%2F my-queue model.json

``model.json`` comes from ``controlmq identify``; without it, the prefetch stays at 8.
"""

import functools
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pika

import controlmq

url, queue, *model = sys.argv[1:]


def work(connection, channel, tag, body):
    """Handle one message, in a thread of the pool."""
    time.sleep(0.02)  # the work
    # pika's channels belong to the thread of their connection, so the ack goes there.
    connection.add_callback_threadsafe(functools.partial(channel.basic_ack, tag))


with ThreadPoolExecutor(32) as pool, pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    if model:
        controlmq.wrap(channel, goal=200, controller=model[0], on_step=print)
    else:
        controlmq.wrap(channel, prefetch=8, on_step=print)
    channel.basic_consume(
        queue,
        lambda channel, method, properties, body: pool.submit(
            work, connection, channel, method.delivery_tag, body
        ),
    )
    try:
        channel.start_consuming()
    except KeyboardInterrupt:
        channel.stop_consuming()
