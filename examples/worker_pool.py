"""Handlers in a pool of threads: the window bounds how many messages are worked on at once.

    python examples/worker_pool.py amqp://guest:guest@localhost:5672/%2F my-queue model.json

``model.json`` comes from ``controlmq identify``; without it, the prefetch stays at 8.
"""

import functools
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pika

import controlmq

url, queue, *model = sys.argv[1:]
at_work = set()  # delivery tags; only the thread of the connection touches it
stopping = []
# Ctrl-C is noted here: an exception could come between a message's ack and its end in the books.
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))


def on_message(channel, method, properties, body):
    """Hand a message to the pool."""
    at_work.add(method.delivery_tag)
    pool.submit(work, channel, method.delivery_tag, body)


def work(channel, tag, body):
    """Handle one message, in a thread of the pool."""
    try:
        time.sleep(0.02)  # the work
        answer = channel.basic_ack
    except Exception:
        answer = channel.basic_nack
    # pika's channels belong to the thread of their connection, so the answer is given there.
    connection.add_callback_threadsafe(functools.partial(finish, answer, tag))


def finish(answer, tag):
    """Answer the broker, in the thread of the connection."""
    answer(tag)
    at_work.discard(tag)


with ThreadPoolExecutor(32) as pool, pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    if model:
        controlmq.wrap(channel, goal=200, controller=model[0], on_step=print)
    else:
        controlmq.wrap(channel, prefetch=8, on_step=print)
    channel.basic_consume(queue, on_message)
    while not stopping:
        connection.process_data_events(0.5)
    channel.stop_consuming()
    while at_work:  # handlers finish and are answered before the connection closes
        connection.process_data_events(0.1)
