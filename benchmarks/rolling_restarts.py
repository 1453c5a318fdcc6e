"""Rolling restarts of the two consumers of a quorum queue, wrapped and with bare pika by turns.

Each restart stops one consumer in order, as a deployment does, while the other goes on, and starts
it again. What a consumer has received and not handled goes back to the queue, which counts it as
one more delivery and drops a message at its delivery limit. The wrapped consumers have four lanes.
Reported: messages dropped, and how often messages had gone back before they were handled.
``ROLLING_RESTARTS`` is the number of restarts. What was found goes into docs/faults.md::

    python -m benchmarks rolling_restarts > found.json
    python -m benchmarks.rolling_restarts --page found.json
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import pika

import controlmq
from benchmarks import pages
from benchmarks.live_consumer import work
from benchmarks.measure import spread
from tests.testbed import Broker, start_broker
from tests.testbed.management import wait_until
from tests.testbed.publishing import connected, delete_queue, fill

RUNS = 5
RESTARTS = 50
REPLICAS = 2
DELIVERY_LIMIT = 20
LANES = (5, 10, 15, 20)
"""The prefetch of a wrapped consumer as it grows; each step opens one more lane."""
GROW_EVERY = 5
"""Messages after which a wrapped consumer takes the next step."""
HANDLED_BETWEEN = 40
"""Messages that a consumer handles after its start before the next restart."""
BACKLOG = 1_000
"""Messages that wait at every restart; as many are published at once where fewer do."""

How = Literal["bare", "wrapped"]


class Handled:
    """Which messages were handled, and how often each had gone back before."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.returns: list[int] = []

    def note(self, body: bytes, properties: Any) -> None:
        """A message was handled."""
        self.returns.append(int((properties.headers or {}).get("x-delivery-count") or 0))
        self.numbers.append(int(body))


class Replica:
    """One consumer, from its start to its orderly stop, in a thread of its own."""

    def __init__(self, broker: Broker, queue: str, how: How, handled: Handled) -> None:
        self.count = 0
        self._stopping = False
        self._handled = handled
        self._connection = pika.BlockingConnection(broker.parameters)
        self._channel = self._connection.channel()
        if how == "bare":
            self._channel.basic_qos(prefetch_count=LANES[-1])
        else:
            self._channel = controlmq.wrap(self._channel, prefetch=LANES[0], window="lanes")
        self._steps = iter(LANES[1:] if how == "wrapped" else ())
        self._tag = self._channel.basic_consume(queue, self._on_message)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        work()
        self._handled.note(body, properties)
        self.count += 1
        if self.count % GROW_EVERY == 0 and (prefetch := next(self._steps, None)) is not None:
            channel.adaptive_consumers[self._tag].prefetch = prefetch
        channel.basic_ack(method.delivery_tag)
        if self._stopping:
            channel.stop_consuming()

    def _run(self) -> None:
        self._channel.start_consuming()
        self._connection.close()

    def wait(self, handled: int) -> None:
        """Wait until this number of messages is handled."""
        wait_until(lambda: self.count >= handled, f"a consumer has handled {handled} messages")

    def stop(self) -> None:
        """Stop consuming after the message at hand, close the connection and wait for both."""
        self._stopping = True
        # For one that has no message. While messages keep coming, pika calls no callbacks.
        self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self._thread.join()


@contextmanager
def limited_queue(broker: Broker) -> Iterator[tuple[str, str]]:
    """A quorum queue with a delivery limit, and the queue that takes what it drops."""
    name = f"rolling-{uuid.uuid4().hex[:8]}"
    dropped = f"{name}-dropped"
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": DELIVERY_LIMIT,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dropped,
    }
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        channel.queue_declare(dropped, durable=True)
        channel.queue_declare(name, durable=True, arguments=arguments)
    try:
        yield name, dropped
    finally:
        delete_queue(broker.parameters, name)
        delete_queue(broker.parameters, dropped)


