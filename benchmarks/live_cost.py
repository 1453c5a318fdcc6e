"""CPU time per message, wrapped beside bare pika: fixed prefetch 200, empty handler, by turns."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from typing import Any

import pika

import controlmq
from benchmarks.measure import spread
from tests.testbed import start_broker
from tests.testbed.publishing import declared_queue, fill

REPETITIONS = 7
MESSAGES = 40_000
PREFETCH = 200
ALLOWED = 0.45


def consume(url: str, queue: str, wrapped: bool) -> float:
    """Seconds of CPU time a message, in this process."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    if wrapped:
        channel = controlmq.wrap(channel, prefetch=PREFETCH)
    else:
        channel.basic_qos(prefetch_count=PREFETCH)
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
    return taken / MESSAGES


def in_own_process(url: str, queue: str, wrapped: bool) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(consume, (url, queue, wrapped))


def run() -> dict[str, Any]:
    taken: dict[bool, list[float]] = {False: [], True: []}
    with start_broker() as broker:
        for repetition in range(REPETITIONS):
            for wrapped in (False, True) if repetition % 2 else (True, False):
                with declared_queue(broker.parameters, "classic") as queue:
                    fill(broker.parameters, queue, MESSAGES)
                    taken[wrapped].append(in_own_process(broker.url, queue, wrapped))
    ratios = [mine / bare for mine, bare in zip(taken[True], taken[False], strict=True)]
    ratio = statistics.median(ratios)
    return {
        "peer": "bare pika, prefetch 200",
        "messages": MESSAGES,
        "controlmq_seconds_per_message": spread(taken[True]),
        "pika_seconds_per_message": spread(taken[False]),
        "ratios": spread(ratios),
        "ratio": ratio,
        "allowed": ALLOWED,
        "met": ratio <= ALLOWED,
    }
