"""One of several consumers that hand over at most 100 messages/second together.

    python examples/shared_rate.py amqp://guest:guest@localhost:5672/%2F my-queue

Start it several times, on one host or on many; kill some. They find each other at the broker.
"""

import sys
import time

import pika

import controlmq

url, queue = sys.argv[1:3]


def on_message(channel, method, properties, body):
    """Handle one message."""
    time.sleep(0.001)  # the work
    channel.basic_ack(method.delivery_tag)


with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    controlmq.wrap(channel, at_most=100, shared="orders", on_step=print)
    channel.basic_consume(queue, on_message)
    try:
        channel.start_consuming()
    except KeyboardInterrupt:
        channel.stop_consuming()
