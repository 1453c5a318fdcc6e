"""A world: a clock, a network, a broker and a program with the core, all from one seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from controlmq.consumer.consumer import REFUSED_LANE_RETRY_SECONDS, Consumer
from tests.worlds.books import Subscription
from tests.worlds.broker import Broker, BrokerLane, BrokerQueue, Violation
from tests.worlds.circumstances import Circumstances, draw_rate, draw_target, draw_work, drawn
from tests.worlds.places import ANYWHERE, BROKER, CLIENT
from tests.worlds.program import LATEST_ACK_SECONDS, Program

FULL_CHECK_EVERY_EVENTS = 50
MOST_PUBLISHED = 200
"""Messages in a world that is not endless."""

MOST_EVENTS = 6000
"""Events after which a world that does not end is given up as one that cannot."""

SETTLING_WORK_SECONDS = 0.1
"""Work while a world settles on its last target, so that time passes in few events."""

SLOWER_NETWORK_SEEN_AFTER_SECONDS = 75.0
"""Where the delay of the network has grown, messages count as late until the lowest turnaround of a
minute has grown too. Until then no lane is retired."""

SHORTEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.0001, 0.3
"""One direction of a network whose delay changes."""

LONGEST_STALL_SECONDS = 2.0
"""For which nothing comes from the broker, and then everything at once."""

SHRINKING_SECONDS = 2.0
"""``max_hold`` that is enough for every lane to be retired in these worlds."""

Event = Callable[[Any, Any], None]

HEAVIEST_WORK = {"constant": 1.0, "uniform": 2.0, "exponential": 12.0, "heavy": 200.0}
"""Times the mean that work takes at most, or nearly so."""


class World:
    """Runs ``circumstances``, or those that the seed draws, and raises what is violated."""

    def __init__(
        self, seed: int, circumstances: Circumstances | None = None, name: str = ""
    ) -> None:
        self.name = name or str(seed)
        """What ``python -m tests.worlds`` replays it by."""
        rng = random.Random(seed)
        self.random = rng.random
        self.circumstances = given = circumstances or drawn(rng, seed)
        self.trace: Callable[[str], None] | None = None
        self.now = 0.0
        self.events = 0
        self.requeued = 0
        self.duplicates = 0
        self.crashes = 0
        self.blocked = False
        self.acknowledged: set[int] = set()
        """Messages that the user has acknowledged, whether or not the broker knows."""
        self.work = draw_work(given.work, given.mean_work, rng.random)
        self.queues = [BrokerQueue(given.single_active)]
        if given.second_target:
            self.queues.append(BrokerQueue(given.single_active))
        self.broker = Broker(rng, self.queues, self._deliver, given.in_turn)
        self.subscription_of: dict[Consumer, Subscription] = {}
        self.program = Program(self)
        self._heap: list[tuple[float, int, int, Event, Any, Any]] = []
        self._number = 0
        self._at_client = self._at_broker = 0.0
        self._stalled: list[tuple[Event, Any, Any]] = []
        self._next_disturbance: float = math.inf
        self._network = random.Random(f"network {seed}").random
        """A stream of its own: all else draws as it would with a network that is not restless."""
        self._next_network_change: float = math.inf
        self._done = 0
        self._progress_at = 0.0
        longest_work = HEAVIEST_WORK[given.work] * given.mean_work
        self._patience = 2 * given.max_hold + 2 * longest_work + 4 * LATEST_ACK_SECONDS + 5
        self._steady = given.steady and not given.controlled
        self._open_slots = 0
        self._slots_missing = 0.0
        self._slots_since = 0.0
        round_trip = 2 * (given.delay + given.jitter)
        self._most_slots_missing = 2 * (round_trip + longest_work)

    # The network

    def push(self, when: float, where: int, happen: Event, first: Any, second: Any) -> None:
        self._number += 1
        heappush(self._heap, (when, self._number, where, happen, first, second))

    def to_broker(self, happen: Event, first: Any, second: Any) -> None:
        given = self.circumstances
        arrival = self.now + given.delay
        if given.jitter:
            arrival += given.jitter * self.random()
        if arrival < self._at_broker:
            arrival = self._at_broker
        self._at_broker = arrival
        self._number += 1
        heappush(self._heap, (arrival, self._number, BROKER, happen, first, second))

    def to_client(self, happen: Event, first: Any, second: Any, where: int = CLIENT) -> None:
        given = self.circumstances
        arrival = self.now + given.delay
        if given.jitter:
            arrival += given.jitter * self.random()
        if arrival < self._at_client:
            arrival = self._at_client
        self._at_client = arrival
        self._number += 1
        heappush(self._heap, (arrival, self._number, where, happen, first, second))

    def _deliver(self, lane: BrokerLane, tag: int, message: int) -> None:
        self.to_client(self.program.on_message, lane.lane, (tag, message))

    # The run

    def run(self) -> World:
        """Everything from the first subscription until nothing is left to happen."""
        try:
            self._run()
        except Violation as violation:
            raise Violation(
                f"{violation} (event {self.events}, {self.now:.6f} s); "
                f"replay with: python -m tests.worlds {self.name}"
            ) from violation
        except Exception as error:
            raise Violation(
                f"{type(error).__name__}: {error} (event {self.events}, {self.now:.6f} s); "
                f"replay with: python -m tests.worlds {self.name}"
            ) from error
        return self

    def _run(self) -> None:
        given = self.circumstances
        self.begin()
        if given.disturbed_every:
            self._next_disturbance = self._draw_disturbance()
            if given.restless_network:
                self._next_network_change = self._draw_network_change()
        while not self.advance(given.events):
            self._restart()
        self._next_disturbance = self._next_network_change = math.inf
        self._unblock()
        if given.ending == "settle":
            self._settle()
        elif given.ending == "drain":
            self._drain()
        self._stop()

    def begin(self) -> None:
        """Messages are there, and the first consumers subscribe."""
        given = self.circumstances
        for queue in self.queues:
            self.broker.publish(queue, given.backlog)
            queue.endless = given.steady
        self._start()
        self._open_slots = self.program.subscriptions[0].asked

    def _start(self) -> None:
        given, program, broker = self.circumstances, self.program, self.broker
        self._progress_at = self.now
        self.subscription_of = {}
        for _ in range(given.old_messages):
            got = broker.get(self.queues[0])
            if got is not None:
                program.unanswered[got[0]] = program.unacked[got[0]] = None, None
                program.foreign += 1
                program.last_tag = got[0]
                self.push(self.now + 0.05, CLIENT, program.answer, *got)
        program.subscribe("first", given.target, self.queues[0])
        if given.second_target:
            program.subscribe("second", given.second_target, self.queues[1])
        if given.transactions:
            self.push(self.now + 0.01, CLIENT, lambda *_: program.begin(), None, None)

    def advance(self, events: float = math.inf, until: float = math.inf) -> bool:
        """Let things happen until this number of events or this time; whether anything is left."""
        heap = self._heap
        broker = self.broker
        queues = self.queues
        steady = self._steady
        late = self.circumstances.timers_late
        while self.events < events:
            program = self.program
            core = program.core
            wake_at = math.inf if program.busy else min(core.wake_at, core.hand_over_at) + late
            if heap and heap[0][0] <= wake_at:
                if heap[0][0] > until:
                    break
                self.now, _, where, happen, first, second = heappop(heap)
                self.events += 1
                if self.trace:
                    self.trace(f"{self.now:.6f} {happen.__name__} {first} {second}")
                if where == BROKER:
                    if self.blocked:
                        self._stalled.append((happen, first, second))
                        continue
                    happen(first, second)
                elif where == CLIENT and program.busy:
                    self.events -= 1  # it happens later
                    program.inbox.append((happen, first, second))
                    continue
                else:
                    happen(first, second)
                    program.attend()
                    program.check()
            elif wake_at < math.inf:
                if wake_at > until:
                    break
                if wake_at > self.now:
                    self.now = wake_at
                self.events += 1
                if self.trace:
                    self.trace(f"{self.now:.6f} wake")
                program.attend()
                if self.now >= core.hand_over_at:
                    program.hand_over_due()
                program.check()
                self._check_progress()
                self._commit()
            else:
                return False
            ready = len(queues[0].ready) if len(queues) == 1 else sum(len(q.ready) for q in queues)
            out = len(broker.unacked) + len(broker.kept)
            if broker.published != ready + out + broker.done:
                raise Violation("a message is lost, or in two places")
            if steady:
                self._check_mean()
            if self.events % FULL_CHECK_EVERY_EVENTS == 0:
                program.check_all()
            if self.events >= self._next_network_change:
                self._next_network_change = self._draw_network_change()
                self._change_network()
            if self.events >= self._next_disturbance:
                self._next_disturbance = self._draw_disturbance()
                self._disturb()
                self.program.check()
        return True

    def _check_progress(self) -> None:
        """Where messages are ready and a consumer takes them, some are done with soon."""
        could = any(each.alive and each.queue.ready for each in self.program.subscriptions)
        if self.broker.done != self._done or self.blocked or not could:
            self._done = self.broker.done
            self._progress_at = self.now
        elif self.now - self._progress_at > self._patience:
            raise Violation(f"nothing happens for {self._patience:g} s: a deadlock")

    def _check_mean(self) -> None:
        """Open slots are the target in the mean over time, however long."""
        each = self.program.subscriptions[0]
        self._slots_missing += (each.target - self._open_slots) * (self.now - self._slots_since)
        self._slots_since = self.now
        self._open_slots = each.asked - each.held
        if abs(self._slots_missing) > self._most_slots_missing:
            raise Violation(
                f"{self._slots_missing / self.now:+.3g} open slots are missing in the mean"
            )

    # Disturbances

    def _draw_disturbance(self) -> float:
        return self.events + 1 + 2 * self.random() * self.circumstances.disturbed_every

    def _disturb(self) -> None:
        chosen, program = self.random(), self.program
        subscriptions = program.subscriptions
        one = subscriptions[int(self.random() * len(subscriptions))]
        if self.trace:
            self.trace(f"{self.now:.6f} disturbance {chosen:.2f}")
        if chosen < 0.35:
            if self.broker.published < MOST_PUBLISHED:
                self.broker.publish(one.queue, 1 + int(40 * self.random()))
        elif chosen < 0.75:
            if self.circumstances.at_most and self.random() < 0.3:
                self._client_does(program.pace, one, draw_rate(self.random))
            else:
                self._client_does(program.retarget, one, draw_target(self.random))
        elif chosen < 0.88:
            if self.blocked:
                self._unblock()
            else:
                self.blocked = True
                self.to_client(program.on_blocked, None, None)
                self.push(self.now + 3 * self.random() ** 3, ANYWHERE, self._unblock, None, None)
        elif chosen < 0.91:
            self._client_does(program.fix, *((None, None) if self.random() < 0.5 else (5.0, None)))
        elif chosen < 0.94:
            self._client_does(program.stop, one, None)
        elif chosen < 0.97:
            self._crash()
        elif one.queue.lanes:
            lane = one.queue.lanes[int(self.random() * len(one.queue.lanes))]
            one.doomed = True
            self.to_client(program.on_cancelled, lane.lane, None)
            if self.random() < 0.5:
                # Else it stays until the client cancels it, as after a consumer timeout of
                # RabbitMQ 4.3.
                self.broker.cancel(lane.tag)

    def _draw_network_change(self) -> float:
        return self.events + 1 + 4 * self._network() * self.circumstances.disturbed_every

    def _change_network(self) -> None:
        """Its delay changes, or deliveries stall and then come in a bunch."""
        if self._network() < 0.5:
            longer = LONGEST_DELAY_SECONDS / SHORTEST_DELAY_SECONDS
            self.circumstances.delay = SHORTEST_DELAY_SECONDS * longer ** self._network()
        else:
            stalled_until = self.now + LONGEST_STALL_SECONDS * self._network() ** 3
            self._at_client = max(self._at_client, stalled_until)
        if self.trace:
            self.trace(
                f"{self.now:.6f} network: delay {self.circumstances.delay:.6f}, "
                f"next from the broker at {self._at_client:.6f}"
            )

    def _client_does(self, happen: Event, first: Any, second: Any) -> None:
        if self.program.busy:
            self.program.inbox.append((happen, first, second))
        else:
            happen(first, second)
            self.program.attend()

    def _unblock(self, *_: Any) -> None:
        """The broker reads again, first of all what has been waiting."""
        if self.blocked:
            self.blocked = False
            self.to_client(self.program.on_unblocked, None, None)
            stalled, self._stalled = self._stalled, []
            for happen, first, second in stalled:
                happen(first, second)

    def _restart(self) -> None:
        """All consumers were cancelled: the user starts again on a new channel."""
        disturbance, self._next_disturbance = self._next_disturbance, math.inf
        self._commit()
        self.advance()
        self._next_disturbance = disturbance
        self._check_stopped()
        self.broker.close()
        self.program = Program(self)
        self._start()

    def _crash(self) -> None:
        """The program dies; part of what it sent last still arrives. Another one takes over."""
        self.crashes += 1
        self.program.check()
        sent = sorted(event for event in self._heap if event[2] == BROKER)
        arriving = [*self._stalled, *(event[3:] for event in sent)]
        for happen, first, second in arriving[: int(self.random() * (len(arriving) + 1))]:
            happen(first, second)
        self._heap[:] = [event for event in self._heap if event[3] == self._unblock]
        heapify(self._heap)
        self._stalled = []
        self.blocked = False
        self.broker.close()
        self.program = Program(self)
        self._at_client = self._at_broker = self.now
        self._start()

    # Endings

    def _alive(self) -> list[Subscription]:
        return [each for each in self.program.subscriptions if each.alive]

    def _settle(self) -> None:
        """With messages at hand the window reaches its last target."""
        self.work = lambda: SETTLING_WORK_SECONDS
        target = 1 + 9 * self.random()
        for each in self._alive():
            each.queue.endless = True
            self._client_does(self.program.retarget, each, target)
            self.broker.pump(each.queue)
        given = self.circumstances
        until = self.now + 2 * (given.max_hold + self._patience) + 3 * given.interval
        if given.restless_network:
            until += SLOWER_NETWORK_SEEN_AFTER_SECONDS
        if given.refusals:
            given.refusals = 0.0
            until += 2 * REFUSED_LANE_RETRY_SECONDS
        most = self.events + MOST_EVENTS
        while self.events < most:
            wrong = [each for each in self._alive() if not self._settled(each)]
            if not wrong:
                break
            if not self.advance(self.events + 20, until):
                break
            if self.now >= until - given.interval:
                each = wrong[0]
                raise Violation(
                    f"the window stays at {each.asked} slots less {each.held}, not {each.target:g}"
                )
        for queue in self.queues:
            queue.endless = False

    def _settled(self, each: Subscription) -> bool:
        """Whether a consumer has the slots that its target asks for."""
        given = self.circumstances
        if given.window == "auto" and given.single_active:
            return each.lanes == 1
        if each.consumer.kind == "single":
            return True
        if each.asked < math.ceil(each.target):
            return False
        if each.consumer.kind == "auto":
            return True  # it has not shown that it shares, so that no lane is retired
        slots = sum(lane.size for lane in each.queue.lanes) - each.held
        # A lane goes once all its messages have come, for which acks must be kept long enough,
        # and the client of handlers that it runs itself must tell what has come.
        shrinks = given.max_hold >= SHRINKING_SECONDS and not given.transactions
        shrinks = shrinks and bool(given.door or given.handlers) and not given.single_active
        return slots <= max(1, math.ceil(each.target)) or not shrinks

    def _drain(self) -> None:
        """Every message is done with in the end."""
        for each in self._alive():
            self._client_does(self.program.retarget, each, 1 + 7 * self.random())
        most = self.events + MOST_EVENTS
        while any(each.queue.ready or each.queue.in_flight for each in self._alive()):
            if not self.advance(self.events + 20):
                break
            self._commit()
            if self.events > most:
                raise Violation("the queue is never drained")

    def _stop(self) -> None:
        """Stop at whatever instant this is: nothing is held, lost or left unacknowledged."""
        self._steady = False
        for each in self.program.subscriptions:
            each.queue.endless = False
            self._client_does(self.program.stop, each, None)
        while self.advance(self.events + 20):
            self._commit()
        self._commit()
        self.advance()
        self._check_stopped()

    def _commit(self) -> None:
        if self.program.committing is not None:
            self._client_does(self.program.commit, False, None)

    def _check_stopped(self) -> None:
        self.program.check_all()
        if self.program.owed:
            raise Violation(f"acks of {list(self.program.owed)} were given and never sent")
        if self.broker.unacked:
            raise Violation(f"{list(self.broker.unacked)} stay unacknowledged after the stop")
