"""The window: a real-valued prefetch made exact by holding acknowledgements.

RabbitMQ takes a whole prefetch per consumer and never changes it afterwards. So the window
grows by opening one more consumer on the same channel (a lane), and shrinks by holding
acknowledgements of handled messages: each one held is one slot less, at once.

What the broker may fill now is ``open_slots = granted - held``. A target of 6.3 is met by
switching between 6 and 7 open slots such that the mean over time is 6.3::

    E = integral of (target - open_slots) dt        7 slots while E >= 0, else 6

With a target below 1 the same rule paces every message: 1 slot until the message is handled,
then 0 until ``E`` is back at 0, which makes a rate of ``target`` times that of prefetch 1.

Where ``spacing`` is set (:mod:`controlmq.consumer.spread`), the acks that open slots also keep
that distance from each other; where there is a ``bucket``, each of them takes a token of it.
``simulator.engine.window`` is the same law, compiled.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from controlmq.consumer.bucket import Bucket
from controlmq.consumer.lanes import Held, Lane

if TYPE_CHECKING:
    from controlmq.consumer.consumer import Consumer

MADE_UP_ACKS = 3
"""Acks that may go at once to make up for a delay, where they are spaced."""

MADE_UP_SECONDS = 0.002
"""Seconds of delay that spaced acks always make up for: timers of a client are that coarse, and
closer spacings would lose rate to them."""

MOST_ERROR_SLOT_SECONDS = 1.0
"""Bound on ``E`` from above: slots that were missing for another reason than held acks (a lane
still to be opened) are not made up for."""

ROUNDING_SLOT_SECONDS = 1e-9
"""``E`` counts as 0 from here on: a timer set for that instant leaves a rounding error."""


class Window:
    """Which slots the broker has and which acks are held.

    At most ``max_held`` acks are held, or as many as lanes being retired need if that is more;
    none is held for longer than ``max_hold`` seconds.
    """

    def __init__(self, target: float, now: float, *, max_held: int, max_hold: float) -> None:
        self.max_held = max_held
        self.max_hold = max_hold
        self.lanes: list[Lane] = []
        self.granted = 0
        """Slots of open lanes and messages that cancelled lanes still have unacknowledged, both
        without those that are parked."""
        self.held = 0
        """Acknowledgements given by the handler and not sent, all kinds below together."""
        self.error = 0.0
        """``E`` in slot-seconds."""
        self.idle = False
        """Whether the queue is dry: nothing is held then, and ``E`` stands still."""
        self.spacing = 0.0
        """Seconds between two acks that open a slot each; 0 for none."""
        self.bucket: Bucket | None = None
        """Says when an ack may open a slot, where the rate is bounded."""
        self.tokens_awaited = 0
        """Tokens that an ack was waiting for when the bucket got them."""
        self.spaced = False
        """Whether an ack that may go by the number of slots waits for its distance or token."""
        self.more = False
        """Whether further acks might have gone when :meth:`release` was to send one at most."""
        self._next_release = now
        self._waiting: deque[Held] = deque()
        self._kept = 0
        self._free: list[Held] = []
        self._at = now
        self._counted_slots = 0
        """Open slots that ``E`` counts from ``_at`` on."""
        self._set(target)

    @property
    def wanted(self) -> int:
        """Slots to have in open lanes."""
        return max(self._ceil, 1)

    @property
    def open_slots(self) -> int:
        """Messages that the broker may have on their way to the handler or in it."""
        return self.granted - self.held

    def all_held(self) -> list[Held]:
        """Every held ack, in no particular order."""
        kept = [held for lane in self.lanes for held in lane.kept]
        return [*self._free, *self._waiting, *kept]

    @property
    def subscribed(self) -> list[Lane]:
        """Lanes that the broker delivers to."""
        return [lane for lane in self.lanes if not lane.cancelled]

    # What happened

    def retarget(self, target: float, now: float) -> None:
        """Aim at ``target`` open slots on average from now on."""
        self._integrate(now)
        self._set(target)

    def opened(self, consumer: Consumer, tag: str, size: int) -> Lane:
        """Enter a lane whose request is about to be sent: its slots count from now on."""
        lane = Lane(tag, size, consumer)
        self.lanes.append(lane)
        self.granted += size
        self._counted_slots += size
        return lane

    def hold(self, tag: int, lane: Lane, now: float) -> None:
        """Take in the handler's ack of ``tag``; ask :meth:`release` what to send."""
        self.held += 1
        held = Held(tag, lane, now)
        if lane.cancelled:
            self._free.append(held)
        elif lane.retiring:
            lane.kept.append(held)
            self._kept += 1
        else:
            self._waiting.append(held)

    def answered(self, lane: Lane) -> None:
        """Count a message of ``lane`` as rejected, or as acknowledged outside of :meth:`hold`."""
        lane.answered += 1
        if lane.cancelled:
            self.granted -= 1
            self._forget(lane)

    def parked(self, lane: Lane, count: int, now: float) -> None:
        """Count this many more messages of ``lane`` as parked, or fewer where it is negative."""
        self._integrate(now)
        lane.parked += count
        self.granted -= count
        self._counted_slots -= count

    def cancelled(self, lane: Lane) -> None:
        """Note that the cancel of ``lane`` is on the wire, so that its acks may go."""
        if lane.cancelled:
            return
        lane.cancelled = True
        self.granted -= lane.size - lane.unacked
        self._free += lane.kept
        self._kept -= len(lane.kept)
        lane.kept = []
        self._forget(lane)

    def wake(self, now: float) -> None:
        """Messages come again after :meth:`rest`."""
        self.idle = False
        self.error = 0.0
        self._at = now

    # What to send

    def release(self, now: float, several: bool = True) -> list[Held]:
        """The acks to send now, oldest first, perhaps one at most; they count as sent."""
        self._integrate(now)
        self.more = not several and len(self._free) > 1
        if self.more:
            return []
        allowed = self._floor if self.error < -ROUNDING_SLOT_SECONDS else self._ceil
        waiting = self._waiting
        released, self._free = self._free, []
        most = max(self.max_held - self._kept, 0)
        keep = min(self.granted - self._kept - len(released) - allowed, most)
        if self.idle:
            keep = 0
        self.spaced = False
        paced = (self.spacing or self.bucket is not None) and not self.idle
        while len(waiting) > keep and waiting:
            if paced:
                early = self.spacing and now < self._next_release
                if self.bucket is not None:
                    early = early or now < self.bucket.ready_at
                if early and len(waiting) <= most:
                    self.spaced = True
                    break
            if released and not several:
                self.more = True
                break
            if paced:
                if self.spacing:
                    self._space(now)
                if self.bucket is not None:
                    self.tokens_awaited += self.bucket.ready_at > waiting[0].since
                    self.bucket.take(now)
            released.append(waiting.popleft())
        while waiting and now >= waiting[0].since + self.max_hold:
            if released and not several:
                self.more = True
                break
            released.append(waiting.popleft())
        if released:
            self._send(released)
        else:
            self._counted_slots = self.granted - self.held
        return released

    def release_due(self, by: float, now: float) -> list[Held]:
        """The waiting acks whose time ends until ``by``; they count as sent."""
        self._integrate(now)
        released = []
        while self._waiting and by >= self._waiting[0].since + self.max_hold:
            released.append(self._waiting.popleft())
        self._send(released)
        return released

    def rest(self, now: float) -> list[Held]:
        """All held acks: the queue is dry, and holding them would shape nothing."""
        self.idle = True
        return self.drain(now)

    def drain(self, now: float) -> list[Held]:
        """All held acks that may go, whatever the target; they count as sent."""
        self._integrate(now)
        self.spaced = False
        for lane in self.lanes:
            self.unkeep(lane)
        released = [*self._free, *self._waiting]
        self._free = []
        self._waiting.clear()
        self._send(released)
        return released

    def deadline(self, now: float) -> float:
        """When :meth:`release` has to be asked again, if nothing happens before."""
        if not self._waiting:
            return math.inf
        due = self._waiting[0].since + self.max_hold
        if self.spaced:
            opens_at = self._next_release if self.spacing else now
            if self.bucket is not None:
                opens_at = max(opens_at, self.bucket.ready_at)
            return min(due, max(now, opens_at))
        if self._fraction and self.error < 0 and self.granted - self.held < self._ceil:
            return min(due, now - self.error / self._fraction)
        return due

    # Acks kept for a lane that is being retired

    def keep(self, lane: Lane, now: float) -> None:
        """Keep the acks of ``lane`` from now on, and those already held that are not due."""
        lane.retiring = True
        for held in [held for held in self._waiting if held.lane is lane]:
            if now < held.since + self.max_hold:
                self._waiting.remove(held)
                lane.kept.append(held)
                self._kept += 1

    def unkeep(self, lane: Lane) -> None:
        """Treat the acks of ``lane`` like all others again."""
        lane.retiring = False
        if lane.kept:
            self._kept -= len(lane.kept)
            merged = sorted([*self._waiting, *lane.kept], key=lambda held: held.since)
            self._waiting = deque(merged)
            lane.kept = []

    # Bookkeeping

    def _set(self, target: float) -> None:
        self.target = target
        self._floor = math.floor(target)
        self._fraction = target - self._floor
        self._ceil = self._floor + (self._fraction > 0)

    def _integrate(self, now: float) -> None:
        # Slots beyond the whole numbers around the target are on their way there by other
        # means (acks to come, a lane to open); answering them here would only overshoot. What
        # spacing holds back is held on purpose.
        if self._fraction and not self.idle and not self.spaced:
            slots = min(max(self._counted_slots, self._floor), self._ceil)
            error = self.error + (self.target - slots) * (now - self._at)
            # Below this an ack would be held for longer than max_hold.
            lowest = -self._fraction * self.max_hold
            self.error = min(max(error, lowest), MOST_ERROR_SLOT_SECONDS)
        self._at = now

    def _space(self, now: float) -> None:
        """Count an ack that opens a slot now, and find when the next one may."""
        made_up = max(MADE_UP_ACKS * self.spacing, MADE_UP_SECONDS)
        due = max(self._next_release, now - made_up)
        self._next_release = min(due, now) + self.spacing

    def _send(self, released: list[Held]) -> None:
        self.held -= len(released)
        for _, lane, _ in released:
            lane.answered += 1
            if lane.cancelled:
                self.granted -= 1
                self._forget(lane)
        self._counted_slots = self.granted - self.held

    def _forget(self, lane: Lane) -> None:
        if lane.cancelled and lane.unacked == 0 and lane in self.lanes:
            self.lanes.remove(lane)
