"""Defects planted in the core, one at a time, to show that the worlds find them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from controlmq.consumer import consumer as consumer_module
from controlmq.consumer import stuck_lanes
from controlmq.consumer.bucket import Bucket
from controlmq.consumer.commands import CancelLanes
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.core import Core
from controlmq.consumer.delivery_tags import Ack, Ledger
from controlmq.consumer.hand_over_gate import Arrived, Gate
from controlmq.consumer.held_acks import Window
from controlmq.consumer.lanes import Held, Lane
from controlmq.consumer.retiring import LanePlan
from controlmq.consumer.sensors import Sensors
from controlmq.consumer.stuck_lanes import StuckLanes

Defect = Callable[[pytest.MonkeyPatch], None]


def an_ack_is_sent_twice(patch: pytest.MonkeyPatch) -> None:
    take_acks = Core.take_acks
    counted = [0]

    def twice(self: Core) -> Sequence[Ack]:
        frames = [*take_acks(self)]
        counted[0] += 1
        return [*frames, *frames] if counted[0] % 50 == 0 else frames

    patch.setattr(Core, "take_acks", twice)


def a_lane_is_cancelled_before_it_is_saturated(patch: pytest.MonkeyPatch) -> None:
    saturated = property(lambda lane: lane.received - lane.answered >= lane.size - 1)
    patch.setattr(Lane, "saturated", saturated)


def a_fraction_drifts(patch: pytest.MonkeyPatch) -> None:
    integrate = Window._integrate

    def drift(self: Window, now: float) -> None:
        integrate(self, now)
        if self._fraction:
            self.error += 2e-4  # slot-seconds with every look

    patch.setattr(Window, "_integrate", drift)


def a_slot_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    answered = Window.answered

    def twice(self: Window, lane: Lane) -> None:
        answered(self, lane)
        if lane.cancelled:
            self.granted -= 1

    patch.setattr(Window, "answered", twice)


def an_ack_is_held_past_its_time(patch: pytest.MonkeyPatch) -> None:
    deadline = Window.deadline

    def late(self: Window, now: float) -> float:
        return deadline(self, now) + 0.01

    patch.setattr(Window, "deadline", late)


def too_many_acks_are_held(patch: pytest.MonkeyPatch) -> None:
    release = Window.release

    def one_more(self: Window, now: float, several: bool = True) -> list[Held]:
        self.max_held += 1
        try:
            return release(self, now, several)
        finally:
            self.max_held -= 1

    patch.setattr(Window, "release", one_more)


def one_more_ack_is_allowed_than_the_user_asked_for(patch: pytest.MonkeyPatch) -> None:
    max_held = consumer_module._max_held
    patch.setattr(consumer_module, "_max_held", lambda most, shape: max_held(most, shape) + 1)


def a_change_of_lanes_requeues(patch: pytest.MonkeyPatch) -> None:
    saturated_lane = LanePlan.saturated_lane

    def any_lane(self: LanePlan, now: float) -> Lane | None:
        lane = saturated_lane(self, now)
        return lane or (self._retiring[0] if self._retiring else None)

    patch.setattr(LanePlan, "saturated_lane", any_lane)


def a_lane_tag_is_used_again(patch: pytest.MonkeyPatch) -> None:
    new_lane = Consumer.new_lane

    def same_number(self: Consumer, size: int, number: int) -> Lane:
        return new_lane(self, size, min(number, 3))

    patch.setattr(Consumer, "new_lane", same_number)


def held_acks_are_forgotten_at_a_stop(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Core, consumer: Consumer, now: float) -> None:
        self.leaving.remove(consumer)

    patch.setattr(Core, "_leave", forget)


def a_stop_gives_back_between_its_cancels(patch: pytest.MonkeyPatch) -> None:
    lane_cancelled, wake = Core.lane_cancelled, Core.wake

    def only_one(self: Core) -> None:
        if not self.commits and all(consumer.pending is None for consumer in self.leaving):
            lanes = [lane for consumer in self.leaving for lane in consumer.window.subscribed]
            self.commands.extend(CancelLanes((lane,)) for lane in lanes[:1])

    def then_give_back(self: Core, lane: Lane, now: float) -> None:
        lane_cancelled(self, lane, now)
        if self.leaving:
            self.wake_at = now

    def then_the_next(self: Core, now: float) -> None:
        wake(self, now)
        self._cancel_leaving()

    patch.setattr(Core, "_cancel_leaving", only_one)
    patch.setattr(Core, "lane_cancelled", then_give_back)
    patch.setattr(Core, "wake", then_the_next)
    what_comes_too_late_goes_back_at_once(patch)


def what_comes_too_late_goes_back_at_once(patch: pytest.MonkeyPatch) -> None:
    def return_unwanted(self: Core) -> None:
        if not self.commits:
            self.returns += sorted(self.ledger.unwanted)
            self.ledger.unwanted.clear()

    patch.setattr(Core, "_return_unwanted", return_unwanted)


def a_lane_is_cancelled_before_it_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: Core) -> None:
        if not self.commits:
            lanes = [lane for consumer in self.leaving for lane in consumer.window.subscribed]
            self.commands.append(CancelLanes(tuple(lanes)))

    patch.setattr(Core, "_cancel_leaving", at_once)


def a_lane_that_the_broker_cancelled_is_left_alone(patch: pytest.MonkeyPatch) -> None:
    cancelled = Core.cancelled_by_broker

    def without_it(self: Core, lane_tag: str) -> Consumer | None:
        lane = self._lanes.get(lane_tag)
        consumer = cancelled(self, lane_tag)
        if consumer is not None and lane is not None:
            self._lane_gone(lane, consumer.now)
        return consumer

    patch.setattr(Core, "cancelled_by_broker", without_it)


def a_frame_for_several_includes_a_held_ack(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "_held_tags", lambda self: [])


def a_frame_for_several_includes_what_is_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "_make_frames", lambda self: None)


def a_frame_for_several_includes_what_nobody_has_seen(patch: pytest.MonkeyPatch) -> None:
    def together(self: Core, tags: list[int]) -> None:
        self.ledger.fetched.difference_update(tags)
        self.outbox += tags

    patch.setattr(Core, "_ack_fetched", together)


def a_frame_for_several_includes_a_fetched_message(patch: pytest.MonkeyPatch) -> None:
    def after_the_others(self: Core, tags: list[int]) -> None:
        self.ledger.fetched.difference_update(tags)
        self.verbatim += [Ack(tag, False) for tag in tags]

    patch.setattr(Core, "_ack_fetched", after_the_others)


def a_due_ack_is_kept_again(patch: pytest.MonkeyPatch) -> None:
    keep = Window.keep
    patch.setattr(Window, "keep", lambda self, lane, now: keep(self, lane, -math.inf))


def acks_are_kept_while_the_broker_blocks(patch: pytest.MonkeyPatch) -> None:
    change_lanes = Core._change_lanes

    def not_while_blocked(self: Core, consumer: Consumer, now: float) -> None:
        if not self.blocked:
            change_lanes(self, consumer, now)

    patch.setattr(Core, "_change_lanes", not_while_blocked)


def the_window_ignores_what_cancelled_lanes_have(patch: pytest.MonkeyPatch) -> None:
    cancelled, send = Window.cancelled, Window._send

    def ignore(self: Window, lane: Lane) -> None:
        before = lane.cancelled
        cancelled(self, lane)
        if not before:
            self.granted -= lane.unacked

    def without(self: Window, released: list[Held]) -> None:
        self.granted += sum(held.lane.cancelled for held in released)
        send(self, released)

    patch.setattr(Window, "cancelled", ignore)
    patch.setattr(Window, "_send", without)


def the_window_asks_for_one_slot_too_many(patch: pytest.MonkeyPatch) -> None:
    new_lane_size = LanePlan.new_lane_size

    def larger(self: LanePlan, now: float) -> int:
        size = new_lane_size(self, now)
        return size + 1 if size else 0

    patch.setattr(LanePlan, "new_lane_size", larger)


def a_deadlock_after_the_broker_blocked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "unblocked", lambda self, now: self._attend_all(now))


def a_shared_queue_never_gets_a_second_lane(patch: pytest.MonkeyPatch) -> None:
    first_message = Consumer.first_message

    def learn_less(self: Consumer, headers: dict[str, Any]) -> None:
        may_grow = self.plan.may_grow
        first_message(self, headers)
        self.plan.may_grow = may_grow

    patch.setattr(Consumer, "first_message", learn_less)


def no_lane_follows_a_refused_second_one(patch: pytest.MonkeyPatch) -> None:
    lane_gone = Consumer.lane_gone

    def give_up(self: Consumer, lane: Lane) -> None:
        may_grow = self.plan.may_grow
        lane_gone(self, lane)
        self.plan.may_grow = may_grow

    patch.setattr(Consumer, "lane_gone", give_up)


def a_barren_lane_stays(patch: pytest.MonkeyPatch) -> None:
    barren_lane = Consumer.barren_lane

    def keep(self: Consumer) -> None:
        barren_lane(self)

    patch.setattr(Consumer, "barren_lane", keep)


def a_refused_lane_is_still_expected(patch: pytest.MonkeyPatch) -> None:
    gone = Core._lane_gone

    def stay(self: Core, lane: Lane, now: float) -> None:
        pending = lane.consumer.pending
        gone(self, lane, now)
        if lane.received == 0 and not lane.consumer.cancelled:
            lane.consumer.pending = pending

    patch.setattr(Core, "_lane_gone", stay)


def a_slot_that_is_withdrawn_stays_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sensors, "withdrawn", lambda self, slots, now: None)


def the_last_lane_is_retired(patch: pytest.MonkeyPatch) -> None:
    retire = LanePlan._retire

    def all_of_them(self: LanePlan, lanes: list[Lane], now: float, merging: bool = False) -> None:
        retire(self, self.window.subscribed, now, merging)
        self._retiring = self.window.subscribed

    patch.setattr(LanePlan, "_retire", all_of_them)


def a_slot_below_one_is_never_given_back(patch: pytest.MonkeyPatch) -> None:
    deadline = Window.deadline

    def never(self: Window, now: float) -> float:
        return math.inf if self.target < 1 else deadline(self, now)

    patch.setattr(Window, "deadline", never)


def a_pacer_never_makes_up(patch: pytest.MonkeyPatch) -> None:
    def from_now(self: Window, now: float) -> None:
        self._next_release = now + self.spacing

    patch.setattr(Window, "_space", from_now)


def the_core_is_woken_without_end(patch: pytest.MonkeyPatch) -> None:
    deadline = LanePlan.deadline

    def past(self: LanePlan) -> float:
        return -1.0 if self._retiring else deadline(self)

    patch.setattr(LanePlan, "deadline", past)


def the_last_lane_is_never_replaced(patch: pytest.MonkeyPatch) -> None:
    new_lane_size = LanePlan.new_lane_size

    def without(self: LanePlan, now: float) -> int:
        self._replacing = False
        return new_lane_size(self, now)

    patch.setattr(LanePlan, "new_lane_size", without)


def what_waits_at_the_client_is_given_back(patch: pytest.MonkeyPatch) -> None:
    cancelled = Window.cancelled

    def without(self: Window, lane: Lane) -> None:
        lane.received -= lane.waiting
        lane.waiting = 0
        cancelled(self, lane)

    patch.setattr(Window, "cancelled", without)


def what_waits_at_the_client_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "received", lambda self, lane: None)


def a_refusal_is_counted_as_an_ack(patch: pytest.MonkeyPatch) -> None:
    settle = Core._answered

    def acknowledged(self: Core, tags: list[int], now: float, refused: bool = False) -> None:
        settle(self, tags, now)

    patch.setattr(Core, "_answered", acknowledged)


def a_second_delivery_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "redelivered", lambda self, consumer: None)


def a_bunch_passes_the_gate(patch: pytest.MonkeyPatch) -> None:
    def take(self: Gate, now: float) -> Arrived | None:
        return self.waiting.popleft() if self.waiting else None

    patch.setattr(Gate, "take", take)


def tokens_come_too_soon(patch: pytest.MonkeyPatch) -> None:
    set_ = Bucket._set

    def faster(self: Bucket, rate: float, burst: float) -> None:
        set_(self, rate * 1.02, burst)

    patch.setattr(Bucket, "_set", faster)


def the_burst_that_the_user_asked_for_is_ignored(patch: pytest.MonkeyPatch) -> None:
    pace = Consumer.pace

    def with_the_default(self: Consumer, rate: float | None, burst: float | None = None) -> None:
        pace(self, rate)

    patch.setattr(Consumer, "pace", with_the_default)


def a_new_rate_fills_the_bucket(patch: pytest.MonkeyPatch) -> None:
    def anew(self: Bucket, rate: float, burst: float, now: float) -> None:
        self.__init__(rate, burst)  # type: ignore[misc]

    patch.setattr(Bucket, "change", anew)


def a_bound_that_comes_back_has_its_burst(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bucket, "empty", lambda self, now: None)


def the_last_that_came_is_handed_over_first(patch: pytest.MonkeyPatch) -> None:
    take = Gate.take

    def last(self: Gate, now: float) -> Arrived | None:
        self.waiting.reverse()
        try:
            return take(self, now)
        finally:
            self.waiting.reverse()

    patch.setattr(Gate, "take", last)


def what_waits_is_forgotten_at_a_stop(patch: pytest.MonkeyPatch) -> None:
    forget = Core._forget_gated

    def silently(self: Core, consumer: Consumer, now: float) -> list[int]:
        forget(self, consumer, now)
        return []

    patch.setattr(Core, "_forget_gated", silently)


def a_frame_for_several_includes_what_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "covers_unseen", lambda self, tag: False)


def nobody_is_woken_for_what_needs_attention(patch: pytest.MonkeyPatch) -> None:
    def note(self: Core, consumer: Consumer, when: float) -> None:
        consumer.attend_at = min(when, consumer.attend_at)

    patch.setattr(Core, "_attend_by", note)


def a_commit_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "committing", lambda self: None)
    patch.setattr(Core, "commit_answered", lambda self, now: None)


def every_handler_is_taken_to_wait(patch: pytest.MonkeyPatch) -> None:
    together = Consumer.acknowledged_together

    def waited(self: Consumer, count: int) -> None:
        self._stalled = True
        together(self, count)

    patch.setattr(Consumer, "acknowledged_together", waited)


def a_prefetch_is_not_limited(patch: pytest.MonkeyPatch) -> None:
    actuate = Consumer.actuate

    def without_limits(self: Consumer, prefetch: float) -> None:
        limits, self.limits = self.limits, None
        actuate(self, prefetch)
        self.limits = limits

    patch.setattr(Consumer, "actuate", without_limits)


def a_lane_counts_as_stuck_before_its_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stuck_lanes, "FILLS", 0)
    patch.setattr(stuck_lanes, "MISSED_TURNS", 0)


def a_lane_that_may_be_refused_counts_as_stuck(patch: pytest.MonkeyPatch) -> None:
    watch = StuckLanes._watch

    def shared(self: StuckLanes, total: int, pending: Lane | None, now: float) -> None:
        watch(self, total, pending, now)
        for lane in self._window.subscribed:
            if not (lane.received or lane in self.found):
                self._received[lane] = 0

    patch.setattr(StuckLanes, "_watch", shared)


BOUND_DEFECTS: dict[Defect, str] = {
    a_bunch_passes_the_gate: "messages were handed over beyond",
    tokens_come_too_soon: "messages were handed over beyond",
    the_burst_that_the_user_asked_for_is_ignored: "messages were handed over beyond",
    a_new_rate_fills_the_bucket: "messages were handed over beyond",
    a_bound_that_comes_back_has_its_burst: "messages were handed over beyond",
    the_last_that_came_is_handed_over_first: "overtook others",
    what_waits_is_forgotten_at_a_stop: "stay unacknowledged after the stop",
    a_frame_for_several_includes_what_waits: "answers for what the user has not got",
}
"""Found in worlds whose rate is bounded, each with words of the invariant that has to find it."""

DEFECTS: dict[Defect, str] = {
    an_ack_is_sent_twice: "is on the wire, and was sent before",
    a_lane_is_cancelled_before_it_is_saturated: "a change of lanes requeued message",
    a_fraction_drifts: "open slots are missing in the mean",
    a_slot_is_counted_twice: "slots are granted, the window has",
    an_ack_is_held_past_its_time: "an ack is held for",
    too_many_acks_are_held: "acks are held, 8 are allowed",
    one_more_ack_is_allowed_than_the_user_asked_for: "acks are held, 8 are allowed",
    a_change_of_lanes_requeues: "a change of lanes requeued message",
    a_lane_tag_is_used_again: "is used twice",
    held_acks_are_forgotten_at_a_stop: "a consumer that has stopped holds acks",
    a_stop_gives_back_between_its_cancels: "which its consumer gave back",
    a_lane_is_cancelled_before_it_is_confirmed: "cancelled before the broker has confirmed it",
    a_lane_that_the_broker_cancelled_is_left_alone: "its consumer would get it again",
    a_frame_for_several_includes_a_held_ack: "acks are held, the window has",
    a_due_ack_is_kept_again: "woken again and again at one instant",
    acks_are_kept_while_the_broker_blocks: "an ack is held for",
    the_window_ignores_what_cancelled_lanes_have: "slots are granted, the window has",
    the_window_asks_for_one_slot_too_many: "slots are asked for",
    a_slot_that_is_withdrawn_stays_open: "slots are open, the sensors have",
    the_last_lane_is_retired: "the last lane was retired",
    a_slot_below_one_is_never_given_back: "an ack is held for",
    the_core_is_woken_without_end: "woken again and again at one instant",
    what_waits_at_the_client_is_given_back: "slots are granted, the window has",
    a_refusal_is_counted_as_an_ack: "were refused, the consumer has",
    a_second_delivery_is_not_counted: "missed a message that was delivered before",
    nobody_is_woken_for_what_needs_attention: "the core is to be woken at",
    every_handler_is_taken_to_wait: "and has acknowledged at most",
    a_prefetch_is_not_limited: "slots are asked for",
    a_refused_lane_is_still_expected: "stay unacknowledged after the stop",
    what_waits_at_the_client_is_not_counted: "slots are granted, the window has",
    a_frame_for_several_includes_what_is_refused: "is on the wire, and was not given yet",
    what_comes_too_late_goes_back_at_once: "which its consumer gave back",
    a_commit_is_not_waited_for: "504: unexpected command while processing 'tx.commit'",
    a_lane_counts_as_stuck_before_its_turn: "the log says without a reason",
    a_lane_that_may_be_refused_counts_as_stuck: "the log says without a reason",
    the_last_lane_is_never_replaced: "the window stays at",
    a_shared_queue_never_gets_a_second_lane: "the window stays at",
    no_lane_follows_a_refused_second_one: "the window stays at",
    a_barren_lane_stays: "the window stays at",
}

RARE_DEFECTS: dict[Defect, str] = {
    a_frame_for_several_includes_what_nobody_has_seen: "is acknowledged, and was not by the user",
    a_frame_for_several_includes_a_fetched_message: "is on the wire, and was sent before",
    a_deadlock_after_the_broker_blocked: "the window stays at",
    a_pacer_never_makes_up: "were due",
}
"""Found after more than a few seeds."""
