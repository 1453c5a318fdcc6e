"""Never above the bound: what a consumer grants and has in flight, and what the broker counts.

A window may have as many slots as its target, rounded up, or as it had before the target changed,
whichever is more. The program of a driver looks whenever that number can grow: when a lane is
opened and when a message comes. The trial asks the broker in between, whose counts are older.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from controlmq.consumer.consumer import Consumer
from controlmq.consumer.lanes import Lane
from tests.faults.judging import Session, sessions
from tests.faults.record import Line
from tests.testbed.management import Management

READ_EVERY_SECONDS = 0.2

COUNTS_LAG_SECONDS = 2.5
"""Seconds by which the counts of the broker may be late: queues of the test bed report twice a
second, the HTTP API shows samples a second apart, and the machine may be busy."""


class Slots:
    """The slots of one consumer; ``above`` is called with those it has where they are too many.

    Beside its only lane, where that is too large, a window opens one of a single slot: this one
    slot more is allowed until the target changes again.
    """

    def __init__(self, consumer: Consumer, above: Callable[[int, int], None]) -> None:
        self.consumer = consumer
        self._above = above
        self._before = 0
        """Slots before the target changed."""
        self._spare = 0
        self._most = 0
        """The most slots since they were last asked for."""

    def most(self) -> int:
        """Messages that the broker may have in flight, or could have had since the last call."""
        window = self.consumer.window
        most, self._most = self._most, 0
        return max(window.granted, math.ceil(window.target), most)

    def changing(self) -> None:
        """The target is about to change."""
        self.look()
        self._before = self.consumer.window.granted
        self._spare = 0

    def opened(self, lane: Lane) -> None:
        """A lane was entered, with its slots."""
        window = self.consumer.window
        beside = lane.size == 1 and len(window.subscribed) == 2
        if beside and window.granted == self._bound + 1:
            self._spare = 1
        self.look()

    def look(self) -> None:
        """Compare what there is with what may be."""
        window = self.consumer.window
        self._most = max(self._most, window.granted)
        in_flight = sum(lane.unacked for lane in window.lanes)
        most = max(window.granted, in_flight)
        if most > self._bound + self._spare:
            self._above(most, self._bound + self._spare)

    @property
    def _bound(self) -> int:
        return max(math.ceil(self.consumer.window.target), self._before)


def noted_above(lines: Sequence[Line]) -> list[str]:
    """What the program noted above the bound: a sentence, or nothing."""
    above = [line for line in lines if line.event == "above"]
    if not above:
        return []
    worst = max(above, key=lambda line: line.slots - line.number)
    return [
        f"{len(above)} times above the bound: {worst.slots} slots or messages in flight, and "
        f"{worst.number} were allowed"
    ]


class Reading(NamedTuple):
    """What the broker said: unacknowledged messages of a queue, and between which two instants."""

    asked: float
    answered: float
    unacknowledged: int


class BrokerReadings:
    """Asks the broker again and again, for as long as a ``with`` block."""

    def __init__(self, management: Management, queue: str) -> None:
        self.readings: list[Reading] = []
        self._management = management
        self._queue = queue
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        while not self._end.wait(READ_EVERY_SECONDS):
            asked = time.monotonic()
            view = self._management.queue(self._queue)
            if view is not None:
                count = view.messages_unacknowledged
                self.readings.append(Reading(asked, time.monotonic(), count))

    def __enter__(self) -> BrokerReadings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def counted_above(
    lines: Sequence[Line], readings: Sequence[Reading], under_way: float
) -> list[str]:
    """What the broker counted above the slots of the consumers: a sentence, or nothing.

    ``under_way`` is how long an ack or a cancel may have taken to the broker (seconds): until then
    its message counts there. Connections that ended within this time count with those that follow.
    """
    lives = sessions(lines)
    above = [
        (each.unacknowledged, allowed)
        for each in readings
        if each.unacknowledged > (allowed := _allowed(lives, each, under_way))
    ]
    if not above:
        return []
    worst, allowed = max(above, key=lambda pair: pair[0] - pair[1])
    return [
        f"{len(above)} of {len(readings)} times the broker counted more than was granted: {worst} "
        f"unacknowledged, and {allowed} were allowed"
    ]


def _allowed(lives: Sequence[Session], reading: Reading, under_way: float) -> int:
    since = reading.asked - COUNTS_LAG_SECONDS - under_way
    total = 0
    for life, following in zip(lives, [*lives[1:], None], strict=True):
        # A process that was killed wrote no last line.
        gone = following is not None and following.lines[0].time < since
        if not gone and life.lines[0].time <= reading.answered:
            total += _most_slots(life, since, reading.answered)
    return total


def _most_slots(life: Session, since: float, until: float) -> int:
    """The most slots of a connection in this time.

    The last line before it says how it began. The first one after it has the most since the line
    before, which may have been within.
    """
    before = [line for line in life.lines if line.time < since]
    if any(line.event in ("lost", "closed") for line in before):
        return 0
    within = [line for line in life.lines if since <= line.time <= until]
    after = [line for line in life.lines if line.time > until]
    return max((line.slots for line in (*before[-1:], *within, *after[:1])), default=0)
