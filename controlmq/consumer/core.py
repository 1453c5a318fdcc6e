"""The core: everything controlmq knows of one channel, without a socket and without a clock.

A client adapter reports what happened (methods named for events, each with the time in
seconds) and then carries out what the core asks for, in this order:

- ``acks``: frames to send, taken with :meth:`Core.take_acks`;
- ``samples_due``: consumers whose interval is over, for the owner of the loop to observe and to
  answer with :meth:`Core.sampled`;
- ``commands``: lanes to open and to cancel, notices to log; acks go out before a lane is opened;
- ``hand_over_at``: when to take messages with :meth:`Core.hand_over` and give them to the user;
- ``wake_at``: when to call :meth:`Core.wake`, if nothing else happens before.

Nobody but the core and its consumers writes to the ledger, the lanes, the windows, the gates and
the sensors. An adapter reports what happened and reads what it needs. What it asks of a consumer it
asks the core for, which then finds again when to wake and when to hand over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from controlmq.consumer.commands import CancelLanes, Command, OpenLane
from controlmq.consumer.consumer import REFUSED_LANE_RETRY_SECONDS, Buckets, Consumer
from controlmq.consumer.lanes import Lane
from controlmq.consumer.messages import Messages
from controlmq.controllers.limits import Limits

IDLE_AFTER_SECONDS = 0.1
"""Seconds for which a slot must have been overdue before held acks are given back."""


class Core(Messages):
    """The consumers of one channel, their acks, and what has to happen next."""

    def __init__(
        self, uninterrupted: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        super().__init__(uninterrupted)
        self.commands: deque[Command] = deque()
        self.samples_due: deque[Consumer] = deque()
        self.blocked = False
        """Whether the broker has stopped reading from the connection: no lane changes then."""
        self._lanes: dict[str, Lane] = {}
        self._lane_number = 0

    @property
    def listening(self) -> bool:
        """Whether a lane waits for an answer or a last message, which the client may read now."""
        consumers = self.consumers.values()
        return any(each.pending is not None or each.plan.retiring for each in consumers)

    # Consumers and lanes

    def subscribe(self, consumer: Consumer, now: float) -> Lane:
        """The first lane of a new consumer, which counts from now on; open it."""
        consumer.now = now
        lane = self._new_lane(consumer, consumer.first_size)
        consumer.pending = lane
        self.consumers[consumer.tag] = consumer
        self._attend_by(consumer, consumer.next_sample)
        return lane

    def named(self, consumer: Consumer, queue: str) -> None:
        """The broker has told the name of a consumer's queue, which it chose itself."""
        consumer.queue = queue

    def lane_opened(self, lane: Lane, now: float) -> None:
        """The broker confirmed ``lane``."""
        consumer = lane.consumer
        if consumer.pending is lane:
            consumer.pending = None
            consumer.lane_opened(lane)
            self._attend_by(consumer, now)
            if consumer.cancelled:
                self._cancel_leaving()

    def lane_refused(self, lane: Lane, now: float) -> None:
        """The broker did not accept ``lane``: the window stays as it is for a while."""
        consumer = lane.consumer
        consumer.grow_after = now + REFUSED_LANE_RETRY_SECONDS
        consumer.lanes_refused += 1
        self._lane_gone(lane, now)
        self._attend_by(consumer, now)  # with fewer slots a held ack may be due sooner
        if not consumer.window.subscribed:
            self.consumers.pop(consumer.tag, None)
            consumer.cancelled = True
            self._leave(consumer, now)
        if consumer.cancelled:
            self._cancel_leaving()

    def lane_cancelled(self, lane: Lane, now: float) -> None:
        """The cancel of ``lane`` is on the wire: its acks may go."""
        consumer = lane.consumer
        awaited = consumer.pending is lane
        self._lane_gone(lane, now)
        if not consumer.cancelled:
            self._release(consumer, now)
            self._attend_by(consumer, now)
        elif not consumer.window.subscribed:
            self._leave(consumer, now)
        elif awaited:
            self._cancel_leaving()

    def cancelled_by_broker(self, lane_tag: str) -> Consumer | None:
        """The consumer that is gone because the broker cancelled one of its lanes.

        The other lanes go with it: the user has one consumer. Its own lane is cancelled too:
        RabbitMQ 4.3 goes on delivering to a consumer whose timeout it has reported, until it is
        told. None for a lane that is unknown or whose consumer is already being cancelled.
        """
        lane = self._lanes.get(lane_tag)
        if lane is None:
            return None
        self.subscribed_without_window()
        consumer = lane.consumer
        if consumer.cancelled:
            return None
        self.cancel([consumer])
        return consumer

    def cancel(self, consumers: Iterable[Consumer]) -> None:
        """Cancel all lanes of these; their held acks follow, and open no slot any more.

        Messages that they have not got yet go back to their queues. Acks of messages they still
        have out may come later and are sent at once.
        """
        for consumer in consumers:
            consumer.cancelled = True
            consumer.plan.stop_retiring()
            self.leaving.append(consumer)
            self.consumers.pop(consumer.tag, None)
        self._find_hand_over_at()
        self._cancel_leaving()

    def _cancel_leaving(self) -> None:
        """Cancel all lanes of the consumers that leave, with one command.

        What a cancelled lane gives back would be delivered to a lane that is still open, given
        back again, and lost at the delivery limit of its queue. A change of lanes that is not
        answered yet is waited for: the broker may fail if a cancel follows too closely. So is a
        commit.
        """
        if not self.commits and all(consumer.pending is None for consumer in self.leaving):
            lanes = [lane for consumer in self.leaving for lane in consumer.window.subscribed]
            if lanes:
                self.commands.append(CancelLanes(tuple(lanes)))

    def _leave(self, consumer: Consumer, now: float) -> None:
        """Let go of a cancelled consumer whose last lane is gone; its held acks are sent."""
        if consumer in self.leaving:
            self.leaving.remove(consumer)
        self._give_back(consumer, now)
        self.ledger.unwanted += self._forget_gated(consumer, now)
        self._return_unwanted()

    def sampled(self, consumer: Consumer, now: float) -> None:
        """The owner of the loop has observed a consumer and perhaps actuated it."""
        self._take_notices(consumer)
        self._changed(consumer, now)

    def pace(self, consumer: Consumer, rate: float | None, burst: float | None, now: float) -> None:
        """Bound what is handed over to a consumer from now on; see :meth:`Consumer.pace`."""
        consumer.now = now
        consumer.pace(rate, burst)
        self._changed(consumer, now)

    def share(
        self, consumer: Consumer, rate: float, burst: float, until: float, now: float
    ) -> None:
        """Bound what is handed over by a share that ends; see :meth:`Consumer.share`."""
        consumer.now = now
        consumer.share(rate, burst, until)
        self._changed(consumer, now)

    def follow_on(self, consumer: Consumer, last: Consumer, now: float) -> None:
        """Take over what bounds ``last``, which has ended; see :meth:`Consumer.follow_on`."""
        consumer.now = now
        consumer.follow_on(last)
        self._changed(consumer, now)

    def use_buckets(
        self, consumer: Consumer, buckets: Buckets, now: float, *, empty: bool = False
    ) -> None:
        """Bound what is handed over to several together; see :meth:`Consumer.use_buckets`.

        ``empty``: their tokens are taken away first, so that they begin without a burst.
        """
        consumer.now = now
        if empty:
            for bucket in buckets:
                bucket.empty(now)
        consumer.use_buckets(buckets)
        self._changed(consumer, now)

    def be_pulled(self, consumer: Consumer, now: float) -> None:
        """The user takes messages one by one; see :meth:`Consumer.be_pulled`."""
        consumer.now = now
        consumer.be_pulled()
        self._changed(consumer, now)

    def be_single(self, consumer: Consumer, why: str, now: float) -> None:
        """Keep a consumer to one subscription from now on."""
        consumer.now = now
        consumer.be_single(why)
        self._take_notices(consumer)
        self._changed(consumer, now)

    def keep_lanes_exact(self, consumer: Consumer, linger: float, now: float) -> None:
        """Have no slot more in lanes than is wanted; see :meth:`Consumer.keep_lanes_exact`."""
        consumer.now = now
        consumer.keep_lanes_exact(linger)
        self._changed(consumer, now)

    def limited(self, consumer: Consumer, limits: Limits | None, now: float) -> None:
        """Other limits hold for the prefetch of a consumer from now on."""
        consumer.now = now
        consumer.limits = limits
        consumer.actuate(consumer.window.target)
        self._take_notices(consumer)
        self._changed(consumer, now)

    def block(self, now: float) -> None:
        """The broker has stopped reading from the connection: lanes stay as they are."""
        self.blocked = True
        self._attend_all(now)

    def unblocked(self, now: float) -> None:
        """The broker reads from the connection again."""
        self.blocked = False
        self._attend_all(now)

    def committing(self) -> None:
        """A commit is about to be sent. Up to its answer the broker allows nothing else."""
        self.commits += 1

    def commit_answered(self, now: float) -> None:
        """The broker has answered a commit: what had to wait for that follows."""
        self.commits -= 1
        if not self.commits:
            self._cancel_leaving()
            self._return_unwanted()
            self._attend_all(now)

    def fix(self, prefetch: float | None, now: float) -> None:
        """Hold every consumer at ``prefetch``, or at the slots it has, from now on."""
        for consumer in self.consumers.values():
            self.fix_one(consumer, prefetch, now)

    def fix_one(self, consumer: Consumer, prefetch: float | None, now: float) -> None:
        """Hold a consumer at ``prefetch``, or at the slots it has, from now on."""
        self._give_back(consumer, now)
        consumer.now = now
        consumer.fix(prefetch)
        self._changed(consumer, now)

    def unfix(
        self, consumer: Consumer, limits: Limits | None, now: float, *, controlled: bool
    ) -> None:
        """Let a consumer go on as before :meth:`fix_one`, from the prefetch in force."""
        consumer.now = now
        consumer.unfix(controlled=controlled)
        self.limited(consumer, limits, now)

    def retarget(self, consumer: Consumer, prefetch: float, now: float) -> None:
        """Aim a consumer at another prefetch, at once."""
        consumer.now = now
        consumer.actuate(prefetch)
        self._take_notices(consumer)
        self._attend_by(consumer, now)

    # Time

    def _attend(self, consumer: Consumer, now: float) -> None:
        consumer.now = now
        if now >= consumer.next_sample:
            consumer.look_for_stuck_lanes()
            # The rest follows from what the loop decides.
            consumer.start_next_interval()
            consumer.attend_at = self._attention_at(consumer, now)
            self.samples_due.append(consumer)
            return
        dry_since = consumer.sensors.dry_since(now)
        if dry_since is not None and now - dry_since >= IDLE_AFTER_SECONDS:
            # Messages that wait here, behind those of another consumer, are not late.
            if not any(lane.waiting for lane in consumer.window.lanes):
                with self.uninterrupted():
                    self._send(consumer, consumer.window.rest(now), now)
        self._change_lanes(consumer, now)
        consumer.attend_at = self._attention_at(consumer, now)
        self._release_unless_cancelling(consumer, now)  # which may ask for attention again
        if consumer.notices:
            self._take_notices(consumer)

    def _change_lanes(self, consumer: Consumer, now: float) -> None:
        """Ask for the next change of lanes; there is one at a time."""
        if self.blocked:
            # None can be cancelled now, so no ack has to wait for that.
            consumer.plan.stop_retiring()
        if consumer.pending is not None or self.blocked or self.commits:
            return
        lane = consumer.barren_lane() or consumer.plan.saturated_lane(now)
        if lane is not None:
            with self.uninterrupted():
                consumer.pending = lane
                self.commands.append(CancelLanes((lane,)))
            return
        size = consumer.plan.new_lane_size(now) if now >= consumer.grow_after else 0
        if size:
            with self.uninterrupted():
                lane = consumer.pending = self._new_lane(consumer, size)
                self.commands.append(OpenLane(lane))

    def _attention_at(self, consumer: Consumer, now: float) -> float:
        """When a consumer needs more than its acks released, if nothing happens before."""
        window = consumer.window
        due = consumer.next_sample
        if consumer.pending is None and not self.blocked and not self.commits:
            due = min(due, consumer.plan.deadline())
            if consumer.grow_after > now:
                due = min(due, consumer.grow_after)
        if window.held and not window.idle:
            due = min(due, now + IDLE_AFTER_SECONDS)
        return due

    def _changed(self, consumer: Consumer, now: float) -> None:
        """Find again when a consumer hands over, and what its window and lanes need."""
        self._find_hand_over_at()
        self._attend_by(consumer, now)

    def _attend_all(self, now: float) -> None:
        for consumer in self.consumers.values():
            self._attend_by(consumer, now)

    # Bookkeeping

    def _take_notices(self, consumer: Consumer) -> None:
        self.commands.extend(consumer.notices)
        consumer.notices.clear()

    def _new_lane(self, consumer: Consumer, size: int) -> Lane:
        self._lane_number += 1
        lane = consumer.new_lane(size, self._lane_number)
        self._lanes[lane.tag] = lane
        return lane

    def _lane_gone(self, lane: Lane, now: float) -> None:
        consumer = lane.consumer
        consumer.now = now
        if consumer.pending is lane:
            consumer.pending = None
        self._lanes.pop(lane.tag, None)
        consumer.lane_gone(lane)
