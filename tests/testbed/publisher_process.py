"""The process behind :class:`tests.testbed.publishing.Publisher`.

Its one argument is JSON: url, queue, phases, first, size. It writes ``publishing`` when it
begins, publishes until its standard input closes, then writes how many it published.
"""

from __future__ import annotations

import itertools
import json
import select
import sys
import time
from collections.abc import Iterator

import pika

TICK = 0.005
"""Seconds between looks at the clock; what is due by then is published at once."""


def due_numbers(phases: list[tuple[float, float]], start: float) -> Iterator[float]:
    """When each message is due, on the clock that ``start`` is on."""
    begin = start
    for seconds, rate in itertools.cycle(phases):
        for number in range(round(seconds * rate)):
            yield begin + number / rate
        begin += seconds


def main() -> None:
    order = json.loads(sys.argv[1])
    connection = pika.BlockingConnection(pika.URLParameters(order["url"]))
    channel = connection.channel()
    properties = pika.BasicProperties(delivery_mode=2)
    print("publishing", flush=True)

    published = 0
    dues = due_numbers(order["phases"], time.monotonic())
    due = next(dues)
    while not select.select([sys.stdin], (), (), TICK)[0]:
        now = time.monotonic()
        while due <= now:
            body = b"%d" % (order["first"] + published)
            channel.basic_publish("", order["queue"], body.ljust(order["size"]), properties)
            published += 1
            due = next(dues)
        connection.process_data_events(0)
    # Closing the channel is a round trip behind the last message: the broker has them all.
    channel.close()
    connection.close()
    print(published, flush=True)


if __name__ == "__main__":
    main()
