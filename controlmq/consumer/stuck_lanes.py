"""Lanes that the broker serves no more, because it counts lost messages as delivered.

After a lost leader a quorum queue may have assigned messages to a consumer that no channel has
received (rabbitmq-server#15473). The broker sends them again when a later message of the same
consumer shows the gap. A lane whose empty slots are all taken by such messages never gets a later
one: they come again only once its channel is closed.

A broker serves its consumers in turn, and all lanes of a consumer have the same queue and priority.
So a lane with an empty slot gets a message before the others have got many, however long that
takes: an empty queue, a network that stands still and a blocked connection hold up all of them.
Where all lanes stand still, that cannot be told from an empty queue.
"""

from __future__ import annotations

from controlmq.consumer.held_acks import Window
from controlmq.consumer.lanes import Lane

STUCK_AFTER_SECONDS = 60.0
"""Seconds without a message, while others were served, after which a lane counts as stuck."""

FILLS = 2
"""How often messages that came have filled all slots before further ones count. The first time they
may have been sent before the broker knew of the lane's empty slot. Later it knew, because the acks
of a channel arrive in order. The second time they may have been sent as one batch, ahead of the
lane's own message."""

MISSED_TURNS = 20
"""Turns, a message for each lane, that count as having passed the lane over. One would do where a
broker keeps strictly to the turns."""


class StuckLanes:
    """Watches the lanes of one window by a look at each sample; messages cost nothing."""

    def __init__(self, window: Window) -> None:
        self.after = STUCK_AFTER_SECONDS
        self.found: list[Lane] = []
        """Those that were stuck so far."""
        self._window = window
        self._received: dict[Lane, int] = {}
        """The lanes that are watched, and how many messages each had got when that began."""
        self._total = 0
        """Messages that the consumer had got by then."""
        self._slots = 0
        """The most slots of all lanes since then, those included that are being retired."""
        self._since = 0.0
        """When messages began to count."""

    def look(self, total: int, pending: Lane | None, now: float) -> list[tuple[Lane, float]]:
        """The lanes that are found to be stuck now, and for how many seconds.

        The consumer has got ``total`` messages so far. ``pending`` is a lane whose request the
        broker has not answered yet; that lane is not watched.
        """
        passed_over = [
            lane
            for lane, received in self._received.items()
            if lane.received == received and not lane.cancelled
        ]
        if not passed_over:
            self._watch(total, pending, now)
            return []
        self._slots = max(self._slots, self._all_slots())
        served = total - self._total - FILLS * self._slots
        if served <= 0:
            self._since = now
            return []
        seconds = now - self._since
        if seconds < self.after or served < MISSED_TURNS * len(self._window.lanes):
            return []
        self.found += passed_over
        self._watch(total, pending, now)
        return [(lane, seconds) for lane in passed_over]

    def _watch(self, total: int, pending: Lane | None, now: float) -> None:
        """Begin to watch all lanes that have an empty slot now.

        One that has never got a message is not watched unless two others have: where one consumer
        at a time is served, it may have to wait for ever.
        """
        lanes = self._window.subscribed
        shares = sum(lane.received > 0 for lane in lanes) > 1
        self._received = {
            lane: lane.received
            for lane in lanes
            if lane.unacked < lane.size
            and (shares or lane.received)
            and not (lane is pending or lane in self.found)
        }
        self._total, self._since, self._slots = total, now, self._all_slots()

    def _all_slots(self) -> int:
        return sum(lane.size for lane in self._window.lanes)
