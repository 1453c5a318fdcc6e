"""A lane that the broker serves no more is found; one that has nothing to get is not."""

from __future__ import annotations

from itertools import count

import pytest

from controlmq.consumer.commands import Notice, OpenLane
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core
from controlmq.consumer.lanes import Lane

STEP_SECONDS = 0.25


class Lanes:
    """A consumer whose lanes have these sizes. A test says which of them get messages."""

    def __init__(self, *sizes: int) -> None:
        self.now = 0.0
        self.notices: dict[float, str] = {}
        self.core = Core()
        self.consumer = Consumer("mine", "orders", sizes[0], Shape(window="lanes"), 0.0)
        self._tags = count(1)
        self._lanes = [self.core.subscribe(self.consumer, 0.0)]
        self.core.lane_opened(self._lanes[0], 0.0)
        for number, _ in enumerate(sizes[1:], 2):
            self.core.retarget(self.consumer, sum(sizes[:number]), 0.0)
            self.core.wake(0.0)
            command = self.core.commands.popleft()
            assert isinstance(command, OpenLane)
            self._lanes.append(command.lane)
            self.core.lane_opened(command.lane, 0.0)
        assert [lane.size for lane in self._lanes] == list(sizes)

    def deliver(self, lane: Lane) -> int:
        tag = next(self._tags)
        self.core.delivered(lane, tag, self.now)
        self.core.returned(self.consumer, self.now, self.now)
        return tag

    def occupy(self, number: int, messages: int) -> None:
        """Handlers work for long on messages of a lane."""
        for _ in range(messages):
            self.deliver(self._lanes[number])

    def go_on(self, seconds: float, *served: int) -> None:
        """Each of these lanes gets a message every quarter of a second."""
        for _ in range(int(seconds / STEP_SECONDS)):
            self.now += STEP_SECONDS
            for number in served:
                self.core.acknowledged(self.deliver(self._lanes[number]), False, self.now)
                self.core.take_acks()
            self.core.wake(self.now)
            while self.core.samples_due:
                self.core.sampled(self.core.samples_due.popleft(), self.now)
            while self.core.commands:
                command = self.core.commands.popleft()
                assert isinstance(command, Notice)
                self.notices[self.now] = command.text


def test_a_lane_that_gets_nothing_while_others_do_is_noticed_after_a_minute() -> None:
    lanes = Lanes(3, 2)
    lanes.go_on(10, 0, 1)
    assert not lanes.consumer.stuck
    lanes.go_on(300, 0)
    ((noticed_at, text),) = lanes.notices.items()
    assert 70 <= noticed_at <= 75
    assert text.startswith("queue orders: nothing has come for 6")
    assert "into 2 of the 2 slots of consumer mine.lane-2" in text
    assert "connect again" in text
    assert lanes.consumer.stuck


def test_a_lane_that_still_has_messages_out_is_noticed_by_its_empty_slots() -> None:
    lanes = Lanes(3, 4)
    lanes.occupy(1, 3)
    lanes.go_on(100, 0)
    (text,) = lanes.notices.values()
    assert "into 1 of the 4 slots of consumer mine.lane-2" in text


def test_each_of_several_lanes_is_noticed_once() -> None:
    lanes = Lanes(3, 2, 1)
    lanes.go_on(10, 0, 1, 2)
    lanes.go_on(100, 0, 1)
    lanes.go_on(300, 0)
    named = [text.partition(" of consumer ")[2].split(",")[0] for text in lanes.notices.values()]
    assert named == ["mine.lane-3", "mine.lane-2"]


def test_a_lane_without_an_empty_slot_is_not_noticed() -> None:
    lanes = Lanes(3, 2)
    lanes.occupy(1, 2)
    lanes.go_on(1000, 0)
    assert not lanes.notices


def test_a_lane_that_may_be_refused_messages_is_not_noticed() -> None:
    """Where one consumer at a time is served, the second lane gets none."""
    lanes = Lanes(3, 2)
    lanes.go_on(1000, 0)
    assert not lanes.notices


def test_a_lane_that_never_got_a_message_is_noticed_where_two_others_did() -> None:
    lanes = Lanes(3, 2, 1)
    lanes.go_on(100, 0, 1)
    (text,) = lanes.notices.values()
    assert "of consumer mine.lane-3," in text


def test_a_dry_queue_is_none_that_keeps_messages() -> None:
    lanes = Lanes(3, 2)
    lanes.go_on(10, 0, 1)
    for _ in range(50):
        lanes.go_on(600)
        lanes.go_on(STEP_SECONDS, 0)
        lanes.go_on(600)
        lanes.go_on(STEP_SECONDS, 1)
    assert not lanes.notices


@pytest.mark.parametrize(("messages", "noticed"), [(543, False), (544, True)])
def test_others_must_have_had_all_slots_twice_and_twenty_turns(
    messages: int, noticed: bool
) -> None:
    """What is on its way when a slot of a lane opens says nothing: 2 times 252, and 20 times 2."""
    lanes = Lanes(250, 2)
    lanes.go_on(10, 0, 1)
    lanes.go_on(STEP_SECONDS * messages, 0)
    lanes.go_on(3600)
    assert bool(lanes.notices) == noticed
