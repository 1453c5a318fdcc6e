"""A consumer that holds 200 messages/second: pika's blocking example and two lines more.

    python examples/blocking.py amqp://guest:guest@localhost:5672/%2F my-queue model.json

``model.json`` comes from ``controlmq identify``; without it, the prefetch stays at 10.
"""

import sys
import time

import pika

import controlmq

url, queue, *model = sys.argv[1:]


def on_message(channel, method, properties, body):
    """Handle one message."""
    time.sleep(0.001)  # the work
    channel.basic_ack(method.delivery_tag)


with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    if model:
        controlmq.wrap(channel, goal=200, controller=model[0], on_step=print)
    else:
        controlmq.wrap(channel, prefetch=10, on_step=print)
    channel.basic_consume(queue, on_message)
    try:
        channel.start_consuming()
    except KeyboardInterrupt:
        channel.stop_consuming()