def count(broker: Broker, queue: str) -> int:
    """Messages that wait in a queue."""
    with connected(broker.parameters) as connection:
        declared = connection.channel().queue_declare(queue, passive=True)
    return int(declared.method.message_count)


def restart_all(broker: Broker, how: How, restarts: int) -> dict[str, Any]:
    """One run: restart the consumers in turn, then handle what is left."""
    handled = Handled()
    published = 0
    with limited_queue(broker) as (queue, dropped):
        replicas = [Replica(broker, queue, how, handled) for _ in range(REPLICAS)]
        for number in itertools.islice(itertools.cycle(range(REPLICAS)), restarts):
            if count(broker, queue) < BACKLOG:
                fill(broker.parameters, queue, BACKLOG, first=published)
                published += BACKLOG
            replicas[number].wait(HANDLED_BETWEEN)
            replicas[number].stop()
            replicas[number] = Replica(broker, queue, how, handled)
        at_last_restart = len(handled.numbers)
        wait_until(
            lambda: len(set(handled.numbers)) + count(broker, dropped) == published,
            "every message is handled or dropped",
            pause=0.5,
        )
        for replica in replicas:
            replica.stop()
        lost = count(broker, dropped)
    return {
        "handled_until_last_restart": at_last_restart,
        "published": published,
        "dropped": lost,
        "handled_twice": len(handled.numbers) - len(set(handled.numbers)),
        "mean_returns": statistics.fmean(handled.returns),
        "most_returns": max(handled.returns),
    }


def run() -> dict[str, Any]:
    restarts = int(os.environ.get("ROLLING_RESTARTS", RESTARTS))
    ways: list[How] = ["bare", "wrapped"]
    results: dict[How, list[dict[str, Any]]] = {how: [] for how in ways}
    with start_broker() as broker:
        version = ".".join(map(str, broker.version))
        for number in range(RUNS):
            for how in ways if number % 2 else reversed(ways):
                results[how].append(restart_all(broker, how, restarts))
                print(f"  {how}: {results[how][-1]}", file=sys.stderr)

    def each(how: How, figure: str) -> list[float]:
        return [result[figure] for result in results[how]]

    means = {how: statistics.fmean(each(how, "mean_returns")) for how in ways}
    most = {how: max(each(how, "most_returns")) for how in ways}
    return {
        "rabbitmq": version,
        "peer": f"bare pika, prefetch {LANES[-1]}",
        "restarts": restarts,
        "runs": RUNS,
        "dropped": {how: sum(each(how, "dropped")) for how in ways},
        "handled_twice": {how: sum(each(how, "handled_twice")) for how in ways},
        "mean_returns": means,
        "mean_returns_by_run": {how: spread(each(how, "mean_returns")) for how in ways},
        "most_returns": most,
        "each": results,
        "met": not any(each("wrapped", "dropped"))
        and means["wrapped"] <= means["bare"]
        and most["wrapped"] <= most["bare"] + 1,
    }


def table(found: Mapping[str, Any]) -> str:
    """What one run of the benchmark found, in Markdown."""
    rows = [
        [
            f"{how}, prefetch {LANES[-1]}",
            str(found["dropped"][how]),
            str(found["handled_twice"][how]),
            f"{found['mean_returns'][how]:.2f} ({means['least']:.2f} to {means['most']:.2f})",
            str(found["most_returns"][how]),
        ]
        for how, means in found["mean_returns_by_run"].items()
    ]
    columns = [
        "consumers",
        "dropped",
        "handled twice",
        "returns of a message: mean (of runs)",
        "most",
    ]
    return "\n\n".join(
        [
            pages.table(columns, rows),
            f"RabbitMQ {found['rabbitmq']}, {found['runs']} runs of each with {found['restarts']} "
            "restarts. Wanted of the wrapped ones: 0 dropped, a mean no higher than with bare pika "
            f"and at most one return more: {'met' if found['met'] else 'not met'}.",
        ]
    )


if __name__ == "__main__":
    sys.exit(pages.write_down("rolling_restarts", "faults.md", "rolling restarts", table, __doc__))
