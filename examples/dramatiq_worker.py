"""A worker of Dramatiq that never starts more than 200 messages/second.

    python examples/dramatiq_worker.py amqp://guest:guest@localhost:5672/%2F my-queue

It sends itself 100 messages first. ``dramatiq examples.shop`` would run such a broker as well.
"""

import signal
import sys
import threading
import time

import dramatiq
from dramatiq.worker import Worker

from controlmq.clients.dramatiq import AdaptiveRabbitmqBroker

url, queue_name = sys.argv[1:]
broker = AdaptiveRabbitmqBroker(url=url, at_most=200, on_step=print)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=queue_name)
def pack(order):
    """Handle one message."""
    time.sleep(0.01)  # the work


for number in range(100):
    pack.send(number)
stopped = threading.Event()
signal.signal(signal.SIGINT, lambda *_: stopped.set())
worker = Worker(broker, worker_threads=4)
worker.start()
stopped.wait()
worker.stop()
broker.close()
