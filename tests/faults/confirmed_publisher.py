"""A publisher that knows which of its messages the broker has taken, whatever happens to that."""

from __future__ import annotations

import threading
import time
from typing import Any

import pika
import pika.exceptions

from tests.testbed.publishing import MakeMessage, message_body

RECONNECT_SECONDS = 0.1

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def usual_message(number: int) -> tuple[bytes, Any]:
    """A message whose body is its number."""
    return message_body(number), PERSISTENT


class ConfirmedPublisher:
    """Publishes numbered messages, one after the other, from a thread of its own.

    A message whose confirm did not come is not published again: nobody knows if the broker has it.
    ``confirmed`` are those that the broker must deliver; ``next`` is the first number not used.
    ``slowest`` is the longest that a confirm took (seconds).
    """

    def __init__(
        self,
        parameters: Any,
        queue: str,
        first: int,
        rate: float,
        make: MakeMessage = usual_message,
    ) -> None:
        self._make = make
        self.confirmed: set[int] = set()
        self.next = first
        self.slowest = 0.0
        self._parameters = parameters
        self._queue = queue
        self._pause = 1 / rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Publish no more; returns when the last confirm is there."""
        self._stop.set()
        self._thread.join()

    def abandon(self) -> None:
        """Publish no more, without waiting: the broker of a failed trial may not answer."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._publish()
            except (pika.exceptions.AMQPError, OSError):
                time.sleep(RECONNECT_SECONDS)

    def _publish(self) -> None:
        connection = pika.BlockingConnection(self._parameters)
        channel = connection.channel()
        channel.confirm_delivery()
        while not self._stop.wait(self._pause):
            number = self.next
            self.next += 1
            start = time.monotonic()
            body, properties = self._make(number)
            channel.basic_publish("", self._queue, body, properties, mandatory=True)
            self.slowest = max(self.slowest, time.monotonic() - start)
            self.confirmed.add(number)
            connection.process_data_events(0)
        connection.close()
