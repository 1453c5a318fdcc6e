"""CPU time per message, wrapped beside bare pika: fixed prefetch 200, empty handler, by turns.

Wrapped a second time with metrics served and scraped every second.
"""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import sys
import time
from typing import Any, Literal

import pika

import controlmq
from benchmarks.measure import spread
from tests.testbed import start_broker
from tests.testbed.publishing import declared_queue, fill

REPETITIONS = 7
MESSAGES = 40_000
PREFETCH = 200
ALLOWED_COST_RATIO = 0.45
"""Times the cost of bare pika."""
ALLOWED_FOR_METRICS = 1.1
"""Times the cost without metrics."""

How = Literal["bare", "wrapped", "scraped"]

SCRAPER = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1]).read()
    time.sleep(1)
"""


def consume(url: str, queue: str, how: How) -> float:
    """Seconds of CPU time a message, in this process."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    if how == "bare":
        channel.basic_qos(prefetch_count=PREFETCH)
    else:
        channel = controlmq.wrap(channel, prefetch=PREFETCH)
    scraper = None
    if how == "scraped":
        server = controlmq.serve_metrics(0)
        assert server is not None
        scraper = subprocess.Popen([sys.executable, "-c", SCRAPER, f"{server.url}/metrics"])
    left = MESSAGES

    def handle(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal left
        left -= 1
        channel.basic_ack(method.delivery_tag)
        if not left:
            channel.stop_consuming()

    channel.basic_consume(queue, handle)
    start = time.process_time()
    channel.start_consuming()
    taken = time.process_time() - start
    connection.close()
    if scraper is not None:
        scraper.kill()
        scraper.wait()
    return taken / MESSAGES


def in_own_process(url: str, queue: str, how: How) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(consume, (url, queue, how))


def run() -> dict[str, Any]:
    ways: list[How] = ["bare", "wrapped", "scraped"]
    taken: dict[How, list[float]] = {how: [] for how in ways}
    with start_broker() as broker:
        for repetition in range(REPETITIONS):
            for how in ways if repetition % 2 else reversed(ways):
                with declared_queue(broker.parameters, "classic") as queue:
                    fill(broker.parameters, queue, MESSAGES)
                    taken[how].append(in_own_process(broker.url, queue, how))

    def ratios(how: How, peer: How) -> list[float]:
        return [mine / other for mine, other in zip(taken[how], taken[peer], strict=True)]

    ratio = statistics.median(ratios("wrapped", "bare"))
    for_metrics = statistics.median(ratios("scraped", "wrapped"))
    return {
        "peer": "bare pika, prefetch 200",
        "messages": MESSAGES,
        "controlmq_seconds_per_message": spread(taken["wrapped"]),
        "pika_seconds_per_message": spread(taken["bare"]),
        "ratios": spread(ratios("wrapped", "bare")),
        "ratio": ratio,
        "allowed": ALLOWED_COST_RATIO,
        "ratio_with_metrics": for_metrics,
        "ratio_with_metrics_to_bare": statistics.median(ratios("scraped", "bare")),
        "allowed_with_metrics": ALLOWED_FOR_METRICS,
        "met": ratio <= ALLOWED_COST_RATIO and for_metrics <= ALLOWED_FOR_METRICS,
    }
