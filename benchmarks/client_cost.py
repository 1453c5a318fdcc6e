"""CPU time per message with and without controlmq: aio-pika and Dramatiq, by turns.

The handler is empty and the prefetch is fixed, so that what is compared is the path of a message.
With a ceiling that is never reached that path leads through the gate, where each message takes a
token. Celery's cost is measured by ``celery_prefetch``, and shown in the same table::

    python -m benchmarks client_cost > cost.json
    python -m benchmarks.celery_prefetch --cases cpu > celery.json
    python -m benchmarks.client_cost --page cost.json celery.json    # into docs/clients.md
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pika

from benchmarks import pages
from benchmarks.measure import spread
from controlmq.controllers import Limits
from tests.testbed import start_broker
from tests.testbed.publishing import declared_queue, fill

REPETITIONS = 7
MESSAGES = 10_000
WARM_UP = 500
"""Messages before those that are measured."""

UNREACHED = 1_000_000.0
"""Messages/second: a ceiling that no client here comes near."""

ALLOWED = {"aio-pika, prefetch 50": 1.1, "Dramatiq": 1.05}
"""Times the cost of the bare client."""

ALLOWED_CELERY = 1.05
"""The same, of every version and pool."""

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


def consume_aio_pika(
    url: str, queue: str, adaptive: bool, prefetch: int, words: Mapping[str, Any]
) -> float:
    """Seconds of CPU time a message."""
    import aio_pika

    from controlmq.clients.aio_pika import adaptive as connection_class

    meter = Meter()

    async def on_message(message: Any) -> None:
        await message.ack()
        meter.count()

    async def consume() -> None:
        given = {}
        if adaptive:
            given["connection_class"] = connection_class(prefetch=prefetch, **words)
        async with await aio_pika.connect_robust(url, **given) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=prefetch)
            tag = await (source := await channel.get_queue(queue)).consume(on_message)
            while not meter.done.is_set():
                await asyncio.sleep(0.05)
            await source.cancel(tag)

    asyncio.run(consume())
    return meter.seconds / MESSAGES


def consume_dramatiq(
    url: str, queue: str, adaptive: bool, prefetch: int, words: Mapping[str, Any]
) -> float:
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
    given = {"prefetch": prefetch, **words} if adaptive else {}
    broker = (AdaptiveRabbitmqBroker if adaptive else RabbitmqBroker)(url=url, **given)
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


class Case(NamedTuple):
    """A client at a prefetch; ``words`` are those that the adaptive one is given besides."""

    consume: Callable[[str, str, bool, int, Mapping[str, Any]], float]
    prefetch: int
    words: Mapping[str, Any] = {}


CASES = {
    "aio-pika, prefetch 50": Case(consume_aio_pika, 50),
    "aio-pika, prefetch 50, a ceiling above the rate": Case(
        consume_aio_pika, 50, {"at_most": UNREACHED, "limits": Limits(49, 50)}
    ),
    "aio-pika, prefetch 5": Case(consume_aio_pika, 5),
    "Dramatiq": Case(consume_dramatiq, 2 * DRAMATIQ_THREADS),
}


def measured(url: str, queue: str, case: str, adaptive: bool) -> float:
    """In a process of its own, so that no run warms up another."""
    consume, *given = CASES[case]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(consume, (url, queue, adaptive, *given))


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


def table(found: Sequence[Any]) -> str:
    """What each file has of the cost of clients, in Markdown."""
    rows = [
        [client, *words]
        for each in found
        for client, words in [*_own_rows(each), *_celery_rows(each)]
    ]
    columns = ["client", "bare", "with controlmq", "ratio", "allowed", "pairs of runs"]
    return "\n\n".join(
        [
            pages.table(columns, rows),
            "Microseconds of CPU time a message: medians. The ratio is the median of those of "
            "pairs of runs, with the least and the greatest, and not the ratio of the medians.",
        ]
    )


def _own_rows(found: Any) -> Iterator[tuple[str, list[str]]]:
    """Of this benchmark."""
    results = found.get("client_cost", {}) if isinstance(found, Mapping) else {}
    for case, measured in results.items():
        if isinstance(measured, Mapping):
            bare, mine = (
                1e6 * measured[f"{way}_seconds_per_message"]["median"]
                for way in ("bare", "controlmq")
            )
            yield case, _words(bare, mine, measured["ratios"], ALLOWED.get(case))


def _celery_rows(found: Any) -> Iterator[tuple[str, list[str]]]:
    """Of ``celery_prefetch``, whose file has an entry for each version and broker."""
    for each in found if isinstance(found, list) else []:
        for name, cost in each.items():
            if name.startswith("cpu, "):
                ratios = spread(cost["ratios"])
                bare, mine = cost["microseconds_plain"], cost["microseconds_adapted"]
                words = _words(bare, mine, ratios, ALLOWED_CELERY)
                yield f"Celery {each['celery']}, {name.removeprefix('cpu, ')}", words


def _words(
    bare: float, mine: float, ratios: Mapping[str, float], allowed: float | None
) -> list[str]:
    median, least, most = (f"{ratios[name]:.2f}" for name in ("median", "least", "most"))
    verdict = "-" if allowed is None else f"{allowed:g}"
    if allowed is not None:
        verdict += ": met" if ratios["median"] <= allowed else ": not met"
    ratio = f"{median} ({least} to {most})"
    return [f"{bare:.0f}", f"{mine:.0f}", ratio, verdict, str(ratios["repetitions"])]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--page", nargs="+", type=Path, required=True, metavar="FILE", help="results to write down"
    )
    found = [json.loads(file.read_text()) for file in parser.parse_args().page]
    pages.put("clients.md", "cost", table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
