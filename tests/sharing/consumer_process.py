"""A consumer that shares a rate, as a process of its own: notes when each handler starts.

    python -m tests.sharing.consumer_process URL QUEUE RATE SHARED FILE

Times are those of the machine's monotonic clock, which all processes have in common, as doubles.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from typing import Any

import pika

import controlmq


def main() -> None:
    url, queue, rate, shared, file = sys.argv[1:]
    notes = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        os.write(notes, struct.pack("d", time.monotonic()))
        channel.basic_ack(method.delivery_tag)

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = controlmq.wrap(connection.channel(), at_most=rate, shared=shared)
    channel.basic_consume(queue, on_message)
    channel.start_consuming()


if __name__ == "__main__":
    main()
