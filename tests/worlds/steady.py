"""A consumer without any randomness, around the core and in the simulator.

Both worlds are the same on paper: a queue that is full unless a plant says otherwise, half of a
round trip each way, a broker that takes no time, ``handlers`` that take ``work`` seconds. So the
same slots must open at the same instants.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, product

from controlmq.consumer.consumer import Consumer as AdaptiveConsumer
from controlmq.consumer.consumer import Shape
from controlmq.consumer.core import Core
from controlmq.loop import Sample
from simulator import Consumer, Duration, Link, Publishers, Queue, Scenario, SimulatedConsumer

PACE_CHANGES_AFTER_SAMPLES = 2
"""When a rate that changes does: both worlds are told between two samples."""

MOST_SECONDS_BETWEEN_PUBLISHED = 0.01
"""Where a queue is to be full: it is by the start, however long the work takes."""

STARTS_AT_SECONDS = 1.0
"""When consumers get their prefetch: the simulated queue is full by then. Both worlds start at this
time because rounding decides between events at one instant."""


@dataclass(frozen=True)
class Plant:
    """One consumer; ``spread`` says that a controller drives it, which keeps it where it is.

    ``pace`` bounds its rate in messages/second; 0 for none. ``offered`` messages/second are
    published; 0 for so many that the queue is never empty. ``burst`` is that of the bound; 0 for
    the usual one. ``later_pace`` is the bound in the end; 0 if it does not change. ``threads`` says
    that one handler is a pool as well: of one thread.
    """

    prefetch: float
    work: float
    round_trip: float
    handlers: int
    spread: bool
    interval: float = 1.0
    pace: float = 0.0
    offered: float = 0.0
    burst: float = 0.0
    later_pace: float = 0.0
    threads: bool = False

    @property
    def pooled(self) -> bool:
        """Whether messages are handed over as they come, and wait for a handler then."""
        return self.handlers > 1 or self.threads

    @property
    def expected_rate(self) -> float:
        """Messages/second by theory: slots over their loop, or what handlers can do."""
        slots = self.prefetch
        if self.spread and self.prefetch > 1 and not self.pace:
            slots = 1 + 0.75 * (self.prefetch - 1)
        rate = min(slots / (self.round_trip + self.work), self.handlers / self.work)
        return min(rate, self.later_pace or self.pace or math.inf, self.offered or math.inf)


def grid() -> Iterator[Plant]:
    """Prefetch 0.5 to 40, three kinds of work, two round trips, 1 and 4 handlers, spread or not."""
    prefetches = [0.5 * half for half in range(1, 81)]
    for prefetch, work, round_trip, handlers, spread in product(
        prefetches, (0.0005, 0.001, 0.003), (0.0003, 0.011), (1, 4), (False, True)
    ):
        yield Plant(prefetch, work, round_trip, handlers, spread)


class CoreWorld:
    """The core with a broker, a network and handlers that are exact to the last digit.

    One handler works inline: a message is handed over when the handler is free. Several are a
    pool: messages are handed over as they come, and wait there. Where the rate is bounded, they
    wait for their hand-over in the core.
    """

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self.now = start = STARTS_AT_SECONDS
        self.openings: list[float] = []
        """When acks that open a slot were sent."""
        self.arrivals = 0
        self.hand_overs: list[float] = []
        """When messages were handed over, where the rate is bounded."""
        self.samples: list[Sample] = []
        self.core = Core()
        shape = Shape(
            window="lanes",
            controlled=plant.spread,
            interval=plant.interval,
            handlers=plant.handlers if plant.pooled else None,
        )
        self.consumer = AdaptiveConsumer("tag", "queue", plant.prefetch, shape, start)
        self._order = count()
        self._events: list[tuple[float, int, str, int]] = []
        self._tags = count(1)
        self._buffer: deque[int] = deque()
        """Messages that the client has not looked at, or in the pool."""
        self._idle = plant.handlers
        self._published = count(1)
        if plant.pace:
            self.consumer.pace(plant.pace, plant.burst or None)
        self._lane = self.core.subscribe(self.consumer, start)
        self.core.lane_opened(self._lane, start)
        # The request reaches the broker now, so it was sent half a round trip before.
        asked = start - plant.round_trip / 2
        self.consumer.sensors._slots = deque([asked] * self._lane.size)
        for _ in range(self._lane.size):
            self._deliver()

    def run_for(self, seconds: float) -> None:
        """Let everything happen up to ``seconds`` after the start."""
        end = STARTS_AT_SECONDS + seconds
        while True:
            due = self._events[0][0] if self._events else math.inf
            hand_over_at = self.core.hand_over_at if self._may_hand_over else math.inf
            if min(due, self.core.wake_at, hand_over_at) > end:
                break
            if hand_over_at <= min(due, self.core.wake_at):
                self.now = max(self.now, hand_over_at)
                self._hand_over()
            elif self.core.wake_at <= due:
                self.now = max(self.now, self.core.wake_at)
                self.core.wake(self.now)
                while self.core.samples_due:
                    self._sample(self.core.samples_due.popleft())
            else:
                self.now, _, what, tag = heapq.heappop(self._events)
                if what == "arrive":
                    self._arrive(next(self._tags))
                elif what == "finish":
                    self._finish(tag)
                else:
                    self._deliver()
            self._send()
        self.now = end

    def _deliver(self) -> None:
        """The broker fills a slot as soon as the queue has a message."""
        number = next(self._published)
        waits = max(number / self.plant.offered - self.now, 0.0) if self.plant.offered else 0.0
        self._later(waits + self.plant.round_trip / 2, "arrive")

    @property
    def _may_hand_over(self) -> bool:
        """Whether the client's own thread does not run a handler."""
        return self.plant.pooled or self._idle > 0

    def _arrive(self, tag: int) -> None:
        if self.plant.pace:
            self._arrive_at_gate(tag)
            return
        if self.plant.pooled:
            self.core.delivered(self._lane, tag, self.now)
            self.core.returned(self.consumer, self.now, self.now)
        self._buffer.append(tag)
        self._serve()

    def _arrive_at_gate(self, tag: int) -> None:
        """A message comes to a consumer whose rate is bounded."""
        if self._may_hand_over:
            self.core.arrived(self._lane, tag, self.now, tag)
            self._hand_over()
        else:
            self._buffer.append(tag)  # the client looks at it when the handler has returned

    def _hand_over(self) -> None:
        while self._may_hand_over:
            tag = self.core.hand_over(self.consumer, self.now)
            if tag is None:
                break
            self.hand_overs.append(self.now)
            if self.plant.pooled:
                self.core.returned(self.consumer, self.now, self.now)
                self._buffer.append(tag)
                self._serve_pool()
            else:
                self._start(tag)

    def _serve_pool(self) -> None:
        while self._buffer and self._idle:
            self._start(self._buffer.popleft())

    def _start(self, tag: int) -> None:
        self._idle -= 1
        self.arrivals += 1
        self._later(self.plant.work, "finish", tag)

    def _serve(self) -> None:
        if self.plant.pace:
            if self.plant.pooled:
                self._serve_pool()
                return
            while self._buffer and self._idle:
                self._arrive_at_gate(self._buffer.popleft())
            self._hand_over()
            return
        if self._buffer and self._idle:
            tag = self._buffer.popleft()
            if not self.plant.pooled:
                self.core.delivered(self._lane, tag, self.now, len(self._buffer))
            self._start(tag)

    def _finish(self, tag: int) -> None:
        self._idle += 1
        self.core.acknowledged(tag, False, self.now)
        if not self.plant.pooled:
            self.core.returned(self.consumer, self.now - self.plant.work, self.now)
        self._serve()

    def _send(self) -> None:
        for _ in range(len(self.core.outbox)):
            self.openings.append(self.now)
            self._later(self.plant.round_trip / 2, "open")
        self.core.take_acks()
        assert not self.core.commands

    def _sample(self, consumer: AdaptiveConsumer) -> None:
        self.samples.append(consumer.observe())
        if self.plant.spread:
            consumer.actuate(self.plant.prefetch)
        self.core.sampled(consumer, self.now)
        if self.plant.later_pace and len(self.samples) == PACE_CHANGES_AFTER_SAMPLES:
            burst = self.plant.burst or None
            self.core.pace(consumer, self.plant.later_pace, burst, self.now)

    def _later(self, delay: float, what: str, tag: int = 0) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), what, tag))


