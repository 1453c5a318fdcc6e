"""A consumer in a process of its own, to be killed: prints each number, then acknowledges."""

from __future__ import annotations

import random
import sys
from typing import Any

import pika

from controlmq.clients.pika.wrap import wrap


def main() -> None:
    url, queue, most = sys.argv[1], sys.argv[2], float(sys.argv[3])
    draw = random.Random(3)
    channel = wrap(
        pika.BlockingConnection(pika.URLParameters(url)).channel(),
        goal=100,
        controller=lambda sample, goal: draw.uniform(0.5, most),
        interval=0.02,
        prefetch=4,
    )

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        print(int(body), flush=True)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue, on_message)
    channel.start_consuming()


if __name__ == "__main__":
    main()
