"""The process behind :class:`tests.faults.consumer.ConsumerProcess`: the consumer of a trial.

Its one argument is the order as JSON. It writes its record, moves its prefetch at random at every
sample, connects again after every fault, and ends in order on SIGTERM.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import pika
import pika.exceptions

from tests.faults.record import Record, monotonic

clock_ahead = 0.0
"""Seconds by which the window's clock is ahead of the machine's."""

# The runner takes its clock when it is imported. pika, imported before, has the machine's.
time.monotonic = lambda: monotonic() + clock_ahead
from controlmq.clients.pika.wrap import wrap  # noqa: E402
from controlmq.consumer.held_acks import Window  # noqa: E402
from controlmq.consumer.lanes import Lane  # noqa: E402
from controlmq.loop import Sample  # noqa: E402

time.monotonic = monotonic

INTERVAL_SECONDS = 0.05
MOST_PREFETCH = 20.0
WORK_SECONDS = 0.001
RECONNECT_SECONDS = 0.1
LOOK_EVERY_SECONDS = 0.05
"""Seconds between looks at whether to stop."""

CHILD_SECONDS = 0.3
"""Seconds that a forked child lives."""

FAILING_TURNS = 20
"""Turns of the loop for which the controller fails."""

DEFECT_AFTER = 40
"""Messages before a planted defect shows."""

UNKNOWN_TAG = 987_654_321

LOST = (pika.exceptions.AMQPError, OSError)

NOT_CONNECTED = "Expected connected socket"
"""What pika's ``ValueError`` says where a connection is reset right after it was accepted, as by a
proxy whose broker is gone."""


class Consumer:
    """Handles messages on one connection after another."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.url: str = order["url"]
        self.queue: str = order["queue"]
        self.publishes: bool = order["publishes"]
        self.record = Record(order["record"])
        self._stopped = False
        self._supervisor = os.getppid()
        self._fault: str | None = order["fault"]
        self._fault_after: int = order["fault_after"]
        self._defect: str | None = order["defect"]
        self._defect_after = DEFECT_AFTER if self._defect else -1
        self._handled = 0
        self._failing = 0
        self._draw = random.Random(order["seed"])
        self._consumer: Any = None
        self._open = False
        self._most_granted = 0
        """The most slots since the last line, as far as lanes were opened."""

    def stop(self, number: int, frame: Any) -> None:
        """SIGTERM: noted here, looked at between two messages."""
        self._stopped = True

    @property
    def stopping(self) -> bool:
        """Whether to end: it was told so, or there is nobody left to tell it."""
        return self._stopped or os.getppid() != self._supervisor

    def subscribe(self, channel: Any) -> Any:
        """Wrap a channel and consume on it."""
        channel = wrap(
            channel,
            100,
            self._controller,
            interval=INTERVAL_SECONDS,
            prefetch=self._draw.uniform(1, MOST_PREFETCH),
            on_step=lambda step: self.record.write("sampled", self.slots()),
        )
        tag = channel.basic_consume(self.queue, self._on_message)
        self._consumer = channel.adaptive_consumers[tag]
        self._note_openings(self._consumer.plant.window)
        self.record.write("opened", self.slots())
        self._open = True
        return channel

    def ended(self, event: Literal["closed", "lost"]) -> None:
        """The connection is gone, if there was one."""
        if self._open:
            self.record.write(event, self.slots())
        self._open = False

    def slots(self) -> int:
        """Messages that the broker may have in flight, now or as soon as a lane is opened."""
        window: Window = self._consumer.plant.window
        most, self._most_granted = self._most_granted, 0
        return max(window.granted, math.ceil(window.target), most)

    def _note_openings(self, window: Window) -> None:
        """Note the slots with each new lane: the one that it replaces may be gone by the next line.

        For that while there is one slot more than the window has before and after.
        """
        opened = window.opened

        def noted(*args: Any) -> Lane:
            lane = opened(*args)
            self._most_granted = max(self._most_granted, window.granted)
            return lane

        window.opened = noted  # type: ignore[assignment, method-assign]

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        time.sleep(WORK_SECONDS)
        self._handled += 1
        if self._handled == self._defect_after:
            getattr(self, f"_{self._defect}")(channel, method)
            return
        self.record.write("handled", self.slots(), int(body), method.redelivered)
        if self.publishes:
            channel.basic_publish("", "nobody", body)
        channel.basic_ack(method.delivery_tag)
        if self._fault is not None and self._handled == self._fault_after:
            self.record.write("fault", self.slots())
            getattr(self, f"_{self._fault}")(channel)

    def _controller(self, sample: Sample, goal: float) -> float:
        if self._failing:
            self._failing -= 1
            if self._draw.random() < 0.5:
                raise ZeroDivisionError("the controller of the trial fails")
            return float("nan")
        return self._draw.choice((self._draw.uniform(0.2, 1), self._draw.uniform(1, MOST_PREFETCH)))

    # Faults that it inflicts upon itself

    def _fork(self, channel: Any) -> None:
        """A child with a copy of the connection lives for a while and exits."""
        multiprocessing.get_context("fork").Process(target=live_as_a_child, daemon=True).start()

    def _channel_error(self, channel: Any) -> None:
        """The broker closes the channel."""
        channel.basic_ack(UNKNOWN_TAG)

    def _failing_controller(self, channel: Any) -> None:
        """The controller raises or decides on no number."""
        self._failing = FAILING_TURNS

    def _stepped_clock(self, channel: Any) -> None:
        """The window's clock leaps ahead, as after a sleep of the machine."""
        global clock_ahead
        clock_ahead += self._draw.choice((1.0, 60.0, 3600.0))

    # Planted defects, which the verdict has to find

    def _forget(self, channel: Any, method: Any) -> None:
        """Acknowledge a message that was not handled."""
        channel.basic_ack(method.delivery_tag)

    def _requeue(self, channel: Any, method: Any) -> None:
        """Bring a message back to the queue, as cancelling a busy lane does."""
        channel.basic_reject(method.delivery_tag, requeue=True)