class SimulatorWorld:
    """The same consumer in the compiled simulator."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        fast_enough = min(0.4 * plant.work / plant.handlers, MOST_SECONDS_BETWEEN_PUBLISHED)
        every = Duration(1 / plant.offered if plant.offered else fast_enough)
        scenario = Scenario(
            "steady",
            plant.interval,
            [Publishers("publishers", "queue", every)],
            [Queue("queue", max_length=20_000, overflow="drop-head")],
            [
                Consumer(
                    "consumer",
                    "queue",
                    Duration(plant.work),
                    handlers=plant.handlers,
                    link="link",
                    prefetch=0.0,
                )
            ],
            [Link("link", plant.round_trip)],
        )
        warming = SimulatedConsumer(scenario)
        self.simulation = warming.simulation
        self.simulation.run_until(STARTS_AT_SECONDS)
        self.consumer = SimulatedConsumer(scenario, simulation=self.simulation)
        self._samples = 0
        if plant.pace:
            self.consumer.pace(plant.pace, plant.burst or None)
        if plant.spread:
            self.consumer.actuate(plant.prefetch)
        else:
            self.simulation.set_prefetch("consumer", plant.prefetch)

    def observe(self) -> Sample:
        """The next sample."""
        sample = self.consumer.observe()
        self._samples += 1
        if self.plant.later_pace and self._samples == PACE_CHANGES_AFTER_SAMPLES:
            self.consumer.pace(self.plant.later_pace, self.plant.burst or None)
        return sample

    def acknowledged_at(self, seconds: float) -> int:
        """Messages whose ack had reached the broker ``seconds`` after the start."""
        while (self._samples + 1) * self.plant.interval <= seconds:
            self.observe()
        self.simulation.run_until(STARTS_AT_SECONDS + seconds)
        return self.simulation.counts.acknowledged


def rates(plant: Plant, samples: int = 30, judged: int = 6) -> tuple[float, float]:
    """Arrivals/second over the last samples: around the core, and in the simulator."""
    world = CoreWorld(plant)
    world.run_for((samples - judged) * plant.interval)
    before = world.arrivals
    world.run_for(samples * plant.interval)
    seconds = judged * plant.interval
    simulated = SimulatorWorld(plant)
    found = [simulated.observe().arrivals for _ in range(samples)]
    return (world.arrivals - before) / seconds, sum(found[-judged:]) / seconds


def samples_of(plant: Plant, number: int) -> tuple[Sample, Sample]:
    """The sample of this number: around the core, and in the simulator."""
    world = CoreWorld(plant)
    world.run_for((number + 0.5) * plant.interval)
    simulated = SimulatorWorld(plant)
    return world.samples[number - 1], [simulated.observe() for _ in range(number)][-1]


def instants_differ_at(plant: Plant, seconds: float, tolerance: float = 0.0001) -> float | None:
    """When the n-th slot was first not opened in both worlds at once; None if always.

    Each opening of the simulator is at most ``tolerance`` seconds from that of the core which has
    the same number.
    """
    world = CoreWorld(plant)
    world.run_for(seconds + tolerance)
    openings = [time - STARTS_AT_SECONDS for time in world.openings]
    bounds: list[tuple[float, float, float]] = [(seconds, 0, len(openings))]
    for number, time in enumerate(openings):
        bounds += (time - tolerance, 0, number), (time + tolerance, number + 1, math.inf)
    simulated = SimulatorWorld(plant)
    for time, fewest, most in sorted(bounds):
        if time > seconds:
            break
        opened = simulated.acknowledged_at(time + plant.round_trip / 2)
        if not fewest <= opened <= most:
            return time
    return None
