"""The window: a real-valued prefetch made exact, without a socket.

RabbitMQ takes a whole prefetch per consumer and never changes it afterwards. So the window
grows by opening one more consumer on the same channel (a lane), and shrinks by holding back
acknowledgements of handled messages: each one held is one slot less, at once. A lane that
is not needed any more is retired when all its slots are occupied.

What the broker may fill now is ``open_slots = granted - held``. A target of 6.3 is met by
switching between 6 and 7 open slots such that the mean over time is 6.3::

    E = integral of (target - open_slots) dt        7 slots while E >= 0, else 6

With a target below 1 the same rule paces every message: 1 slot until the message is handled,
then 0 until ``E`` is back at 0, which makes a rate of ``target`` times that of prefetch 1.

:class:`Window` only keeps the books and decides. Whoever drives it has the socket and the
clock, and says what happened: ``opened``, ``hold`` (the handler acknowledged), ``settled``
(nack, reject), ``cancelled``.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from controlmq.rabbitmq.lanes import Held, Lane, first_within, lanes_within

MAX_LANES = 6
"""Lanes take a larger share from competing consumers, so they are few: beyond these, small
lanes are merged before another is opened. There are more only where ``max_held`` is so small
that no lane could be retired to be merged."""

MERGE = 3
"""Lanes merged into one at a time."""

RETIRE_LOOK = 0.005
"""Seconds between looks at whether a retiring lane is saturated, or all of it merged."""

WAIT_FOR = 0.005
"""Seconds. A switch between two numbers of slots that is nearer than this waits for the next
delivery or ack instead of a timer; with no slot open there is none to wait for."""

OVERDUE = 0.02
"""Slot-seconds of ``E`` at which a slot is opened together with an ack after all: a consumer
that is never without a message has no better moment."""


MADE_UP = 3
"""Acks that may go at once to make up for a delay, where they are spaced."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open one more lane of ``size`` slots."""

    size: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel this lane; it is saturated. Its acks go out after the cancel, never before."""

    lane: Lane


class Window:
    """Which slots the broker has, which acks are held, and what to change next.

    ``max_held`` acks at most are held, none longer than ``max_hold`` seconds. A lane is
    retired when it was not needed for ``linger`` seconds, or at once if the acks to be held
    exceed ``max_held``.

    Never more is granted than ``ceil(target)`` or, after the target dropped, than had been.
    """

    def __init__(
        self, target: float, now: float, *, max_held: int, max_hold: float, linger: float
    ) -> None:
        self.max_held = max_held
        self.max_hold = max_hold
        self.linger = linger
        self.may_grow = True
        """Whether another lane may be opened; not before the queue has shown that it may share."""
        self.may_retire = True
        """Whether a lane may be retired; not before the queue is known to share: where it serves
        one consumer at a time, losing that one hands the queue to somebody else."""
        self.lanes: list[Lane] = []
        self._retiring: list[Lane] = []
        self.granted = 0
        """Slots of open lanes and messages that cancelled lanes still have unacknowledged."""
        self.error = 0.0
        """``E`` in slot-seconds."""
        self.idle = False
        """Whether the queue is dry: nothing is held then, and ``E`` stands still."""
        self.spacing = 0.0
        """Seconds between two acks that open a slot each. Slots that travel in a bunch wait for
        each other at the handler, and the window is worth less than its slots."""
        self._next_release = now
        self._spaced = False
        self._held: deque[Held] = deque()
        self._kept = 0
        self._free: list[Held] = []
        self._open_slots = 0
        self._at = now
        self._unneeded_since: float | None = None
        self._merging = False
        self._retiring_since = now
        self._set(target)

    # What is so

    @property
    def held(self) -> int:
        """Acknowledgements given by the handler and kept back."""
        return len(self._held) + self._kept + len(self._free)

    @property
    def open_slots(self) -> int:
        """Messages the broker may have on the way to the handler or in it."""
        return self.granted - self.held

    def all_held(self) -> list[Held]:
        """Every held ack, in no particular order."""
        return [*self._free, *self._held, *(held for lane in self._retiring for held in lane.kept)]

    @property
    def subscribed(self) -> list[Lane]:
        """Lanes that the broker delivers to."""
        return [lane for lane in self.lanes if not lane.cancelled]

    # What happened

    def retarget(self, target: float, now: float) -> None:
        """Aim at ``target`` open slots on average from now on."""
        self._integrate(now)
        self._set(target)

    def opened(self, tag: str, size: int) -> Lane:
        """A lane is subscribed, or its request is on the way."""
        lane = Lane(tag, size)
        self.lanes.append(lane)
        self.granted += size
        self._open_slots += size
        return lane

    def hold(self, tag: int, lane: Lane, now: float) -> None:
        """The handler acknowledged ``tag``; ask :meth:`release` what to send."""
        if lane.cancelled:
            self._free.append(Held(tag, lane, now))
        elif lane.retiring and self._kept < self.max_held:
            lane.kept.append(Held(tag, lane, now))
            self._kept += 1
        else:
            self._held.append(Held(tag, lane, now))

    def settled(self, lane: Lane) -> None:
        """A message of ``lane`` was rejected, or acknowledged outside of :meth:`hold`."""
        lane.settled += 1
        if lane.cancelled:
            self.granted -= 1
            self._forget(lane)

    def cancelled(self, lane: Lane) -> None:
        """The cancel of ``lane`` is on the wire, so its acks may go."""
        if lane.cancelled:
            return
        lane.cancelled = True
        if lane.retiring:
            self._retiring.remove(lane)
        self.granted -= lane.size - lane.unacked
        self._free += lane.kept
        self._kept -= len(lane.kept)
        lane.kept = []
        self._forget(lane)

    def rest(self, now: float) -> list[Held]:
        """The queue is dry: give back all held acks, none of which would shape anything."""
        self.idle = True
        return self.drain(now)

    def wake(self, now: float) -> None:
        """Messages come again after :meth:`rest`."""
        self.idle = False
        self.error = 0.0
        self._at = now

    # What to do

    def release(self, now: float, apart: bool = False) -> list[Held]:
        """The acks to send now, oldest first; they count as sent.

        ``apart`` says that no ack was just given: the moment to open one slot more. Together
        with an ack the two would be filled by two messages at once, of which one would have
        to wait for the other, and the window would be worth less than its slots.
        """
        self._integrate(now)
        if self._retiring and self._in_vain(now):
            self._keep_all_lanes()
        if self.error < 0:
            allowed = self._floor
        elif apart or self.error >= OVERDUE:
            allowed = self._ceil
        else:
            allowed = min(max(self._open_slots, self._floor), self._ceil)
        keep = min(
            self.granted - self._kept - len(self._free) - allowed, self.max_held - self._kept
        )
        if self.idle:
            keep = 0
        held = self._held
        released = self._free
        self._free = []
        most = self.max_held - self._kept
        self._spaced = False
        while len(held) > keep and held:
            early = self.spacing and now < self._next_release
            if early and len(held) <= most and not self.idle:
                self._spaced = True
                break
            released.append(held.popleft())
            if self.spacing:
                due = max(self._next_release, now - MADE_UP * self.spacing)
                self._next_release = min(due, now) + self.spacing
        while held and now - held[0].since >= self.max_hold:
            released.append(held.popleft())
        return self._sent(released)

    def drain(self, now: float) -> list[Held]:
        """All held acks, whatever the target; they count as sent."""
        self._integrate(now)
        self._spaced = False
        self._keep_all_lanes()
        released = self._free + list(self._held)
        self._free = []
        self._held.clear()
        return self._sent(released)

    def decide(self, now: float) -> Open | Cancel | None:
        """The next change of lanes, if any; ask again when it is done."""
        surplus = self.granted - max(self._ceil, 1)
        if self._retiring and (self._needed_again(surplus) or self._in_vain(now)):
            self._keep_all_lanes()
        if not self._retiring:
            if surplus < 0 and self.may_grow:
                return self._grow(-surplus, now)
            self._merging = False
            if self.may_retire:
                self._choose_unneeded(surplus, now)
        for lane in self._retiring:
            if lane.saturated:
                return Cancel(lane)
        return None

    def deadline(self, now: float) -> float:
        """When :meth:`release` and :meth:`decide` have to be asked, if nothing happens before."""
        time = math.inf
        if self._held:
            time = self._held[0].since + self.max_hold
            if self._spaced:
                time = min(time, max(now, self._next_release))
            elif self._fraction and self._open_slots < self._ceil:
                wait = max(0.0, -self.error / self._fraction)
                if wait > WAIT_FOR or self._open_slots <= 0:
                    time = min(time, now + wait)
        if self._unneeded_since is not None:
            time = min(time, self._unneeded_since + self.linger)
        if (self._retiring or self._merging) and not self.idle:
            time = min(time, now + RETIRE_LOOK)
        return time

    def lane_size(self, slots: int) -> int:
        """How many of ``slots`` a new lane may have.

        Handlers that run one at a time occupy a lane with the acks held of it and the message
        at hand; a larger one would never be saturated, and never go. Few lanes come first.
        """
        return min(slots, max(self.max_held + 1, math.ceil(self.target / MAX_LANES)))

    # Bookkeeping

    def _set(self, target: float) -> None:
        self.target = target
        self._floor = math.floor(target)
        self._fraction = target - self._floor
        self._ceil = self._floor + (self._fraction > 0)

    def _integrate(self, now: float) -> None:
        # Slots beyond the whole numbers around the target are on their way there by other
        # means (acks to come, a lane to open); answering them here would only overshoot. What
        # spacing keeps back is meant to be.
        if not self.idle and self._fraction and not self._spaced:
            slots = min(max(self._open_slots, self._floor), self._ceil)
            error = self.error + (self.target - slots) * (now - self._at)
            # Beyond these an ack would be held for longer than max_hold.
            lowest, highest = -self._fraction * self.max_hold, self.max_hold
            self.error = min(max(error, lowest), highest)
        self._at = now

    def _sent(self, released: list[Held]) -> list[Held]:
        for held in released:
            lane = held.lane
            lane.settled += 1
            if lane.cancelled:
                self.granted -= 1
                self._forget(lane)
        self._open_slots = self.granted - len(self._held) - self._kept
        return released

    def _forget(self, lane: Lane) -> None:
        if lane.cancelled and lane.unacked == 0:
            self.lanes.remove(lane)

    # Lanes

    def _grow(self, slots: int, now: float) -> Open | None:
        self._unneeded_since = None
        subscribed = self.subscribed
        coming = sum(lane.unacked for lane in self.lanes if lane.cancelled)
        merging = self._merging and now - self._retiring_since < self.max_hold
        if slots < coming or (merging and coming):
            # More slots come free soon; a lane for each would be many small ones.
            return None
        if len(subscribed) >= MAX_LANES:
            smallest = sorted(subscribed, key=lambda lane: lane.size)
            if smallest[0].size <= self.max_held + 1:
                # The new lane waits until these are gone, and then takes their slots too.
                self._retire(smallest[:MERGE], now, merging=True)
                return None
        self._merging = False
        return Open(self.lane_size(slots))

    def _choose_unneeded(self, surplus: int, now: float) -> None:
        """Retire lanes that were superfluous for long enough."""
        subscribed = self.subscribed
        unneeded = lanes_within(subscribed, surplus)
        if len(unneeded) == len(subscribed):
            # Never the last: without it an auto-delete queue would be gone.
            unneeded = unneeded[1:]
        if not unneeded:
            self._unneeded_since = None
            return
        if self._unneeded_since is None:
            self._unneeded_since = now
        if now - self._unneeded_since >= self.linger or surplus > self.max_held:
            self._unneeded_since = None
            self._retire(unneeded, now)

    def _retire(self, lanes: list[Lane], now: float, merging: bool = False) -> None:
        # More at a time than may be held would wait for each other, and none be saturated.
        self._retiring = first_within(lanes, self.max_held + 1) or lanes[:1]
        self._retiring_since = now
        self._merging = merging
        for lane in self._retiring:
            lane.retiring = True
        # Acks already held saturate the lanes the sooner.
        for held in [held for held in self._held if held.lane in self._retiring]:
            self._held.remove(held)
            held.lane.kept.append(held)
            self._kept += 1

    def _needed_again(self, surplus: int) -> bool:
        """Whether the target rose meanwhile, so that the retiring lanes should stay."""
        return not self._merging and sum(lane.size for lane in self._retiring) > surplus

    def _in_vain(self, now: float) -> bool:
        """Whether the queue does not fill the retiring lanes within the time acks may be held."""
        oldest = [lane.kept[0].since for lane in self._retiring if lane.kept]
        return now - min(oldest, default=self._retiring_since) >= self.max_hold

    def _keep_all_lanes(self) -> None:
        kept = [held for lane in self._retiring for held in lane.kept]
        for lane in self._retiring:
            lane.retiring = False
            lane.kept = []
        self._retiring = []
        self._kept = 0
        if kept:
            self._held = deque(sorted([*self._held, *kept], key=lambda held: held.since))
