"""One consumer on a real broker behind 11 ms of round trip, as the live benchmarks run it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pika

import controlmq
from benchmarks.measure import awake
from controlmq import ArxModel, Limits, Step, TraceWriter
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.controllers import OpenLoop, random_levels
from controlmq.loop import Controller, Transition
from tests.testbed import Broker, Proxy, start_broker
from tests.testbed.proxy import ROUND_TRIP
from tests.testbed.publishing import QueueKind, declared_queue, fill

WORK = 0.001
"""Seconds of work a message, as published."""

INTERVAL = 1.0
"""Seconds a sample."""


@dataclass
class Bed:
    """A broker, and the network before it."""

    broker: Broker
    proxy: Proxy

    @contextmanager
    def filled_queue(self, kind: QueueKind, messages: int) -> Iterator[str]:
        """A queue of this kind in which this number of messages of 256 bytes wait."""
        with declared_queue(self.broker.parameters, kind) as queue:
            fill(self.broker.parameters, queue, messages, size=256)
            yield queue


@contextmanager
def bed(keep_awake: bool = True) -> Iterator[Bed]:
    """A broker behind 11 ms; ``keep_awake`` keeps the processors from falling asleep."""
    with (
        awake() if keep_awake else nullcontext(),
        start_broker() as broker,
        broker.proxied(delay=ROUND_TRIP / 2) as proxy,
    ):
        yield Bed(broker, proxy)


def work(seconds: float = WORK) -> None:
    """Take so long: sleeping is too coarse for a millisecond, so the last part is spun."""
    end = time.perf_counter() + seconds
    time.sleep(seconds / 2)
    while time.perf_counter() < end:
        pass


@dataclass
class Work:
    """What the handler does with a message; may change while a consumer runs."""

    seconds: float = WORK


def wrapped(
    parameters: Any,
    queue: str,
    samples: int,
    *,
    doing: Work | None = None,
    after: Callable[[ControlledConsumer, int], None] = lambda consumer, number: None,
    **given: Any,
) -> list[Step]:
    """Run one consumer, wrapped with what is ``given``, for ``samples`` samples.

    ``after`` is called with the consumer and the number of samples that are over.
    """
    doing = doing or Work()
    steps: list[Step] = []
    connection = pika.BlockingConnection(parameters)

    def on_step(step: Step) -> None:
        steps.append(step)
        after(consumer, len(steps))
        if len(steps) == samples:
            connection.add_callback_threadsafe(channel.stop_consuming)

    channel = controlmq.wrap(
        connection.channel(), on_step=on_step, **{"interval": INTERVAL, "prefetch": 1.0} | given
    )

    def handle(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if doing.seconds:
            work(doing.seconds)
        channel.basic_ack(method.delivery_tag)

    tag = channel.basic_consume(queue, handle)
    consumer = channel.adaptive_consumers[tag]
    channel.start_consuming()
    connection.close()
    return steps[:samples]  # one more may end before consuming has stopped


def consume(
    bed: Bed,
    queue: str,
    controller: Controller | None,
    goal: Callable[[int], float],
    samples: int,
    *,
    limits: Limits,
    prefetch: float = 1.0,
    record: Callable[[Transition], None] | None = None,
    events: Mapping[int, Callable[[], None]] = MappingProxyType({}),
) -> list[Step]:
    """Run one wrapped consumer for ``samples`` samples; ``goal`` may depend on the sample.

    ``events`` are things to do at the start of a sample.
    """

    def after(consumer: ControlledConsumer, number: int) -> None:
        consumer.goal = goal(number)
        events.get(number, _nothing)()

    return wrapped(
        bed.proxy.parameters,
        queue,
        samples,
        after=after,
        goal=goal(0),
        controller=controller,
        prefetch=prefetch,
        limits=limits,
        record=record,
    )


def _nothing() -> None:
    """Most samples have no event."""


def identified(bed: Bed, low: float, high: float, samples: int, seed: int = 1) -> ArxModel:
    """A model of the consumer from a trace collected here and now."""
    from identification import identify
    from identification.session import session

    levels = random_levels(low, high, samples, seed)
    with tempfile.TemporaryDirectory() as folder:
        with TraceWriter(folder) as writer, bed.filled_queue("classic", 700 * samples) as queue:
            consume(
                bed,
                queue,
                OpenLoop(levels),
                lambda sample: 1.0,
                samples + 1,
                limits=Limits(0.0, high),
                prefetch=levels[0],
                record=writer,
            )
        with session("local[1]") as spark:
            (fit,) = identify(spark, Path(folder), linear_range="all")
    if fit.model is None:
        raise SystemExit(f"no model of the live consumer: {fit.reason}")
    return fit.model


def model_data(model: ArxModel) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(model.to_json())
    del content["units"]
    return content