def live_as_a_child() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(CHILD_SECONDS)
    gc.collect()


def run_blocking(consumer: Consumer) -> None:
    """One ``BlockingConnection``, until it ends or is to stop."""
    connection = pika.BlockingConnection(pika.URLParameters(consumer.url))
    with contextlib.closing(connection):
        channel = consumer.subscribe(connection.channel())

        def look() -> None:
            if not channel.is_open:
                return
            if consumer.stopping:
                channel.stop_consuming()
            else:
                connection.call_later(LOOK_EVERY_SECONDS, look)

        look()
        channel.start_consuming()


def run_asynchronous(consumer: Consumer) -> None:
    """One ``SelectConnection``, until it ends or is to stop."""
    ends: list[BaseException] = []

    def on_open(connection: Any) -> None:
        connection.channel(on_open_callback=on_channel)

    def on_channel(channel: Any) -> None:
        channel.add_on_close_callback(on_channel_closed)
        channel.add_on_cancel_callback(lambda _: connection.close())
        consumer.subscribe(channel)
        look()

    def on_channel_closed(channel: Any, reason: BaseException) -> None:
        if not isinstance(reason, pika.exceptions.ChannelClosedByClient):
            ends.append(reason)
            if connection.is_open:
                connection.close()

    def on_closed(connection: Any, reason: BaseException) -> None:
        ends.append(reason)
        connection.ioloop.stop()

    def look() -> None:
        if consumer.stopping and connection.is_open:
            connection.close()
        else:
            connection.ioloop.call_later(LOOK_EVERY_SECONDS, look)

    connection = pika.SelectConnection(
        pika.URLParameters(consumer.url),
        on_open_callback=on_open,
        on_open_error_callback=on_closed,
        on_close_callback=on_closed,
    )
    connection.ioloop.start()
    if not isinstance(ends[0], pika.exceptions.ConnectionClosedByClient):
        raise ends[0]


CLIENTS: dict[str, Callable[[Consumer], None]] = {
    "blocking": run_blocking,
    "asynchronous": run_asynchronous,
}


def main() -> None:
    order = json.loads(sys.argv[1])
    consumer = Consumer(order)
    signal.signal(signal.SIGTERM, consumer.stop)
    while not consumer.stopping:
        try:
            CLIENTS[order["client"]](consumer)
            consumer.ended("closed")
        except (*LOST, ValueError) as error:
            if isinstance(error, ValueError) and NOT_CONNECTED not in str(error):
                raise
            consumer.ended("lost")
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            time.sleep(RECONNECT_SECONDS)


if __name__ == "__main__":
    main()
