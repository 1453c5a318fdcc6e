"""Which lanes to open, merge and retire.

A lane is retired in three steps: its acks are kept until every one of its slots is occupied by
a message that we have; then nothing can be on its way, and its cancel requeues nothing; after
the cancel its acks go out. The window never grants more than ``ceil(target)`` or, after the
target dropped, than it had granted before.
"""

from __future__ import annotations

import math

from controlmq.consumer.lanes import Lane, first_within, lanes_within
from controlmq.consumer.window import Window

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
        self._retiring: list[Lane] = []
        self._retiring_since = now
        self._unneeded_since: float | None = None
        self._merging = False

    def saturated_lane(self, now: float) -> Lane | None:
        """A lane to cancel now, after a look at which lanes should be retired."""
        window = self.window
        surplus = window.granted - max(math.ceil(window.target), 1)
        self._retiring = [lane for lane in self._retiring if lane.retiring and not lane.cancelled]
        if self._retiring and (self._needed_again(surplus) or now >= self._give_up_at()):
            self.keep_all()
        if not self._retiring:
            if surplus >= 0 or now >= self._give_up_at():
                self._merging = False
            if surplus < 0 or not self.may_retire:
                self._unneeded_since = None
            else:
                self._choose_unneeded(surplus, now)
        return next((lane for lane in self._retiring if lane.saturated), None)

    def new_lane_size(self, now: float) -> int:
        """Slots of a lane to open now; 0 for none."""
        window = self.window
        missing = max(math.ceil(window.target), 1) - window.granted
        if missing <= 0 or self._retiring or not self.may_grow:
            return 0
        subscribed = window.subscribed
        coming = sum(lane.unacked for lane in window.lanes if lane.cancelled)
        merging = self._merging and now < self._give_up_at()
        if missing < coming or (merging and coming):
            # More slots come free soon; a lane for each would be many small ones.
            return 0
        if len(subscribed) >= MAX_LANES:
            smallest = sorted(subscribed, key=lambda lane: lane.size)
            if smallest[0].size <= window.max_held + 1:
                # The new lane waits until these are gone, and then takes their slots too.
                self._retire(smallest[:LANES_MERGED_AT_ONCE], now, merging=True)
                return 0
        self._merging = False
        return self.lane_size(missing)

    def deadline(self) -> float:
        """When to look again, unless a lane is saturated or a slot comes free before."""
        due = math.inf
        if self._unneeded_since is not None:
            due = self._unneeded_since + self.linger
        if self._retiring or self._merging:
            due = min(due, self._give_up_at())
        return due

    def lane_size(self, slots: int) -> int:
        """How many of ``slots`` a new lane may have.

        Handlers that run one at a time occupy a lane with the acks held of it and the message
        at hand; a larger one would never be saturated, and could never be retired. That there
        are few lanes comes first.
        """
        window = self.window
        return min(slots, max(window.max_held + 1, math.ceil(window.target / MAX_LANES)))

    def keep_all(self) -> None:
        """Retire none of the lanes."""
        for lane in self._retiring:
            self.window.unkeep(lane)
        self._retiring = []

    def _choose_unneeded(self, surplus: int, now: float) -> None:
        """Retire lanes that were not needed for long enough."""
        subscribed = self.window.subscribed
        unneeded = lanes_within(subscribed, surplus)
        if len(unneeded) == len(subscribed):
            # Never the last: without it an auto-delete queue would be gone.
            unneeded = unneeded[1:]
        if not unneeded:
            self._unneeded_since = None
            return
        if self._unneeded_since is None:
            self._unneeded_since = now
        if now >= self._unneeded_since + self.linger or surplus > self.window.max_held:
            self._unneeded_since = None
            self._retire(unneeded, now)

    def _retire(self, lanes: list[Lane], now: float, merging: bool = False) -> None:
        # More at a time than may be held would wait for each other, and none be saturated.
        self._retiring = first_within(lanes, self.window.max_held + 1) or lanes[:1]
        self._retiring_since = now
        self._merging = merging
        for lane in self._retiring:
            self.window.keep(lane, now)

    def _needed_again(self, surplus: int) -> bool:
        """Whether the target rose meanwhile, so that the retiring lanes should stay."""
        return not self._merging and sum(lane.size for lane in self._retiring) > surplus

    def _give_up_at(self) -> float:
        """When to stop retiring: ``max_hold`` after the oldest kept ack."""
        oldest = [lane.kept[0].since for lane in self._retiring if lane.kept]
        return min(oldest, default=self._retiring_since) + self.window.max_hold
