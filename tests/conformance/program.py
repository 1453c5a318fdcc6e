"""The process of a driver: consumes with any client, and writes down what it handles.

Its one argument is the order as JSON. What every client has in common is here: the settings of the
consumer, the handler, the record, and when to stop. Connections are seen where every adapter comes
by, in the runner of a channel.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from controlmq.clients.channel_runner import Runner
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.core import Core
from controlmq.consumer.held_acks import Window
from controlmq.consumer.lanes import Lane
from controlmq.loop import Sample, Step
from tests.conformance.slots import Slots
from tests.faults.record import Event, Record

LOOK_EVERY_SECONDS = 0.02
"""Seconds between looks at whether to stop."""

RECONNECT_SECONDS = 0.1

DEFAULT_HANDLERS = 4

MOST_TASKS = 1000
"""Tasks that work at once where the window alone says how many."""

OVERDUE_SECONDS = 2.5
"""Seconds that one message takes where the broker is to lose its patience."""


class Program:
    """What a driver consumes with.

    ``settings`` are the words of ``controlmq.wrap`` for its consumer.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.url: str = order["url"]
        self.queue: str = order["queue"]
        self.handlers: int = order.get("handlers", DEFAULT_HANDLERS)
        """Messages that are worked on at once, where that is for the program to say."""
        self.pool: str = order.get("pool", "")
        """What handlers run in, where there is a choice."""
        self.early: bool = order.get("early", False)
        """Whether messages are acknowledged before they are handled, where there is a choice."""
        self.record = Record(order["record"])
        self.running = 0
        """Messages that handlers have."""
        self._work: float = order.get("work", 0.001)
        self._most: float = order.get("most", 20.0)
        self._draw = random.Random(order["seed"])
        self._stopped = False
        self._supervisor = os.getppid()
        self._fault: str | None = order["fault"]
        self._fault_after: int = order["fault_after"]
        # Handlers may run in processes of their own, which are forked from this one.
        self._handled = multiprocessing.Value("i", 0)
        self._session = multiprocessing.RawValue("i", 0)
        self._lock = threading.Lock()
        self._open = False
        self._slots: Slots | None = None
        """Those of the consumer that was subscribed last."""
        self._notes: Path | None = Path(order["notes"]) if "notes" in order else None
        self._free = asyncio.Semaphore(order.get("handlers", MOST_TASKS))
        self.settings: dict[str, Any] = {
            "interval": 0.02,
            "on_step": self._on_step,
            **order.get("settings", {}),
        }
        if order.get("restless", True):
            self.settings |= {"goal": 100, "controller": self._controller}
            self.settings |= {"prefetch": self._draw.uniform(1, self._most)}
        self._watch()

    # Stopping

    def stop(self, number: int, frame: Any) -> None:
        """SIGTERM: noted here, looked at by the driver."""
        self._stopped = True

    @property
    def stopping(self) -> bool:
        """Whether to end: it was asked to, or the process that could ask is gone."""
        return self._stopped or os.getppid() != self._supervisor

    async def until_stopping(self) -> None:
        """Wait until it is time to end."""
        while not self.stopping:
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def until_idle(self) -> None:
        """Wait until no handler has a message."""
        while self.running:
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    # Handling

    @property
    def session(self) -> int:
        """Which connection consumes, the first being 1; also in processes of the pool."""
        return int(self._session.value)

    def handle(self, number: int, lost: Callable[[], bool] = bool) -> None:
        """Work on a message; ``lost`` says whether its connection is gone."""
        session, seconds = self._begin(number)
        time.sleep(seconds)
        self._end(session, number, lost)

    async def handle_soon(self, number: int, lost: Callable[[], bool] = bool) -> None:
        """The same, in a task."""
        async with self._free:
            session, seconds = self._begin(number)
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                with self._lock:
                    self.running -= 1
                raise
            self._end(session, number, lost)

    def _begin(self, number: int) -> tuple[int, float]:
        with self._lock:
            self.running += 1
        with self._handled:
            self._handled.value += 1
            overdue = self._fault == "overdue" and self._handled.value == self._fault_after
        self._write("begun", number)
        if overdue:
            self._write("fault")
            return self._session.value, OVERDUE_SECONDS
        return self._session.value, self._work

    def _end(self, session: int, number: int, lost: Callable[[], bool]) -> None:
        late = session != self._session.value or lost()
        self._write("late" if late else "handled", number)
        with self._lock:
            self.running -= 1

    # The window

    def draw_prefetch(self) -> float:
        """A prefetch at random, below 1 half of the time."""
        draw = self._draw
        return draw.choice((draw.uniform(0.2, 1), draw.uniform(1, self._most)))

    def _controller(self, sample: Sample, goal: float) -> float:
        return self.draw_prefetch()

    def changed(self) -> None:
        """The prefetch was changed."""
        self._write("sampled")

    def _on_step(self, step: Step) -> None:
        self.changed()
        if self._notes is not None:
            with self._notes.open("a") as file:
                sample = step.sample
                noted = {"rate": sample.rate, "buffer_time": sample.buffer_time}
                noted |= {"prefetch": step.prefetch, "at": time.monotonic()}
                file.write(json.dumps(noted) + "\n")

    def _note_hand_overs(self, consumer: Consumer) -> None:
        """Write down when messages are handed over, by the clock of the core."""
        if self._notes is None:
            return
        count, path = consumer.gate.count, self._notes.with_suffix(".times")

        def noted(since: float, now: float) -> None:
            count(since, now)
            with path.open("a") as file:
                file.write(f"{now!r}\n")

        consumer.gate.count = noted  # type: ignore[method-assign]

    def _write(self, event: Event, number: int = -1, redelivered: bool = False) -> None:
        slots = 0 if self._slots is None else self._slots.most()
        self.record.write(event, slots, number, redelivered)

    def _above(self, slots: int, allowed: int) -> None:
        self.record.write("above", slots, allowed)

    # Connections

    def _watch(self) -> None:
        """Note when consumers begin and end and what comes again, whatever the client."""
        program = self

        def subscribe(plain: Any, runner: Runner, consumer: Consumer) -> None:
            program._slots = Slots(consumer, program._above)
            program._note_hand_overs(consumer)
            program._session.value += 1
            plain(runner, consumer)
            program._open = True
            program._write("opened")

        def stop(plain: Any, runner: Runner) -> None:
            if not runner.stopped:
                program._ended("closed" if not runner.core.consumers else "lost")
            plain(runner)

        def cancelled_by_broker(plain: Any, runner: Runner, lane_tag: str) -> Consumer | None:
            consumer: Consumer | None = plain(runner, lane_tag)
            if consumer is not None:
                program._ended("lost")
            return consumer

        def redelivered(plain: Any, core: Core, consumer: Consumer) -> None:
            plain(core, consumer)
            program._write("redelivered", redelivered=True)

        for noted in (subscribe, stop, cancelled_by_broker):
            stand_before(Runner, noted)
        stand_before(Core, redelivered)
        self._watch_slots()

    def _watch_slots(self) -> None:
        """Look at the slots whenever they can become more, whatever the client."""
        program = self

        def slots_of(consumer: Consumer) -> Slots | None:
            slots = program._slots
            return slots if slots is not None and slots.consumer is consumer else None

        def actuate(plain: Any, consumer: Consumer, prefetch: float) -> None:
            if slots := slots_of(consumer):
                slots.changing()
            plain(consumer, prefetch)

        def opened(plain: Any, window: Window, consumer: Consumer, *given: Any) -> Lane:
            lane: Lane = plain(window, consumer, *given)
            if slots := slots_of(consumer):
                slots.opened(lane)
            return lane

        def received(plain: Any, core: Core, lane: Lane, *given: Any) -> None:
            plain(core, lane, *given)
            if slots := slots_of(lane.consumer):
                slots.look()

        stand_before(Consumer, actuate)
        stand_before(Window, opened)
        for name in ("received", "delivered", "arrived"):
            stand_before(Core, received, name)

    def _ended(self, event: Event) -> None:
        if self._open:
            self._write(event)
        self._open = False


def stand_before(kind: type, noted: Callable[..., Any], name: str | None = None) -> None:
    """Have ``noted`` called in place of the method of its name, or ``name``, with that first."""
    name = name or noted.__name__
    plain = getattr(kind, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        return noted(plain, *args, **kwargs)

    setattr(kind, name, called)


def main() -> None:
    """Run the driver that the order names."""
    order = json.loads(sys.argv[1])
    module, _, name = order["run"].partition(":")
    run: Callable[[Program], None] = getattr(
        import_module(f"tests.conformance.programs.{module}"), name
    )
    program = Program(order)
    signal.signal(signal.SIGTERM, program.stop)
    run(program)


if __name__ == "__main__":
    main()
