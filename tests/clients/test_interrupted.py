"""Ctrl-C at any line of ours: acks that were held still go out, and no change of lanes requeues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from controlmq.clients.channel_runner import Runner, clock
from controlmq.consumer.consumer import Consumer, Shape
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane
from tests.clients.interrupting import interrupted_at

HELD = 49


class Client:
    """A client whose broker confirms every lane at once, and which notes what goes on the wire."""

    def __init__(self) -> None:
        self.runner = Runner(self)  # type: ignore[arg-type]
        self.unacked: dict[int, str] = {}
        """The lanes of the messages that are out, by their delivery tags."""
        self.sizes: dict[str, int] = {}
        """The lanes that are open at the broker."""
        self.sent = Counter[int]()
        self._next_tag = 1

    def __getattr__(self, name: str) -> Any:
        """Everything else of an adapter does nothing here."""
        return lambda *_: None

    def open_lane(self, lane: Lane) -> None:
        self.sizes[lane.tag] = lane.size
        self.runner.lane_opened(lane)

    def cancel_lanes(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            size = self.sizes.pop(lane.tag)
            out = [tag for tag, each in self.unacked.items() if each == lane.tag]
            assert len(out) == size, "a message may be on its way, which the broker requeues"

    def send_acks(self, acks: Sequence[Ack]) -> None:
        for ack, multiple in acks:
            tags = [tag for tag in self.unacked if tag <= ack] if multiple else [ack]
            self.sent.update(tags)
            for tag in tags:
                del self.unacked[tag]  # 406 at a real broker if it is not there

    def deliver(self, lane: Lane, messages: int) -> None:
        """As many messages come and are handed over."""
        for _ in range(messages):
            tag = self._next_tag
            self._next_tag += 1
            self.unacked[tag] = lane.tag
            self.runner.core.delivered(lane, tag, clock())
            if tag == 1:
                self.runner.core.first_message(lane, tag, {})


def with_held_acks() -> tuple[Client, Consumer]:
    """A consumer of prefetch 50 with as many messages, whose window has shrunk to one."""
    client = Client()
    consumer = Consumer("tag", "queue", 50.0, Shape(window="lanes", interval=60), clock())
    client.runner.subscribe(consumer)
    client.deliver(consumer.window.lanes[0], 50)
    client.runner.retarget(consumer, 1.0)
    for tag in range(1, HELD + 1):
        client.runner.acknowledge(tag, False)
    assert (consumer.window.held, client.sent.total()) == (HELD, 0)
    return client, consumer


def by_growing(client: Client, consumer: Consumer) -> None:
    client.runner.retarget(consumer, 50.0)
    client.runner.acknowledge(50, False)


def by_several_at_once(client: Client, consumer: Consumer) -> None:
    client.runner.retarget(consumer, 50.0)
    client.runner.acknowledge(50, True)


def by_a_refusal(client: Client, consumer: Consumer) -> None:
    client.runner.reject(50, True)


def by_control_that_ends(client: Client, consumer: Consumer) -> None:
    client.runner.fix(50)


def by_giving_all_back(client: Client, consumer: Consumer) -> None:
    client.runner.give_back_all()


@pytest.mark.parametrize(
    "released",
    [
        by_growing,
        by_several_at_once,
        by_a_refusal,
        by_control_that_ends,
        by_giving_all_back,
    ],
    ids=lambda way: way.__name__,
)
def test_an_interrupt_while_acks_go_out_loses_none_that_was_held(
    released: Callable[[Client, Consumer], None],
) -> None:
    for line in count():
        client, consumer = with_held_acks()

        def release(client: Client = client, consumer: Consumer = consumer) -> None:
            released(client, consumer)

        more = interrupted_at(line, release)
        client.runner.give_back_in_time()
        # Of acks that move alone, one may be lost, as with every client: no more than the one
        # that the program was about to give when it was interrupted.
        assert sum(tag <= HELD for tag in client.sent) >= HELD - 1, f"line {line}"
        assert set(client.sent.values()) == {1}
        lane = consumer.window.lanes[0]
        assert abs(lane.unacked - len(client.unacked)) <= 1, f"line {line}"
        if not more:
            assert sum(tag <= HELD for tag in client.sent) == HELD
            return


def with_a_lane_to_retire() -> tuple[Client, Consumer, Lane]:
    """A consumer with two lanes of four, of which one is retired; its last message is to come."""
    client = Client()
    shape = Shape(window="lanes", interval=60, controlled=True)
    consumer = Consumer("tag", "queue", 4.0, shape, clock())
    client.runner.subscribe(consumer)
    consumer.plan.linger = 0
    client.runner.retarget(consumer, 8.0)
    client.runner.wake(clock())
    first, second = consumer.window.lanes
    client.deliver(first, 3)
    client.deliver(second, 3)
    client.runner.retarget(consumer, 4.0)
    client.runner.wake(clock())
    for tag in (4, 5, 6):
        client.runner.acknowledge(tag, False)
    assert second.retiring
    assert len(second.kept) == 3
    return client, consumer, second


def test_an_interrupt_while_a_lane_is_retired_requeues_nothing() -> None:
    for line in count():
        client, consumer, lane = with_a_lane_to_retire()

        def retire(client: Client = client, lane: Lane = lane) -> None:
            client.deliver(lane, 1)  # the last slot: nothing can be on its way now
            client.runner.wake(clock())

        more = interrupted_at(line, retire)
        client.runner.give_back_in_time()
        client.runner.wake(clock())
        assert lane.cancelled or lane.tag in client.sizes
        assert consumer.pending is None, f"line {line}"
        if not more:
            assert lane.cancelled
            return


def test_an_interrupt_while_a_lane_is_opened_leaves_a_window_that_grows() -> None:
    for line in count():
        client = Client()
        consumer = Consumer("tag", "queue", 4.0, Shape(window="lanes", interval=60), clock())
        client.runner.subscribe(consumer)
        client.deliver(consumer.window.lanes[0], 1)

        def grow(client: Client = client, consumer: Consumer = consumer) -> None:
            client.runner.retarget(consumer, 8.0)
            client.runner.wake(clock())

        more = interrupted_at(line, grow)
        client.runner.give_back_in_time()
        client.runner.retarget(consumer, 8.0)
        client.runner.wake(clock())
        assert sum(client.sizes.values()) == 8, f"line {line}"
        if not more:
            return


def test_an_interrupt_while_a_consumer_subscribes_leaves_one_that_can_be_cancelled() -> None:
    for line in count():
        client = Client()
        consumer = Consumer("tag", "queue", 4.0, Shape(window="lanes", interval=60), clock())
        more = interrupted_at(line, lambda: client.runner.subscribe(consumer))  # noqa: B023
        subscribed = bool(client.sizes)
        assert client.runner.core.consumers == ({"tag": consumer} if subscribed else {}), (
            f"line {line}"
        )
        if not more:
            assert subscribed
            return
