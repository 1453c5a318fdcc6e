"""Messages put aside for later, and acks that are never held."""

from __future__ import annotations

from controlmq.consumer.commands import CancelLanes, OpenLane
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.core import Core
from controlmq.consumer.lanes import Lane


class Channel:
    """A core with one consumer, whose lanes are confirmed and filled at once."""

    def __init__(self, prefetch: float) -> None:
        self.core = Core()
        shape = Shape(window="lanes")
        self.consumer = Consumer("tag", "queue", prefetch, shape, 0.0)
        self.consumer.plan.linger = 0.0
        self.now = 0.0
        self.tag = 0
        self.acks: list[int] = []
        self.lanes_asked = 0
        self.core.lane_opened(self.core.subscribe(self.consumer, 0.0), 0.0)

    @property
    def lanes(self) -> list[Lane]:
        return self.consumer.window.subscribed

    def fill(self) -> list[int]:
        """The broker fills every slot; returns the tags."""
        tags = []
        for lane in self.lanes:
            while not lane.saturated:
                self.tag += 1
                self.core.delivered(lane, self.tag, self.now)
                tags.append(self.tag)
        return tags

    def attend(self) -> None:
        """Do all that the core asks for."""
        self.now += 0.001
        for _ in range(20):
            self.core.wake(self.now)
            while self.core.commands:
                command = self.core.commands.popleft()
                if isinstance(command, OpenLane):
                    self.lanes_asked += 1
                    self.core.lane_opened(command.lane, self.now)
                elif isinstance(command, CancelLanes):
                    assert all(lane.saturated for lane in command.lanes)
                    for lane in command.lanes:
                        self.core.lane_cancelled(lane, self.now)
            self.acks += [ack.tag for ack in self.core.take_acks()]
            if self.now < self.core.wake_at:
                return


def test_others_come_in_the_place_of_parked_messages_however_many_there_are() -> None:
    channel = Channel(4)
    parked = []
    while len(parked) < 600:
        for tag in channel.fill():
            channel.core.park(tag, channel.now)
            parked.append(tag)
        channel.attend()
        window = channel.consumer.window
        assert window.granted == 4
        assert sum(lane.slots for lane in channel.lanes) == 4
        assert len(channel.lanes) <= 2
    assert sum(lane.unacked for lane in channel.consumer.window.lanes) == len(parked)


def test_a_message_that_is_taken_up_again_counts_until_it_is_acknowledged() -> None:
    channel = Channel(4)
    tags = channel.fill()
    for tag in tags:
        channel.core.park(tag, channel.now)
    channel.attend()
    channel.fill()
    channel.core.unpark(tags[0], channel.now)
    assert channel.consumer.window.granted == 5
    channel.attend()
    channel.core.acknowledged(tags[0], False, channel.now)
    channel.attend()
    assert tags[0] in channel.acks
    assert channel.consumer.window.granted == 4
    assert sum(lane.slots for lane in channel.lanes) == 4


def test_an_ack_of_a_message_that_is_yet_to_be_handled_is_not_held() -> None:
    channel = Channel(8)
    tags = channel.fill()
    channel.core.retarget(channel.consumer, 2.0, channel.now)
    channel.core.acknowledged_at_once(tags[0], channel.now)
    assert [ack.tag for ack in channel.core.take_acks()] == tags[:1]
    assert channel.consumer.window.held == 0


def test_a_window_shrinks_without_held_acks_where_its_queue_is_full() -> None:
    channel = Channel(8)
    tags = channel.fill()
    channel.core.retarget(channel.consumer, 2.0, channel.now)
    channel.attend()
    for _ in range(40):
        if tags:
            channel.core.acknowledged_at_once(tags.pop(0), channel.now)
        channel.attend()
        tags += channel.fill()
        channel.attend()
    assert sum(lane.size for lane in channel.lanes) == 2
    assert channel.consumer.window.granted == 2


def assert_met_without_held_acks(channel: Channel, tags: list[int], slots: int) -> None:
    """After 60 messages more the lanes have this number of slots, and no ack is held."""
    for _ in range(60):
        channel.attend()
        if tags:
            channel.core.acknowledged(tags.pop(0), False, channel.now)
        channel.attend()
        tags += channel.fill()
    assert sum(lane.size for lane in channel.lanes) == slots
    assert channel.consumer.window.held == 0


def test_a_prefetch_that_stays_is_met_without_held_acks() -> None:
    channel = Channel(8)
    channel.consumer.plan.exact = True
    channel.core.retarget(channel.consumer, 2.0, channel.now)
    tags = channel.fill()
    assert_met_without_held_acks(channel, tags, 2)


def test_a_prefetch_fixed_while_the_queue_is_dry_is_met_without_held_acks() -> None:
    channel = Channel(8)
    channel.consumer.plan.filled = False
    channel.core.fix_one(channel.consumer, 2.0, channel.now)
    channel.attend()
    assert channel.lanes_asked == 0, "no lane could be retired"
    tags = channel.fill()
    while channel.consumer.window.held < 6:
        channel.core.acknowledged(tags.pop(0), False, channel.now)
    channel.consumer.plan.filled = True
    channel.core.sampled(channel.consumer, channel.now)
    assert_met_without_held_acks(channel, tags, 2)
