"""A handler that collects messages and acknowledges them with one call."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from itertools import count

from controlmq.consumer.commands import Notice, OpenLane
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core
from controlmq.consumer.lanes import Lane
from controlmq.controllers import PI, Gains, Limits
from controlmq.loop import Loop

ACKED_AT_ONCE_MESSAGES = 50
ROUND_TRIP = 0.011
SECONDS = 40
GOAL = 400.0


class Collecting:
    """A full queue before a handler that acknowledges 50 at once; a loop that turns each second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rates: list[float] = []
        self.notices: list[str] = []
        self.core = Core()
        shape = Shape(window="lanes", controlled=True, interval=1.0)
        self.consumer = Consumer("tag", "queue", 3.0, shape, 0.0)
        # About twice as quick as the plant asks for, as gains from a trace of single acks are.
        self.loop = Loop(self.consumer, PI(Gains(0.002, 0.02), Limits(0.1, 500)), GOAL)
        self._order, self._tags = count(), count(1)
        self._events: list[tuple[float, int, Lane]] = []
        self._on_their_way: Counter[str] = Counter()
        self._collected: list[int] = []
        self._open(self.core.subscribe(self.consumer, 0.0))

    def run(self) -> Collecting:
        while self.now < SECONDS:
            due = self._events[0][0] if self._events else math.inf
            if self.core.wake_at <= due:
                self.now = max(self.now, self.core.wake_at)
                self.core.wake(self.now)
                while self.core.samples_due:
                    step = self.loop.step()
                    self.rates.append(step.sample.rate)
                    self.core.sampled(self.core.samples_due.popleft(), self.now)
            else:
                self.now, _, lane = heapq.heappop(self._events)
                self._receive(lane)
            self._carry_out()
        return self

    def _receive(self, lane: Lane) -> None:
        self._on_their_way[lane.tag] -= 1
        tag = next(self._tags)
        self.core.delivered(lane, tag, self.now)
        self.core.first_message(lane, tag, {})
        self.core.returned(self.consumer, self.now, self.now)
        self._collected.append(tag)
        if len(self._collected) == ACKED_AT_ONCE_MESSAGES:
            self._collected = []
            self.core.acknowledged(tag, True, self.now)

    def _carry_out(self) -> None:
        while self.core.commands:
            command = self.core.commands.popleft()
            if isinstance(command, OpenLane):
                self._open(command.lane)
            elif isinstance(command, Notice):
                self.notices.append(command.text)
            else:
                for lane in command.lanes:
                    self.core.lane_cancelled(lane, self.now)
        self._fill()

    def _open(self, lane: Lane) -> None:
        self.core.lane_opened(lane, self.now)
        self._fill()

    def _fill(self) -> None:
        """The broker sends a message for every slot whose ack has come, and for new ones."""
        self.core.take_acks()
        for lane in self.consumer.window.subscribed:
            free = lane.size - lane.unacked - self._on_their_way[lane.tag]
            self._on_their_way[lane.tag] += free
            for _ in range(free):
                event = self.now + ROUND_TRIP, next(self._order), lane
                heapq.heappush(self._events, event)


def test_a_controller_does_not_starve_a_handler_that_waits_for_many() -> None:
    collecting = Collecting().run()
    # A window of 50 gives more than the goal, which no window with fewer slots could hold.
    rates = collecting.rates[-15:]
    assert min(rates) > GOAL
    assert max(rates) < 1.5 * min(rates), rates
    (notice,) = collecting.notices
    assert "waits for 50 messages and acknowledges them at once" in notice
