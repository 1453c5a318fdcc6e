"""CPU time per message with and without controlmq: aio-pika and Dramatiq, by turns.

The handler is empty and the prefetch is fixed, so that what is compared is the path of a message.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import pika

from benchmarks.measure import spread
from tests.testbed import start_broker
from tests.testbed.publishing import declared_queue, fill

REPETITIONS = 7
MESSAGES = 10_000
WARM_UP = 500
"""Messages before those that are measured."""

ALLOWED = {"aio-pika, prefetch 50": 1.1, "Dramatiq": 1.05}
"""Times the cost of the bare client."""

DRAMATIQ_THREADS = 8


def message(number: int) -> tuple[bytes, Any]:
    """One that all of them can handle, with an id as clients set it."""
    body = {
        "queue_name": "",
        "actor_name": "handle",
        "args": [number],
        "kwargs": {},
        "options": {},
        "message_id": f"m{number}",
        "message_timestamp": 0,
    }
    properties = pika.BasicProperties(delivery_mode=2, message_id=f"m{number}")
    return json.dumps(body).encode(), properties


class Meter:
    """CPU time of this process from one message to another."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.seconds = 0.0
        self._count = 0
        self._lock = threading.Lock()

    def count(self) -> None:
        """One more was handled."""
        with self._lock:
            self._count += 1
            if self._count == WARM_UP:
                self._start = time.process_time()
            elif self._count == WARM_UP + MESSAGES:
                self.seconds = time.process_time() - self._start
                self.done.set()


def consume_aio_pika(url: str, queue: str, adaptive: bool, prefetch: int) -> float:
    """Seconds of CPU time a message."""
    import aio_pika

    from controlmq.clients.aio_pika import adaptive as connection_class

    meter = Meter()

    async def on_message(message: Any) -> None:
        await message.ack()
        meter.count()

    async def consume() -> None:
        words = {"connection_class": connection_class(prefetch=prefetch)} if adaptive else {}
        async with await aio_pika.connect_robust(url, **words) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=prefetch)
            tag = await (source := await channel.get_queue(queue)).consume(on_message)
            while not meter.done.is_set():
                await asyncio.sleep(0.05)
            await source.cancel(tag)

    asyncio.run(consume())
    return meter.seconds / MESSAGES


def consume_dramatiq(url: str, queue: str, adaptive: bool, prefetch: int) -> float:
    """Seconds of CPU time a message."""
    import dramatiq
    from dramatiq.brokers.rabbitmq import RabbitmqBroker
    from dramatiq.encoder import JSONEncoder
    from dramatiq.worker import Worker

    from controlmq.clients.dramatiq import AdaptiveRabbitmqBroker

    class Encoder(JSONEncoder):  # type: ignore[misc]
        def decode(self, data: bytes) -> Any:
            return {**super().decode(data), "queue_name": queue}

    meter = Meter()
    words = {"prefetch": prefetch} if adaptive else {}
    broker = (AdaptiveRabbitmqBroker if adaptive else RabbitmqBroker)(url=url, **words)
    broker._build_queue_arguments = lambda queue_name: {}
    dramatiq.set_broker(broker)
    dramatiq.set_encoder(Encoder())
    dramatiq.actor(lambda number: meter.count(), actor_name="handle", queue_name=queue)
    worker = Worker(broker, worker_threads=DRAMATIQ_THREADS)
    worker.start()
    meter.done.wait()
    worker.stop()
    broker.close()
    return meter.seconds / MESSAGES


CASES: dict[str, tuple[Callable[[str, str, bool, int], float], int]] = {
    "aio-pika, prefetch 50": (consume_aio_pika, 50),
    "aio-pika, prefetch 5": (consume_aio_pika, 5),
    "Dramatiq": (consume_dramatiq, 2 * DRAMATIQ_THREADS),
}


def measured(url: str, queue: str, case: str, adaptive: bool) -> float:
    """In a process of its own, so that no run warms up another."""
    consume, prefetch = CASES[case]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(consume, (url, queue, adaptive, prefetch))


def run() -> dict[str, Any]:
    """Each case, with the two ways by turns."""
    results: dict[str, Any] = {}
    with start_broker() as broker:
        for case in CASES:
            taken: dict[bool, list[float]] = {False: [], True: []}
            for repetition in range(REPETITIONS):
                for adaptive in (False, True) if repetition % 2 else (True, False):
                    with declared_queue(broker.parameters, "classic") as queue:
                        fill(broker.parameters, queue, WARM_UP + MESSAGES, make=message)
                        taken[adaptive].append(measured(broker.url, queue, case, adaptive))
            ratios = [mine / bare for mine, bare in zip(taken[True], taken[False], strict=True)]
            results[case] = {
                "controlmq_seconds_per_message": spread(taken[True]),
                "bare_seconds_per_message": spread(taken[False]),
                "ratios": spread(ratios),
                "ratio": statistics.median(ratios),
                "allowed": ALLOWED.get(case),
            }
    results["met"] = all(results[case]["ratio"] <= most for case, most in ALLOWED.items())
    return results
