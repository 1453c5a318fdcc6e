"""A world of members that share a rate: a log, processes, connections and clocks, from a seed.

Every member is the object that runs live, before the gate that runs live. Nothing else is real:
records take their time in both directions, in order; connections are cut, with or without what was
on the way; processes stand still, are killed and started; clocks have other times and run at other
speeds; a broker that is killed may lose the end of its log. After every event the shares that may
be in use are added up, and at the end the hand-overs of every stretch.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.hand_over_gate import Arrived
from controlmq.sharing.bound import bound_of
from controlmq.sharing.member import Member
from controlmq.sharing.shares import Holding, Shares
from tests.worlds.broker import Violation

FASTEST_DRIFT = 1e-3
"""Part by which a clock may run too fast or too slow."""

SETTLING_SECONDS = 12.0
"""Seconds without disturbances after which the whole rate must be in use."""

SEGMENT = 40
"""Positions of a segment of the log."""

LEAST_IN_USE = 0.97
"""Part of the rate that must be in use then."""


class Connection:
    """From one process to the log and back; each way keeps the order."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.reading = False
        self.lost_after = math.inf
        """From then on nothing arrives at the log or at the process."""
        self.last_up = self.last_down = -math.inf


class Process:
    """A process with one member, its gate, and a clock of its own."""

    def __init__(self, world: World, number: int) -> None:
        rng = world.rng
        self.world = world
        self.number = number
        self._offset = rng.uniform(0, 1e5)
        self._speed = 1 + rng.uniform(-FASTEST_DRIFT, FASTEST_DRIFT)
        names = (f"{number}.{each}" for each in count())
        self.member = Member(world.goal, lambda: next(names))
        self.consumer = Consumer("tag", "queue", 10, Shape(), self.clock())
        self.consumer.share(world.goal, 1.0, -math.inf)
        self.connection: Connection | None = None
        self.alive = True
        self.stalled_until = -math.inf
        self.delay = self.usual_delay = rng.choice((0.0005, 0.002, 0.02))
        self.demand = rng.choice((math.inf, math.inf, world.goal / 20))
        """Messages/second that come; without end where it is infinite."""
        self.times: list[float] = []
        self._missed: deque[Callable[[], None]] = deque()
        self._timer = 0
        self._offers = 0
        self.world.at(world.now, self.connect)
        self._next_arrival()

    def clock(self) -> float:
        return self._offset + self._speed * self.world.now

    def _real(self, local: float) -> float:
        return (local - self._offset) / self._speed

    def run(self, action: Callable[[], None]) -> None:
        """Have the process do this, now or when it runs again."""
        if not self.alive:
            return
        if self.world.now < self.stalled_until:
            if not self._missed:
                self.world.at(self.stalled_until, self._catch_up)
            self._missed.append(action)
            return
        action()
        self._follow()

    def _catch_up(self) -> None:
        if self.world.now < self.stalled_until:
            self.world.at(self.stalled_until, self._catch_up)
            return
        missed, self._missed = self._missed, deque()
        for action in missed:
            if self.alive:
                action()
                self._follow()

    def _follow(self) -> None:
        """What the runner of a member does after every event."""
        member, consumer, world = self.member, self.consumer, self.world
        member.need = world.goal if self.demand > world.goal else 1.1 * self.demand
        consumer.now = self.clock()
        consumer.share(*bound_of(member.share, member.until, world.goal, None))
        world.check()
        records, member.outbox = member.outbox, []
        for record in records:
            if self.connection is not None:
                world.send(self.connection, record)
        self._set_timer()
        self._offer()

    def _set_timer(self) -> None:
        self._timer += 1
        number, rng = self._timer, self.world.rng
        if self.member.wake_at < math.inf:
            when = max(self.world.now, self._real(self.member.wake_at)) + 0.01 * rng.random()
            self.world.at(when, lambda: self._on_timer(number))

    def _on_timer(self, number: int) -> None:
        if number == self._timer:
            self.run(lambda: self.member.wake(self.clock()))

    # Messages

    def _next_arrival(self) -> None:
        if self.demand < math.inf and self.alive:
            self.world.after(self.world.rng.expovariate(self.demand), self._arrive)

    def _arrive(self) -> None:
        if self.alive:
            self.consumer.gate.waiting.append(Arrived(0, None, self.clock(), None))  # type: ignore[arg-type]
            self._next_arrival()
            self._offer()

    def _offer(self) -> None:
        """Take the next message as soon as the gate lets it go."""
        gate = self.consumer.gate
        if self.demand == math.inf and not gate.waiting:
            gate.waiting.append(Arrived(0, None, self.clock(), None))  # type: ignore[arg-type]
        if gate.ask_at < math.inf:
            self._offers += 1
            number = self._offers
            late = self.world.rng.choice((0.0, 0.0, 0.001, 0.008))
            when = max(self.world.now, self._real(gate.ask_at))
            self.world.at(when + late, lambda: self._hand_over(number))

    def _hand_over(self, number: int) -> None:
        if number != self._offers or not self.alive:
            return
        if self.world.now < self.stalled_until:
            self.world.at(self.stalled_until, lambda: self._hand_over(number))
            return
        while self.consumer.gate.take(self.clock()) is not None:
            self.times.append(self.world.now)
        self._offer()

    # Connections

    def connect(self) -> None:
        if self.alive:
            connection = self.connection = Connection(self)
            self.world.after(2 * self.delay, lambda: self.world.attach(connection))

    def disconnect(self, lost_after: float) -> None:
        """The connection is cut; what is on the way arrives until ``lost_after``."""
        connection = self.connection
        if connection is None:
            return
        self.connection = None
        connection.lost_after = lost_after
        rng = self.world.rng

        def notice() -> None:
            self.member.closed(self.clock())
            self.world.after(rng.choice((0.1, 1.0)), self.connect)

        # It may take some time until the process knows.
        self.world.after(rng.choice((0.0, 0.0, 3.0)), lambda: self.run(notice))


