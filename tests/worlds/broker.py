"""A broker that does what RabbitMQ was seen to do with the consumers of one channel."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any


class Violation(AssertionError):  # noqa: N818
    """Something happened that must not happen in any world."""


class BrokerLane:
    """One consumer at the broker, with a prefetch of its own."""

    __slots__ = ("active", "keeps", "lane", "queue", "size", "tag", "unacked")

    def __init__(self, lane: Any, queue: BrokerQueue) -> None:
        self.lane = lane
        self.tag: str = lane.tag
        self.size: int = lane.size
        self.queue = queue
        self.active = True
        self.keeps = False
        """Whether its messages count as delivered and do not come until the channel is closed."""
        self.unacked = 0


class BrokerQueue:
    """Messages that are ready, and the lanes that take them."""

    __slots__ = ("endless", "in_flight", "lanes", "limit", "published", "ready", "single", "turn")

    def __init__(self, single: bool) -> None:
        self.ready: deque[int] = deque()
        self.lanes: list[BrokerLane] = []
        self.single = single
        """Whether one consumer at a time is served."""
        self.endless = False
        self.turn = 0
        self.in_flight = 0
        self.limit = 0
        """Slots that the consumer had asked for when it sent what arrived last."""


class Broker:
    """Queues, lanes and delivery tags of one channel.

    ``deliver`` is called with a broker's lane, a delivery tag and a message. ``violations`` of
    the protocol are raised: on a real broker they close the channel.
    """

    def __init__(
        self,
        rng: random.Random,
        queues: list[BrokerQueue],
        deliver: Callable[[BrokerLane, int, int], None],
        in_turn: bool,
    ) -> None:
        self.queues = queues
        self.lanes: dict[str, BrokerLane] = {}
        self.unacked: dict[int, tuple[int, BrokerLane | None, BrokerQueue]] = {}
        self.tags = 0
        self.kept: list[tuple[int, BrokerQueue]] = []
        """Messages that count as delivered, to a lane that has not got them."""
        self.done = 0
        """Messages that were acknowledged, or rejected for good."""
        self.redelivered: set[int] = set()
        self.given_back: dict[int, Any] = {}
        """Messages that a consumer gave back unseen, as it was cancelled."""
        self.published = 0
        self.in_transaction: dict[int, bool] | None = None
        """Tags answered and not committed, and whether their messages are done with."""
        self._random = rng.random
        self._deliver = deliver
        self._in_turn = in_turn

    def publish(self, queue: BrokerQueue, count: int) -> None:
        """Add ``count`` new messages to the queue."""
        first = self.published
        self.published += count
        queue.ready.extend(range(first, first + count))
        self.pump(queue)

    def consume(self, lane: Any, queue: BrokerQueue) -> None:
        """A lane subscribes."""
        known = self.lanes.get(lane.tag)
        if known is not None:
            raise Violation(f"consumer tag {lane.tag} is used twice")
        opened = self.lanes[lane.tag] = BrokerLane(lane, queue)
        queue.lanes.append(opened)
        self.pump(queue)

    def cancel(self, tag: str) -> None:
        """A lane gets no more messages; those it has stay unacknowledged."""
        lane = self.lanes.get(tag)
        if lane is not None and lane.active:
            lane.active = False
            lane.queue.lanes.remove(lane)
            self.pump(lane.queue)

    def pump(self, queue: BrokerQueue) -> None:
        """Deliver while a message is ready and a lane has room."""
        ready, lanes = queue.ready, queue.lanes
        while lanes:
            if not ready:
                if not queue.endless:
                    return
                ready.extend(range(self.published, self.published + 20))
                self.published += 20
            lane = lanes[0]
            if len(lanes) > 1 and not queue.single:
                start = queue.turn if self._in_turn else int(self._random() * len(lanes))
                for number in range(start, start + len(lanes)):
                    lane = lanes[number % len(lanes)]
                    if lane.unacked < lane.size:
                        queue.turn = (number + 1) % len(lanes)
                        break
            if lane.unacked >= lane.size:
                return
            message = ready.popleft()
            if self.given_back.get(message) is lane.lane.consumer:
                raise Violation(f"{lane.tag} gets message {message}, which its consumer gave back")
            lane.unacked += 1
            queue.in_flight += 1
            if queue.in_flight > queue.limit:
                raise Violation(
                    f"{queue.in_flight} messages are in flight where {queue.limit} slots "
                    "were asked for"
                )
            if lane.keeps:
                self.kept.append((message, queue))
                continue
            self.tags = tag = self.tags + 1
            self.unacked[tag] = message, lane, queue
            self._deliver(lane, tag, message)

    def get(self, queue: BrokerQueue) -> tuple[int, int] | None:
        """Delivery tag and message of ``basic_get``; None from an empty queue."""
        if not queue.ready:
            return None
        message = queue.ready.popleft()
        self.tags += 1
        self.unacked[self.tags] = message, None, queue
        return self.tags, message

    def acknowledge(self, tag: int, multiple: bool) -> None:
        """Ack one message, or all up to it."""
        if self.in_transaction is not None:
            self.in_transaction.update(dict.fromkeys(self._covered(tag, multiple), True))
            return
        if not multiple:
            entry = self.unacked.pop(tag, None)
            if entry is None:
                raise Violation(f"406: unknown delivery tag {tag}")
            self.done += 1
            lane = entry[1]
            if lane is not None:
                lane.unacked -= 1
                lane.queue.in_flight -= 1
                self.pump(lane.queue)
            return
        for each in self._covered(tag, True):
            self.settle(each, True)
        for queue in self.queues:
            self.pump(queue)

    def refuse(self, tag: int, multiple: bool, requeue: bool) -> None:
        """Nack or reject."""
        covered = self._covered(tag, multiple)
        if self.in_transaction is not None:
            self.in_transaction.update(dict.fromkeys(covered, not requeue))
            return
        for each in reversed(covered):
            self.settle(each, not requeue)
        for queue in self.queues:
            self.pump(queue)

    def commit(self) -> None:
        """Carry out what the transaction has collected."""
        answers, self.in_transaction = self.in_transaction or {}, {}
        for tag in sorted(answers, reverse=True):
            self.settle(tag, answers[tag])
        for queue in self.queues:
            self.pump(queue)

    def settle(self, tag: int, done: bool) -> None:
        """A message is done with, or goes back to the head of its queue."""
        entry = self.unacked.pop(tag, None)
        if entry is None:
            raise Violation(f"406: unknown delivery tag {tag}")
        message, lane, queue = entry
        if lane is not None:
            lane.unacked -= 1
            queue.in_flight -= 1
        if done:
            self.done += 1
        else:
            queue.ready.appendleft(message)
            self.redelivered.add(message)

    def close(self) -> None:
        """The channel is gone: everything unacknowledged is ready again."""
        for tag in sorted(self.unacked, reverse=True):
            self.settle(tag, False)
        for message, queue in reversed(self.kept):
            queue.in_flight -= 1
            queue.ready.appendleft(message)
            self.redelivered.add(message)
        self.kept.clear()
        self.lanes.clear()
        self.tags = 0
        self.in_transaction = None
        for queue in self.queues:
            queue.lanes.clear()
            queue.limit = queue.turn = 0

    def _covered(self, tag: int, multiple: bool) -> list[int]:
        answered = self.in_transaction or ()
        if not multiple:
            if tag not in self.unacked or tag in answered:
                raise Violation(f"406: unknown delivery tag {tag}")
            return [tag]
        covered = []
        for each in self.unacked:
            if each > tag:
                break
            if each not in answered:
                covered.append(each)
        if not covered:
            raise Violation(f"406: unknown delivery tag {tag}, and none below it")
        return covered
