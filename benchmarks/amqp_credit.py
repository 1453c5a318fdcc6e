"""Credit of AMQP 1.0 as an actuator: how exact it is, and what a message costs beside pika.

A receiver keeps ``credit + unsettled`` at a target that changes at random: it grants what is
missing, and after a drop it withdraws its unused credit (``drain``) and grants nothing until it has
settled enough. Needs RabbitMQ 4 and python-qpid-proton, which is no dependency of this project:
``pip install python-qpid-proton`` compiles it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import time
from typing import Any

import pika

from benchmarks.measure import spread
from tests.testbed import start_broker
from tests.testbed.broker import CHOSEN_BROKER
from tests.testbed.publishing import QueueKind, declared_queue, fill

CHANGES = 300
CHANGE_SECONDS = 0.02
WORK_SECONDS = 0.004
LARGEST_PREFETCH = 20
MESSAGES = 40_000
COST_MESSAGES, COST_PREFETCH, REPETITIONS = 10_000, 50, 5


def connect(container: Any, url: str) -> Any:
    """A connection of Proton's container to the broker."""
    given = pika.URLParameters(url)
    return container.connect(
        f"amqp://{given.host}:{given.port}",
        user=given.credentials.username,
        password=given.credentials.password,
        allowed_mechs="PLAIN",
        allow_insecure_mechs=True,
    )


def change(url: str, queue: str) -> dict[str, Any]:
    """Let the target change, and count what comes above it."""
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    draw = random.Random(1)

    class Restless(MessagingHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefetch=0, auto_accept=False)
            self.target = self.allowed = 5
            self.unsettled = self.handled = self.changes = self.redelivered = 0
            self.over = self.most_over = self.drains = 0

        def on_start(self, event: Any) -> None:
            self.container = event.container
            self.connection = connect(event.container, url)
            self.receiver = event.container.create_receiver(self.connection, f"/queues/{queue}")
            self.receiver.flow(self.target)
            event.container.schedule(CHANGE_SECONDS, Timer(self.change))

        def change(self) -> None:
            self.changes += 1
            if self.changes > CHANGES:
                self.connection.close()
                return
            self.allowed = max(self.receiver.credit + self.unsettled, 1)
            self.target = draw.randint(1, LARGEST_PREFETCH)
            if self.receiver.credit + self.unsettled > self.target and self.receiver.credit:
                self.receiver.drain(0)
                self.drains += 1
            self.allowed = max(self.allowed, self.target)
            self.grant()
            self.container.schedule(CHANGE_SECONDS, Timer(self.change))

        def grant(self) -> None:
            missing = self.target - self.receiver.credit - self.unsettled
            if missing > 0 and not self.receiver.draining():
                self.receiver.flow(missing)

        def on_message(self, event: Any) -> None:
            self.unsettled += 1
            self.redelivered += bool(event.message.delivery_count)
            over = self.unsettled - self.allowed
            self.over += over > 0
            self.most_over = max(self.most_over, over)
            delivery = event.delivery
            self.container.schedule(WORK_SECONDS, Timer(lambda: self.done(delivery)))

        def done(self, delivery: Any) -> None:
            self.accept(delivery)
            self.unsettled -= 1
            self.handled += 1
            # After the disposition is on the wire: proton writes flow before it.
            self.container.schedule(0, Timer(self.grant))

    class Timer:
        def __init__(self, call: Any) -> None:
            self.call = call

        def on_timer_task(self, event: Any) -> None:
            self.call()

    restless = Restless()
    Container(restless).run()
    return {
        "changes": restless.changes - 1,
        "messages": restless.handled,
        "redelivered": restless.redelivered,
        "above_the_target": restless.over,
        "most_above": restless.most_over,
        "drains": restless.drains,
    }


def cost_proton(url: str, queue: str) -> float:
    """Seconds of CPU time a message."""
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    class Quick(MessagingHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefetch=COST_PREFETCH)
            self.left = COST_MESSAGES

        def on_start(self, event: Any) -> None:
            self.connection = connect(event.container, url)
            event.container.create_receiver(self.connection, f"/queues/{queue}")
            self.start = time.process_time()

        def on_message(self, event: Any) -> None:
            self.left -= 1
            if not self.left:
                self.taken = time.process_time() - self.start
                self.connection.close()

    quick = Quick()
    Container(quick).run()
    return quick.taken / COST_MESSAGES


def cost_pika(url: str, queue: str) -> float:
    """Seconds of CPU time a message."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=COST_PREFETCH)
    left = COST_MESSAGES

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
    return taken / COST_MESSAGES


def in_own_process(function: Any, url: str, queue: str) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, (url, queue))


def run() -> dict[str, Any]:
    """Both kinds of queues, then the cost."""
    try:
        import proton
    except ModuleNotFoundError:
        return {"not_measured": "run pip install python-qpid-proton, which compiles it, first"}
    os.environ.setdefault(CHOSEN_BROKER, "4.3")
    results: dict[str, Any] = {"proton": ".".join(map(str, proton.VERSION))}
    kinds: tuple[QueueKind, ...] = ("classic", "quorum")
    taken: dict[str, list[float]] = {"proton": [], "pika": []}
    with start_broker(disposable=True) as broker:
        for kind in kinds:
            with declared_queue(broker.parameters, kind) as queue:
                fill(broker.parameters, queue, MESSAGES)
                results[kind] = in_own_process(change, broker.url, queue)
        for _ in range(REPETITIONS):
            for name, cost in (("proton", cost_proton), ("pika", cost_pika)):
                with declared_queue(broker.parameters) as queue:
                    fill(broker.parameters, queue, 2 * COST_MESSAGES)
                    taken[name].append(in_own_process(cost, broker.url, queue))
    ratios = [mine / other for mine, other in zip(taken["proton"], taken["pika"], strict=True)]
    results["seconds_per_message"] = {name: spread(values) for name, values in taken.items()}
    results["ratio_to_pika"] = statistics.median(ratios)
    return results