class World:
    """Everything that happens, in one order."""

    def __init__(self, seed: int, *, members: int | None = None, calm: bool = False) -> None:
        self.seed = seed
        self.calm = calm
        self.rng = rng = random.Random(f"sharing {seed}")
        self.goal = rng.choice((5.0, 40.0, 100.0))
        self.now = 0.0
        self.log: list[bytes] = []
        self.processes: list[Process] = []
        self.disturbed_until = 0.0
        self.most_burst = 0.0
        self.records = 0
        self._crashes = 0
        self._shares: dict[int, dict[str, Holding]] = {}
        """The shares after each record of the log."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        for _ in range(members or rng.randint(1, 5)):
            self.after(rng.choice((0.0, 0.0, 3.0)) * rng.random(), self.start)
        if not calm:
            self._disturb()

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def advance(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until

    def start(self) -> None:
        self.processes.append(Process(self, len(self.processes)))

    # The log

    def attach(self, connection: Connection) -> None:
        """The log reports what is written from now on to a connection."""
        if self.now < connection.lost_after:
            connection.reading = True
            process = connection.process
            self._down(connection, lambda: process.member.opened(process.clock()))

    def send(self, connection: Connection, record: bytes) -> None:
        """A record on its way to the log."""
        delay = connection.process.delay * self.rng.uniform(0.5, 1.5)
        connection.last_up = max(connection.last_up, self.now + delay)
        self.at(connection.last_up, lambda: self._append(connection, record))

    def _append(self, connection: Connection, record: bytes) -> None:
        if self.now >= connection.lost_after:
            return
        if len(self.log) % SEGMENT == SEGMENT - 1:
            self.log.append(b"")  # a new segment begins with a position that has no record
        position = len(self.log)
        self.log.append(record)
        self.records += 1
        for process in self.processes:
            reader = process.connection
            if reader is not None and reader.reading:
                self._down(reader, self._reading(process, position, record))

    def _reading(self, process: Process, position: int, record: bytes) -> Callable[[], None]:
        def read() -> None:
            process.member.read(position, record, process.clock())
            # What was read of a log before it lost its end may be another record.
            same_log = crashes == self._crashes
            shares = process.member.shares
            if shares is not None and process.member._read == position and same_log:
                self._check_shares(position, shares)

        crashes = self._crashes

        return read

    def _check_shares(self, position: int, shares: Shares) -> None:
        """All that have read as far have the same shares."""
        if self._shares.setdefault(position, dict(shares.members)) != shares.members:
            raise Violation(f"shares differ after record {position}{self._replay}")

    def _down(self, connection: Connection, action: Callable[[], None]) -> None:
        process = connection.process
        delay = process.delay * self.rng.uniform(0.5, 1.5)
        connection.last_down = max(connection.last_down, self.now + delay)

        def arrive() -> None:
            if self.now < connection.lost_after:
                process.run(action)

        self.at(connection.last_down, arrive)

    # Disturbances

    def _disturb(self) -> None:
        for _ in range(self.rng.randint(1, 8)):
            when = self.rng.uniform(0, 30)
            self.at(when, self.rng.choice(self._disturbances()))

    def _disturbances(self) -> Sequence[Callable[[], None]]:
        return (
            self._kill,
            self._stall,
            self._cut,
            self._delay,
            self._join,
            self._leave,
            self._crash,
        )

    def _some(self) -> Process | None:
        alive = [each for each in self.processes if each.alive]
        return self.rng.choice(alive) if alive else None

    def _lasting(self, seconds: float) -> float:
        self.disturbed_until = max(self.disturbed_until, self.now + seconds)
        return self.now + seconds

    def _kill(self) -> None:
        process = self._some()
        self._lasting(0)
        if process is not None:
            process.alive = False
            if process.connection is not None:
                process.connection.lost_after = self.now + self.rng.choice((0.0, 5.0))

    def _stall(self) -> None:
        process = self._some()
        seconds = self.rng.choice((0.5, 3.0, 4.05, 4.3, 5.5, 9.0))
        if process is not None:
            process.stalled_until = max(process.stalled_until, self._lasting(seconds))

    def _cut(self) -> None:
        process = self._some()
        self._lasting(4)
        if process is not None:
            process.disconnect(self.now + self.rng.choice((0.0, 0.001, 2.0)))

    def _delay(self) -> None:
        """A slow network, or a part of the cluster that cannot be reached for some time."""
        process = self._some()
        seconds = self.rng.choice((0.2, 2.0, 6.0))
        if process is not None:
            process.delay = seconds

            def heal() -> None:
                process.delay = process.usual_delay

            self.at(self._lasting(seconds), heal)
            self._lasting(3 * seconds)

    def _join(self) -> None:
        self._lasting(0)
        self.start()

    def _leave(self) -> None:
        process = self._some()
        self._lasting(0)
        if process is not None:

            def leave() -> None:
                process.member.leave()

            def end() -> None:
                process.alive = False

            process.run(leave)
            self.after(1.0, end)

    def _crash(self) -> None:
        """The broker is killed and comes back, perhaps without the end of its log."""
        self._lasting(4)
        lost = self.rng.choice((0, 0, 1, 3))
        del self.log[max(0, len(self.log) - lost) :]
        self._crashes += 1
        self._shares = {
            each: shares for each, shares in self._shares.items() if each < len(self.log)
        }
        for process in self.processes:
            process.disconnect(self.now)

    # What must hold

    def in_use(self) -> float:
        """Messages/second that all leases together allow."""
        return math.fsum(self._buckets(lambda rate, _: rate))

    def _buckets(self, value: Callable[[float, float], float]) -> list[float]:
        found = []
        for process in self.processes:
            gate = process.consumer.gate
            if process.alive and process.clock() < gate.until and gate.bucket is not None:
                found.append(value(gate.bucket.rate, gate.bucket.burst))
        return found

    def check(self) -> None:
        if self.in_use() > self.goal:
            raise Violation(
                f"{self.in_use():g}/s are in use, {self.goal:g}/s allowed{self._replay}"
            )
        self.most_burst = max(self.most_burst, math.fsum(self._buckets(lambda _, burst: burst)))

    def check_stretches(self) -> None:
        """No stretch of T seconds has more hand-overs than ``goal * T`` and the bursts."""
        times = sorted(time for process in self.processes for time in process.times)
        lowest, worst = math.inf, -math.inf
        for number, time in enumerate(times):
            height = number - self.goal * time
            lowest = min(lowest, height)
            worst = max(worst, height + 1 - lowest)
        if worst > self.most_burst + 1e-6:
            raise Violation(
                f"a stretch has {worst:g} hand-overs more than the rate, {self.most_burst:g} "
                f"allowed{self._replay}"
            )

    def check_live(self) -> None:
        """What is allowed is in use, where there is a process that could use it."""
        alive = [each for each in self.processes if each.alive and each.connection is not None]
        if any(each.member.shares is None for each in alive):
            raise Violation(f"a newcomer never learnt the shares{self._replay}")
        if alive and self.in_use() < LEAST_IN_USE * self.goal:
            raise Violation(
                f"{self.in_use():g}/s are in use {SETTLING_SECONDS:g} s after disturbances, "
                f"{self.goal:g}/s allowed{self._replay}"
            )

    @property
    def _replay(self) -> str:
        return f" at {self.now:.3f} s; replay with: python -m tests.sharing {self.seed}"

    def run(self) -> World:
        self.advance(31.0)
        self.advance(max(self.now, self.disturbed_until) + SETTLING_SECONDS)
        self.check_live()
        self.check_stretches()
        return self
