"""What the core makes of the user's answers."""

from __future__ import annotations

from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane


def subscribed(core: Core, now: float = 0.0) -> Lane:
    lane = core.subscribe(Consumer("tag", "queue", 5.0, Shape(), now), now)
    core.lane_opened(lane, now)
    return lane


def test_a_message_fetched_before_a_recover_is_not_acknowledged_after_it() -> None:
    core = Core()
    lane = subscribed(core)
    core.fetched(1)
    core.recovered(1.0)
    core.delivered(lane, 2, 2.0)
    core.acknowledged(2, True, 3.0)
    assert 1 not in {ack.tag for ack in core.take_acks()}, "that ack would close the channel"


def test_after_a_recover_no_frame_stands_for_several() -> None:
    core = Core()
    lane = subscribed(core)
    for tag in range(1, 6):
        core.delivered(lane, tag, 1.0)
        core.first_message(lane, tag, {})
        if tag == 2:
            core.recovered(1.0)
    for tag in (3, 4, 5):
        core.acknowledged(tag, False, 2.0)
    assert list(core.take_acks()) == [Ack(tag, False) for tag in (3, 4, 5)]


def test_after_a_recover_nothing_is_given_back_for_a_consumer_that_leaves() -> None:
    core = Core()
    consumer = Consumer("tag", "queue", 5.0, Shape(window="lanes"), 0.0)
    consumer.pace(1.0, 1.0)
    lane = core.subscribe(consumer, 0.0)
    core.lane_opened(lane, 0.0)
    for tag in (1, 2, 3):
        core.arrived(lane, tag, 0.1, object())
    assert core.hand_over(consumer, 0.1) is not None
    core.retarget(consumer, 10.0, 0.2)
    core.wake(0.2)
    further = consumer.pending
    assert further is not None, "the cancels wait until the broker has confirmed this lane"
    core.cancel([consumer])
    core.recovered(0.3)
    assert not core.ledger.gated
    core.lane_opened(further, 0.4)
    for each in (lane, further):
        core.lane_cancelled(each, 0.5)
    assert core.leaving == []
    assert core.take_returns() == [], "a second answer to a message would close the channel"


def test_acks_of_a_cancelled_consumer_go_beside_those_of_a_new_one_of_its_tag() -> None:
    core = Core()
    first = subscribed(core)
    for tag in (1, 2):
        core.delivered(first, tag, 1.0)
        core.first_message(first, tag, {})
    core.cancel([first.consumer])
    core.lane_cancelled(first, 2.0)
    second = subscribed(core, 3.0)
    core.delivered(second, 3, 4.0)
    core.acknowledged(3, True, 5.0)
    assert list(core.take_acks()) == [Ack(3, True)]


def test_one_call_that_took_a_minute_does_not_end_holding() -> None:
    core = Core()
    lane = subscribed(core)
    consumer = lane.consumer
    for tag in range(1, 6):
        core.delivered(lane, tag, 1.0)
    core.returned(consumer, 1.0, 61.0)
    core.retarget(consumer, 2.0, 61.0)
    for tag in (1, 2, 3):
        core.acknowledged(tag, False, 61.0)
    core.calling(consumer, 61.0)
    assert consumer.window.held == 3
    core.returned(consumer, 61.0, 121.0)
    core.calling(consumer, 121.0)
    assert consumer.window.held == 0, "the next call will take longer than they may be held"


def test_no_frame_stands_for_a_message_that_was_overtaken() -> None:
    core = Core()
    lane = subscribed(core)
    for tag in (1, 4, 5):
        core.delivered(lane, tag, 1.0)
        core.first_message(lane, tag, {})
    core.ledger.ordered = False
    for tag in (1, 4, 5):
        core.acknowledged(tag, False, 2.0)
    assert list(core.take_acks()) == [Ack(tag, False) for tag in (1, 4, 5)]
    core.delivered(lane, 6, 3.0)
    for tag in (2, 3):
        core.delivered(lane, tag, 3.0)
    core.acknowledged(3, True, 4.0)
    assert list(core.take_acks()) == [Ack(tag, False) for tag in (2, 3)]
    assert list(core.ledger.unacked) == [6]


def test_no_frame_stands_for_a_message_that_never_came_to_us() -> None:
    core = Core()
    lane = subscribed(core)
    for tag in (1, 2, 3):
        core.delivered(lane, tag, 1.0)
        core.first_message(lane, tag, {})
    for tag in (1, 2, 3):
        core.acknowledged(tag, False, 2.0)
    assert list(core.take_acks()) == [Ack(3, True)]
    for tag in (5, 6):  # an interrupt came when the client had read number 4
        core.delivered(lane, tag, 3.0)
    core.acknowledged(5, False, 4.0)
    core.acknowledged(6, True, 4.0)
    assert list(core.take_acks()) == [Ack(5, False), Ack(6, False)]


def test_messages_that_are_no_deliveries_leave_no_gap() -> None:
    core = Core()
    lane = subscribed(core)
    core.delivered(lane, 1, 1.0)
    core.first_message(lane, 1, {})
    core.fetched(4)  # while the client has yet to hand over what it read before
    core.fetched(5, acknowledged=True)
    core.acknowledged(4, False, 2.0)
    assert list(core.take_acks()) == [Ack(4, False)]
    core.came_too_late(3)
    assert core.take_returns() == [3]
    for tag in (2, 6, 7):
        core.delivered(lane, tag, 3.0)
    for tag in (1, 2, 6, 7):
        core.acknowledged(tag, False, 4.0)
    assert list(core.take_acks()) == [Ack(7, True)]
