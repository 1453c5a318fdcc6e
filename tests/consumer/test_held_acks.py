"""The window, its lanes and the frames of its acks, each by itself.

What they do together with a broker is asserted by the deterministic worlds.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import Any

import pytest

from controlmq.consumer.delivery_tags import Ack, Ledger
from controlmq.consumer.held_acks import Window
from controlmq.consumer.lanes import Lane
from controlmq.consumer.retiring import LanePlan

NOBODY: Any = None
"""The consumer of lanes that no core looks at."""


def window_of(target: float, max_held: int, linger: float) -> tuple[Window, LanePlan]:
    window = Window(target, 0.0, max_held=max_held, max_hold=10)
    return window, LanePlan(window, linger, 0.0)


def decide(plan: LanePlan, now: float) -> Lane | int:
    """A lane to cancel, or how large a lane to open; 0 for no change."""
    return plan.saturated_lane(now) or plan.new_lane_size(now)


class Saturated:
    """A consumer that handles each message ``turnaround`` seconds after its slot was released."""

    def __init__(self, target: float, turnaround: float) -> None:
        self.window = Window(target, 0.0, max_held=50, max_hold=10)
        self.turnaround = turnaround
        self.handled: list[float] = []
        self.slot_seconds = 0.0
        self.lane = self.window.opened(NOBODY, "only", max(1, math.ceil(target)))
        self._due = deque([turnaround] * self.lane.size)
        self._tag = 0

    def run(self, until: float, now: float = 0.0) -> None:
        """Messages come when their slots are due, acks when the window lets them go."""
        while now < until:
            due = self._due[0] if self._due else math.inf
            then = min(due, max(now + 1e-6, self.window.deadline(now)), until)
            self.slot_seconds += self.window.open_slots * (then - now)
            now = then
            if now == due:
                self._due.popleft()
                self._tag += 1
                self.lane.received += 1
                self.handled.append(now)
                self.window.hold(self._tag, self.lane, now)
            self._due.extend([now + self.turnaround] * len(self.window.release(now)))


@pytest.mark.parametrize("target", [0.1, 0.45, 0.9, 1.5, 2.01, 6.3, 6.99])
def test_a_fraction_is_met_on_average(target: float) -> None:
    consumer = Saturated(target, turnaround=0.015)
    consumer.run(until=60)
    assert consumer.slot_seconds / 60 == pytest.approx(target, rel=0.005)


@pytest.mark.parametrize("target", [0.1, 0.45, 0.9])
def test_below_one_every_message_is_paced(target: float) -> None:
    consumer = Saturated(target, turnaround=0.015)
    consumer.run(until=60)
    gaps = [b - a for a, b in zip(consumer.handled[1:], consumer.handled[2:], strict=False)]
    assert min(gaps) == pytest.approx(0.015 / target, rel=0.01)
    assert max(gaps) == pytest.approx(0.015 / target, rel=0.01)


def test_slots_that_travel_in_a_bunch_are_spread() -> None:
    consumer = Saturated(6.0, turnaround=0.015)
    consumer.run(until=1)
    gaps = [b - a for a, b in pairwise(consumer.handled[-60:])]
    assert sorted(set(gaps)) == pytest.approx([0.0, 0.015]), "all six at once"
    consumer.window.spacing = 0.0026
    consumer.run(until=2, now=1)
    gaps = [b - a for a, b in pairwise(consumer.handled[-60:])]
    assert min(gaps) == pytest.approx(0.0026)
    assert max(gaps) == pytest.approx(0.0026)


def test_a_window_wider_than_its_spacing_keeps_a_reserve_against_delays() -> None:
    spaced = Saturated(6.0, turnaround=0.012)
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
    consumer = Saturated(6.3, turnaround=0.012)
    consumer.window.spacing = 0.0025
    consumer.run(until=60)
    consumer.window.retarget(0.5, 60.0)
    consumer.window.spacing = 0.0
    consumer.run(until=65, now=60.0)
    last = [time for time in consumer.handled if time > 61]
    assert len(last) == pytest.approx(4 * 0.5 / 0.012, rel=0.02)


def test_an_ack_that_must_go_early_makes_no_other_wait_longer() -> None:
    window = Window(40.0, 0.0, max_held=2, max_hold=10)
    lane = window.opened(NOBODY, "only", 40)
    window.spacing = 0.1
    lane.received = 40
    for tag in range(40):
        window.hold(tag, lane, 1.0)
        window.release(1.0)
    assert window.held == 2
    assert 1.0 < window.deadline(1.0) <= 1.1
    assert window.release(1.1)


def test_a_window_with_all_slots_held_waits_for_the_next_to_be_due() -> None:
    window = Window(1.5, 0.0, max_held=9, max_hold=10)
    lane = window.opened(NOBODY, "only", 2)
    window.spacing = 0.01
    for tag in range(3):
        lane.received += 1
        window.hold(tag, lane, 0.0)
        window.release(0.0)
    assert (window.held, window.open_slots) == (2, 0)
    assert window.deadline(0.0) == pytest.approx(0.01)


def test_lowering_the_window_holds_acks_at_once_and_retires_the_lane_later() -> None:
    window, plan = window_of(8, max_held=20, linger=1)
    small, large = window.opened(NOBODY, "small", 3), window.opened(NOBODY, "large", 5)
    small.received, large.received = 3, 5
    window.retarget(3, 0.0)
    for tag in range(5):
        window.hold(tag, large, 0.1)
        assert window.release(0.1) == []
    assert window.open_slots == 3
    assert not decide(plan, 0.1), "a lane that may be needed again soon stays"
    assert decide(plan, 1.2) is large
    window.cancelled(large)
    assert [held.tag for held in window.release(1.2)] == [0, 1, 2, 3, 4]
    assert (window.granted, window.open_slots) == (3, 3)


def test_a_lane_with_room_is_never_cancelled() -> None:
    window, plan = window_of(8, max_held=20, linger=0)
    first, second = window.opened(NOBODY, "first", 3), window.opened(NOBODY, "second", 5)
    first.received, second.received = 3, 4
    window.retarget(3, 0.0)
    assert not decide(plan, 0.1)
    second.received = 5
    assert decide(plan, 0.2) is second


def test_a_lane_that_is_saturated_when_its_time_ends_is_retired() -> None:
    window, plan = window_of(8, max_held=20, linger=1)
    first, second = window.opened(NOBODY, "first", 3), window.opened(NOBODY, "second", 5)
    first.received, second.received = 3, 4
    window.retarget(3, 0.0)
    window.hold(1, second, 0.0)
    assert not decide(plan, 0.1)
    assert not decide(plan, 1.2), "its acks are kept from now on"
    second.received = 5
    assert decide(plan, window.max_hold) is second


def test_a_new_lane_leaves_room_for_what_a_cancelled_one_still_holds() -> None:
    window, plan = window_of(4, max_held=20, linger=0)
    window.opened(NOBODY, "first", 2)
    second = window.opened(NOBODY, "second", 10)
    second.received = 10
    window.cancelled(second)
    window.retarget(20, 0.0)
    assert not decide(plan, 0.0), "8 now, 10 more when the cancelled lane is done"
    for _ in range(6):
        window.answered(second)
    assert decide(plan, 0.0) == 14


class Inline:
    """A busy queue before a handler that acknowledges each message before it takes the next."""

    def __init__(self, target: float, max_held: int) -> None:
        self.window, self.plan = window_of(target, max_held, linger=3)
        self.most_lanes = 0
        self._tags = 0
        self._open(self.plan.lane_size(math.ceil(target)))

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
        while decision := decide(self.plan, now):
            if isinstance(decision, int):
                self._open(decision)
            else:
                self.window.cancelled(decision)
                self.window.release(now)

    def _open(self, size: int) -> None:
        self._tags += 1
        self.window.opened(NOBODY, f"lane-{self._tags}", size)
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
        assert not decide(inline.plan, float(now))
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
    ledger = Ledger()
    ledger.unacked = dict.fromkeys([5, 8], Lane("lane", 9, NOBODY))
    ledger.saw(1)
    assert ledger.frames([4, 2, 3], [7]) == [Ack(4, True)]
    assert ledger.frames([6, 2, 3], [7]) == [Ack(3, True), Ack(6, False)]
    assert ledger.frames([4, 3], [2]) == [Ack(3, False), Ack(4, False)]
    ledger.fetched.add(1)
    assert ledger.frames([2, 3], []) == [Ack(2, False), Ack(3, False)]


def test_a_channel_that_had_messages_out_before_gets_an_ack_for_each() -> None:
    ledger = Ledger()
    ledger.saw(2)
    assert ledger.frames([4, 2, 3], []) == [Ack(2, False), Ack(3, False), Ack(4, False)]
