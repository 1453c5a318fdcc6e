"""The window against a model of a broker that does what RabbitMQ was seen to do."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from controlmq.rabbitmq.lanes import Held, Lane
from controlmq.rabbitmq.ledger import Ack, Ledger
from controlmq.rabbitmq.window import Cancel, Open, Window
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

MAX_HELD = 30
MAX_HOLD = 2.0


@dataclass
class BrokerLane:
    size: int
    unacked: set[int] = field(default_factory=set)
    cancelled: bool = False


class ModelBroker:
    """Lanes with windows that add up, behind a network that delays but keeps order."""

    def __init__(self) -> None:
        self.ready = 0
        self.lanes: dict[str, BrokerLane] = {}
        self.requests: deque[tuple[str, str, int]] = deque()
        self.deliveries: deque[tuple[str, int]] = deque()
        self.redelivered = 0
        self._tags = 0

    def process(self) -> None:
        """Take one request from the network."""
        kind, lane_tag, number = self.requests.popleft()
        if kind == "consume":
            assert lane_tag not in self.lanes, "a consumer tag was used twice"
            self.lanes[lane_tag] = BrokerLane(number)
        elif kind == "cancel":
            self.lanes[lane_tag].cancelled = True
            # pika rejects what arrives for a lane that it has cancelled.
            self.redelivered += sum(lane == lane_tag for lane, _ in self.deliveries)
        else:
            self.lanes[lane_tag].unacked.remove(number)

    def deliver(self, choice: int) -> None:
        """Send one message to one of the lanes with room."""
        room = [tag for tag, lane in self.lanes.items() if self._has_room(lane)]
        if room and self.ready:
            tag = room[choice % len(room)]
            self._tags += 1
            self.ready -= 1
            self.lanes[tag].unacked.add(self._tags)
            self.deliveries.append((tag, self._tags))

    @staticmethod
    def _has_room(lane: BrokerLane) -> bool:
        return not lane.cancelled and len(lane.unacked) < lane.size

    @property
    def in_flight(self) -> int:
        return sum(len(lane.unacked) for lane in self.lanes.values())

    @property
    def active(self) -> int:
        return sum(not lane.cancelled for lane in self.lanes.values())


class WindowMachine(RuleBasedStateMachine):
    """Random targets, acks, refusals, dry spells and delays, in any order."""

    @initialize(aim=st.floats(0.1, 40), first=st.integers(1, 20))
    def start(self, aim: float, first: int) -> None:
        self.now = 0.0
        self.broker = ModelBroker()
        self.window = Window(aim, 0.0, max_held=MAX_HELD, max_hold=MAX_HOLD, linger=0.5)
        self.lanes: dict[str, Lane] = {}
        self.ledger: Ledger[Lane] = Ledger()
        self.seen: list[int] = []
        self.acked: set[int] = set()
        self.bound = max(math.ceil(aim), first)
        self._open(first)

    def _open(self, size: int) -> None:
        tag = f"lane-{len(self.lanes)}"
        self.lanes[tag] = self.window.opened(tag, size)
        self.broker.requests.append(("consume", tag, size))

    def _send(self, released: list[Held]) -> None:
        for held in released:
            assert held.tag not in self.acked, "acknowledged twice"
            self.acked.add(held.tag)
            self.broker.requests.append(("ack", held.lane.tag, held.tag))

    def _attend(self) -> None:
        self._send(self.window.release(self.now))
        while (decision := self.window.decide(self.now)) is not None:
            if isinstance(decision, Open):
                self._open(decision.size)
            else:
                assert isinstance(decision, Cancel)
                self.broker.requests.append(("cancel", decision.lane.tag, 0))
                self.window.cancelled(decision.lane)
                self._send(self.window.release(self.now))

    @rule(count=st.integers(1, 60))
    def publish(self, count: int) -> None:
        self.broker.ready += count

    @rule(choices=st.lists(st.integers(0, 7), max_size=40))
    def broker_delivers(self, choices: list[int]) -> None:
        for choice in choices:
            self.broker.deliver(choice)

    @rule(count=st.integers(1, 40))
    def requests_arrive(self, count: int) -> None:
        for _ in range(min(count, len(self.broker.requests))):
            self.broker.process()

    @rule(count=st.integers(1, 40))
    def deliveries_arrive(self, count: int) -> None:
        for _ in range(min(count, len(self.broker.deliveries))):
            lane_tag, tag = self.broker.deliveries.popleft()
            lane = self.lanes[lane_tag]
            lane.received += 1
            self.ledger.unacked[tag] = lane
            self.seen.append(tag)
            if self.window.idle:
                self.window.wake(self.now)

    @precondition(lambda self: self.ledger.unacked)
    @rule(choices=st.lists(st.integers(0, 99), min_size=1, max_size=30))
    def handlers_acknowledge(self, choices: list[int]) -> None:
        for choice in choices:
            tags = list(self.ledger.unacked)
            if tags:
                tag = tags[choice % len(tags)]
                self.window.hold(tag, self.ledger.unacked.pop(tag), self.now)
                self._send(self.window.release(self.now))

    @precondition(lambda self: self.ledger.unacked)
    @rule(choice=st.integers(0, 99))
    def a_handler_rejects(self, choice: int) -> None:
        tags = list(self.ledger.unacked)
        tag = tags[choice % len(tags)]
        lane = self.ledger.unacked.pop(tag)
        self.broker.requests.append(("ack", lane.tag, tag))
        self.window.settled(lane)

    @rule(aim=st.floats(0, 40), spacing=st.sampled_from([0.0, 0.001, 0.1]))
    def retarget(self, aim: float, spacing: float) -> None:
        # Acks of cancelled lanes count for the broker until it has them.
        under_way = sum(
            kind == "ack" and self.lanes[lane].cancelled for kind, lane, _ in self.broker.requests
        )
        self.bound = max(math.ceil(aim), self.window.granted + under_way)
        self.window.retarget(aim, self.now)
        self.window.spacing = spacing
        self._attend()

    @rule(seconds=st.floats(0.0001, 1))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self._attend()
        for held in self.window.all_held():
            assert self.now - held.since < MAX_HOLD

    @rule()
    def the_queue_is_dry(self) -> None:
        self._send(self.window.rest(self.now))
        assert self.window.held == 0

    @invariant()
    def nothing_is_requeued(self) -> None:
        assert self.broker.redelivered == 0

    @invariant()
    def the_broker_never_has_more_in_flight_than_allowed(self) -> None:
        assert self.broker.in_flight <= self.bound
        assert self.window.granted <= self.bound

    @invariant()
    def some_lane_is_always_subscribed(self) -> None:
        assert self.window.subscribed
        if self.broker.lanes:
            assert self.broker.active > 0

    @invariant()
    def no_more_acks_are_held_than_allowed(self) -> None:
        assert self.window.held <= MAX_HELD
        assert self.window.held == len(self.window.all_held())

    @invariant()
    def deliveries_ascend(self) -> None:
        assert self.seen == sorted(set(self.seen))


WindowMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=60)
TestWindow = WindowMachine.TestCase


class Consumer:
    """A consumer that handles each message ``turnaround`` seconds after its slot was released."""

    def __init__(self, target: float, turnaround: float) -> None:
        self.window = Window(target, 0.0, max_held=50, max_hold=10, linger=3)
        self.turnaround = turnaround
        self.handled: list[float] = []
        self.slot_seconds = 0.0
        self.lane = self.window.opened("only", max(1, math.ceil(target)))
        self._due = deque([turnaround] * self.lane.size)
        self._tag = 0

    def run(self, until: float, now: float = 0.0) -> None:
        """Messages come when their slots are due, acks when the window lets them go."""
        while now < until:
            due = self._due[0] if self._due else math.inf
            then = min(due, max(now + 1e-6, self.window.deadline(now)), until)
            self.slot_seconds += self.window.open_slots * (then - now)
            now = then
            apart = now != due
            if not apart:
                self._due.popleft()
                self._tag += 1
                self.lane.received += 1
                self.handled.append(now)
                self.window.hold(self._tag, self.lane, now)
            self._due.extend([now + self.turnaround] * len(self.window.release(now, apart)))


@pytest.mark.parametrize("target", [0.1, 0.45, 0.9, 1.5, 2.01, 6.3, 6.99])
def test_a_fraction_is_met_on_average(target: float) -> None:
    consumer = Consumer(target, turnaround=0.015)
    consumer.run(until=60)
    assert consumer.slot_seconds / 60 == pytest.approx(target, rel=0.005)


@pytest.mark.parametrize("target", [0.1, 0.45, 0.9])
def test_below_one_every_message_is_paced(target: float) -> None:
    consumer = Consumer(target, turnaround=0.015)
    consumer.run(until=60)
    gaps = [b - a for a, b in zip(consumer.handled[1:], consumer.handled[2:], strict=False)]
    assert min(gaps) == pytest.approx(0.015 / target, rel=0.01)
    assert max(gaps) == pytest.approx(0.015 / target, rel=0.01)


def test_slots_that_travel_in_a_bunch_are_spread() -> None:
    consumer = Consumer(6.0, turnaround=0.015)
    consumer.run(until=1)
    gaps = [b - a for a, b in pairwise(consumer.handled[-60:])]
    assert sorted(set(gaps)) == pytest.approx([0.0, 0.015]), "all six at once"
    consumer.window.spacing = 0.0026
    consumer.run(until=2, now=1)
    gaps = [b - a for a, b in pairwise(consumer.handled[-60:])]
    assert min(gaps) == pytest.approx(0.0026)
    assert max(gaps) == pytest.approx(0.0026)


def test_a_window_wider_than_its_spacing_keeps_a_reserve_against_delays() -> None:
    spaced = Consumer(6.0, turnaround=0.012)
    spaced.window.spacing = 0.0025
    spaced.run(until=2)
    spaced.turnaround = 0.015
    spaced.run(until=4, now=2)
    quick = sum(1 < time <= 2 for time in spaced.handled)
    slow = sum(3 < time <= 4 for time in spaced.handled)
    assert quick == pytest.approx(400, abs=2)
    assert slow == pytest.approx(400, abs=2)
    assert spaced.window.held <= 2


def test_what_was_spaced_for_long_is_forgotten_at_once() -> None:
    consumer = Consumer(6.3, turnaround=0.012)
    consumer.window.spacing = 0.0025
    consumer.run(until=60)
    consumer.window.retarget(0.5, 60.0)
    consumer.window.spacing = 0.0
    consumer.run(until=65, now=60.0)
    last = [time for time in consumer.handled if time > 61]
    assert len(last) == pytest.approx(4 * 0.5 / 0.012, rel=0.02)


def test_an_ack_that_must_go_early_makes_no_other_wait_longer() -> None:
    window = Window(40.0, 0.0, max_held=2, max_hold=10, linger=3)
    lane = window.opened("only", 40)
    window.spacing = 0.1
    lane.received = 40
    for tag in range(40):
        window.hold(tag, lane, 1.0)
        window.release(1.0)
    assert window.held == 2
    assert 1.0 < window.deadline(1.0) <= 1.1
    assert window.release(1.1)


def test_a_window_with_all_slots_held_waits_for_the_next_to_be_due() -> None:
    window = Window(1.5, 0.0, max_held=9, max_hold=10, linger=3)
    lane = window.opened("only", 2)
    window.spacing = 0.01
    for tag in range(3):
        lane.received += 1
        window.hold(tag, lane, 0.0)
        window.release(0.0)
    assert (window.held, window.open_slots) == (2, 0)
    assert window.deadline(0.0) == pytest.approx(0.01)


def test_lowering_the_window_holds_acks_at_once_and_retires_the_lane_later() -> None:
    window = Window(8, 0.0, max_held=20, max_hold=10, linger=1)
    small, large = window.opened("small", 3), window.opened("large", 5)
    small.received, large.received = 3, 5
    window.retarget(3, 0.0)
    for tag in range(5):
        window.hold(tag, large, 0.1)
        assert window.release(0.1) == []
    assert window.open_slots == 3
    assert window.decide(0.1) is None, "a lane that may be needed again soon stays"
    assert window.decide(1.2) == Cancel(large)
    window.cancelled(large)
    assert [held.tag for held in window.release(1.2)] == [0, 1, 2, 3, 4]
    assert (window.granted, window.open_slots) == (3, 3)


def test_a_lane_with_room_is_never_cancelled() -> None:
    window = Window(8, 0.0, max_held=20, max_hold=10, linger=0)
    first, second = window.opened("first", 3), window.opened("second", 5)
    first.received, second.received = 3, 4
    window.retarget(3, 0.0)
    assert window.decide(0.1) is None
    second.received = 5
    assert window.decide(0.2) == Cancel(second)


def test_a_new_lane_leaves_room_for_what_a_cancelled_one_still_holds() -> None:
    window = Window(4, 0.0, max_held=20, max_hold=10, linger=0)
    window.opened("first", 2)
    second = window.opened("second", 10)
    second.received = 10
    window.cancelled(second)
    window.retarget(20, 0.0)
    assert window.decide(0.0) is None, "8 now, 10 more when the cancelled lane is done"
    for _ in range(6):
        window.settled(second)
    assert window.decide(0.0) == Open(14)


class Inline:
    """A busy queue before a handler that acknowledges each message before it takes the next."""

    def __init__(self, target: float, max_held: int) -> None:
        self.window = Window(target, 0.0, max_held=max_held, max_hold=10, linger=3)
        self.most_lanes = 0
        self._tags = 0
        self._open(self.window.lane_size(math.ceil(target)))

    def aim(self, target: float, now: float) -> None:
        """Change the target and let every slot be filled and handled, again and again."""
        self.window.retarget(target, now)
        for _ in range(10):
            for lane in self.window.subscribed:
                for _ in range(lane.size - lane.unacked):
                    self._handle(lane, now)

    def _handle(self, lane: Lane, now: float) -> None:
        if lane.cancelled:
            return
        lane.received += 1
        self._attend(now)
        self._tags += 1
        self.window.hold(self._tags, lane, now)
        self.window.release(now)
        self._attend(now)

    def _attend(self, now: float) -> None:
        while (decision := self.window.decide(now)) is not None:
            if isinstance(decision, Open):
                self._open(decision.size)
            else:
                self.window.cancelled(decision.lane)
                self.window.release(now)

    def _open(self, size: int) -> None:
        self._tags += 1
        self.window.opened(f"lane-{self._tags}", size)
        self.most_lanes = max(self.most_lanes, len(self.window.subscribed))


@pytest.mark.parametrize("max_held", [50, 10])
def test_a_ramp_does_not_pile_up_lanes(max_held: int) -> None:
    inline = Inline(1, max_held)
    for target in range(2, 60):
        inline.aim(target, float(target))
    assert inline.window.granted == 59
    assert inline.most_lanes <= 6


def test_a_merge_in_vain_is_tried_again_and_opens_no_further_lane() -> None:
    inline = Inline(1, max_held=50)
    for target in range(2, 7):
        inline.aim(target, float(target))
    assert len(inline.window.subscribed) == 6
    window = inline.window
    window.retarget(7, 10.0)
    # The queue is dry: none of the lanes to be merged is ever saturated.
    for now in range(10, 60):
        assert window.decide(float(now)) is None
    assert len(window.subscribed) == 6
    inline.aim(8, 60.0)
    assert window.granted == 8
    assert inline.most_lanes == 6


def test_a_window_far_above_what_may_be_held_still_shrinks() -> None:
    inline = Inline(100, max_held=20)
    inline.aim(100, 1.0)
    assert inline.window.granted == 100
    for now in range(2, 60):
        inline.aim(30, float(now))
    assert inline.window.granted - inline.window.held <= 30


def test_acks_of_the_oldest_messages_go_as_one_frame() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.unacked = dict.fromkeys([5, 8], "lane")
    ledger.saw(1)
    assert ledger.acks([4, 2, 3], lambda: [7]) == [Ack(4, True)]
    assert ledger.acks([6, 2, 3], lambda: [7]) == [Ack(3, True), Ack(6, False)]
    assert ledger.acks([4, 3], lambda: [2]) == [Ack(3, False), Ack(4, False)]
    ledger.fetched.add(1)
    assert ledger.acks([2, 3], list) == [Ack(2, False), Ack(3, False)]


def test_a_channel_that_had_messages_out_before_gets_an_ack_for_each() -> None:
    ledger: Ledger[str] = Ledger()
    ledger.saw(2)
    assert ledger.acks([4, 2, 3], list) == [Ack(2, False), Ack(3, False), Ack(4, False)]
