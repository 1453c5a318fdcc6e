"""Dramatiq: a worker with threads, as its command line runs it."""

from __future__ import annotations

import os
import time
from typing import Any

os.environ["dramatiq_restart_delay"] = "100"  # noqa: SIM112 # milliseconds, read when it is imported

import dramatiq
from dramatiq.encoder import JSONEncoder
from dramatiq.middleware import CurrentMessage
from dramatiq.worker import Worker

from controlmq.clients.dramatiq import AdaptiveRabbitmqBroker
from tests.conformance.program import LOOK_EVERY_SECONDS, Program


class Encoder(JSONEncoder):  # type: ignore[misc]
    """Messages are made before the name of their queue is known."""

    def __init__(self, queue: str) -> None:
        self._queue = queue

    def decode(self, data: bytes) -> Any:
        """The message, with the queue it came from."""
        return {**super().decode(data), "queue_name": self._queue}


class Broker(AdaptiveRabbitmqBroker):
    """Its queue is there already, of whatever kind."""

    def _declare_queue(self, queue_name: str) -> Any:
        return self.channel.queue_declare(queue=queue_name, passive=True)


def run(program: Program) -> None:
    """A worker until it is time to stop."""
    broker = Broker(url=program.url, **program.settings)
    broker.add_middleware(CurrentMessage())
    dramatiq.set_broker(broker)
    dramatiq.set_encoder(Encoder(program.queue))

    def handle(number: int) -> None:
        message: Any = CurrentMessage.get_current_message()
        program.handle(number, lambda: message.delivery.lost)

    dramatiq.actor(handle, queue_name=program.queue)
    worker = Worker(broker, worker_threads=program.handlers, worker_timeout=100)
    worker.start()
    while not program.stopping:
        time.sleep(LOOK_EVERY_SECONDS)
    worker.stop()
    broker.close()
