"""Which lanes to open, merge and retire.

A lane is retired in three steps: its acks are kept until every one of its slots is occupied by
a message that we have; then nothing can be on its way, and its cancel requeues nothing; after
the cancel its acks go out. The core cancels it (``Core._change_lanes``); its acks are kept in
``Window.keep``. The window never grants more than ``ceil(target)`` or, after the
target dropped, than it had granted before.

If a lane is larger than the surplus and held acks cannot cover the difference, that lane is
retired, and a smaller one takes its place. The last lane must not go, because an auto-delete queue
goes with it: a lane of one slot is opened before, which for this while is one slot more.
"""

from __future__ import annotations

import math

from controlmq.consumer.held_acks import Window
from controlmq.consumer.lanes import Lane, first_within, lanes_within

MAX_LANES = 6
"""Lanes take a larger share from competing consumers, so they are few: beyond these, small
lanes are merged before another is opened. There are more only where ``max_held`` is so small
that no lane could be retired to be merged."""

LANES_MERGED_AT_ONCE = 3


class LanePlan:
    """The changes of lanes that bring a window to its target.

    A lane is retired when it was not needed for ``linger`` seconds, or at once if more acks
    would have to be held than may be.
    """

    def __init__(self, window: Window, linger: float, now: float) -> None:
        self.window = window
        self.linger = linger
        self.may_grow = True
        """Whether another lane may be opened; not before the queue has shown that it shares."""
        self.may_retire = True
        """Whether a lane may be retired; not before the queue is known to share: where it serves
        one consumer at a time, losing that one hands the queue to another process."""
        self.exact = False
        """Whether lanes are to have no slot more than is wanted, even where held acks make up for
        it: for a prefetch that stays, since what is held is delivered again after a crash."""
        self.filled = True
        """Whether the queue has a message for every slot; else a lane is hardly ever saturated."""
        self._retiring: list[Lane] = []
        self._retiring_since = now
        self._unneeded_since: float | None = None
        self._merging = False
        """Whether the lanes being retired are needed, and others are to take their place."""
        self._waiting_until = math.inf
        """How long a new lane waits for slots that come free; infinity if it does not."""
        self._replacing = False
        """Whether a lane of one slot is to be opened, so that the only one can be retired."""

    @property
    def retiring(self) -> bool:
        """Whether acks are kept until a lane is saturated."""
        return bool(self._retiring)

    def saturated_lane(self, now: float) -> Lane | None:
        """A lane to cancel now, after a look at which lanes should be retired."""
        subscribed = self.window.subscribed
        surplus = sum(lane.slots for lane in subscribed) - self.window.wanted
        self._replacing = False
        self._retiring = [lane for lane in self._retiring if lane.retiring and not lane.cancelled]
        if self._retiring and self._needed_again(surplus):
            self.stop_retiring()
        saturated = next((lane for lane in self._retiring if lane.saturated), None)
        if saturated is not None:
            return saturated  # even at the last moment: its acks follow its cancel
        if self._retiring and now >= self._give_up_at():
            self.stop_retiring()
        if not self._retiring:
            if surplus >= 0 or now >= self._give_up_at():
                self._merging = False
            if surplus <= 0 or not (self.may_retire or self.may_grow):
                self._unneeded_since = None
            else:
                self._choose_unneeded(subscribed, surplus, now)
        saturated = next((lane for lane in self._retiring if lane.saturated), None)
        if saturated is None and self.may_retire and len(subscribed) > 1:
            # Lanes whose every message is parked serve nothing, and nothing is on its way to them.
            saturated = next((lane for lane in subscribed if not lane.slots), None)
        return saturated

    def new_lane_size(self, now: float) -> int:
        """Slots of a lane to open now; 0 for none."""
        window = self.window
        waiting_until, self._waiting_until = self._waiting_until, math.inf
        if self._retiring or not self.may_grow:
            return 0
        if self._replacing:
            return 1
        missing = window.wanted - window.granted
        if missing <= 0:
            return 0
        subscribed = window.subscribed
        coming = sum(lane.unacked - lane.parked for lane in window.lanes if lane.cancelled)
        if self._merging and now < self._give_up_at() and coming:
            return 0
        if missing < coming:
            # More slots come free soon; a lane for each would be many small ones.
            waiting_until = min(waiting_until, now + window.max_hold)
            if now < waiting_until:
                self._waiting_until = waiting_until
                return 0
        if len(subscribed) >= MAX_LANES:
            smallest = sorted(subscribed, key=lambda lane: lane.slots)
            if smallest[0].slots <= window.max_held + 1:
                # The new lane waits until these are gone, and then takes their slots too.
                self._retire(smallest[:LANES_MERGED_AT_ONCE], now, merging=True)
                return 0
        self._merging = False
        return self.lane_size(missing)

    def deadline(self) -> float:
        """When to look at lanes again, unless one is saturated or a slot comes free before."""
        due = math.inf
        if self._unneeded_since is not None:
            due = self._unneeded_since + self.linger
        if self._retiring or self._merging:
            due = min(due, self._give_up_at())
        return min(due, self._waiting_until)

    def lane_size(self, slots: int) -> int:
        """How many of ``slots`` a new lane may have.

        Handlers that run one at a time occupy a lane with the acks held of it and the message
        at hand; a larger one would never be saturated, and could never be retired. That there
        are few lanes comes first.
        """
        window = self.window
        return min(slots, max(window.max_held + 1, math.ceil(window.target / MAX_LANES)))

    def give_up_by(self, when: float) -> None:
        """Retire none of the lanes if their acks could not be kept until ``when``."""
        if self._retiring and when >= self._give_up_at():
            self.stop_retiring()

    def stop_retiring(self) -> None:
        """Let every lane stay: acks that were kept to retire one are held like any other."""
        for lane in self._retiring:
            self.window.unkeep(lane)
        self._retiring = []

    def _choose_unneeded(self, subscribed: list[Lane], surplus: int, now: float) -> None:
        """Retire lanes that were not needed for long enough."""
        window = self.window
        unneeded = lanes_within(subscribed, surplus)
        too_large = []
        if self.filled and not window.idle and (self.exact or surplus > window.held):
            larger = [lane for lane in subscribed if lane.slots > surplus]
            too_large = sorted(larger, key=lambda lane: lane.slots)[:1]
        if not (unneeded or too_large):
            self._unneeded_since = None
            return
        if self._unneeded_since is None:
            self._unneeded_since = now
        if now < self._unneeded_since + self.linger and surplus <= window.max_held:
            return
        self._unneeded_since = None
        if too_large and len(subscribed) == 1:
            self._replacing = True
        elif self.may_retire:
            self._retire(too_large or unneeded, now, merging=bool(too_large))

    def _retire(self, lanes: list[Lane], now: float, merging: bool = False) -> None:
        # More at a time than may be held would wait for each other, and none be saturated.
        self._retiring = first_within(lanes, self.window.max_held) or lanes[:1]
        self._retiring_since = now
        self._merging = merging
        for lane in self._retiring:
            self.window.keep(lane, now)

    def _needed_again(self, surplus: int) -> bool:
        """Whether the target rose meanwhile, so that the retiring lanes should stay."""
        return not self._merging and sum(lane.slots for lane in self._retiring) > surplus

    def _give_up_at(self) -> float:
        """When to stop retiring: ``max_hold`` after the oldest kept ack."""
        oldest = [lane.kept[0].since for lane in self._retiring if lane.kept]
        return min(oldest, default=self._retiring_since) + self.window.max_hold
