"""The gate: messages wait here for their hand-over, in the order in which they came.

Acks do not wait here: those that are held are in :mod:`controlmq.consumer.held_acks`.

A token bucket says when the next one may be handed over, whatever the network brings at once and
however late a timer is. Without a bucket nothing waits.

The window keeps messages from coming early: the acks that open slots are paced by a bucket of the
same rate. But slots that were open before it began to pace, or that a new lane brought, are a
surplus that would stand here as messages for ever. So the gate notes the fewest that waited
over a while. Of these, all but one are the surplus. The window then leaves out that number of
openings: it holds the acks that would have opened those slots. The surplus is held acks from then
on, and no longer messages that wait here.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

from controlmq.consumer.bucket import Bucket
from controlmq.consumer.lanes import Lane

STANDING_AFTER_SECONDS = 0.1
"""Seconds for which messages must have waited all the time to be a surplus, and no less than two
turnarounds, because openings that are left out are felt only after one."""

CUSHION_MESSAGES = 1
"""Messages that may wait all the time: one is there when a token is."""

LATENESS_ABSORBED_BURST_MESSAGES = 2.0
"""A bucket with at least this burst makes up for late timers by itself."""

LATENESS_STEP_SECONDS = 0.0001
"""Seconds by which timers are taken to be later after a message that was handed over late: one
that waited for a busy handler says little about timers."""


class Arrived(NamedTuple):
    """A message that waits: its tag, its lane, since when (seconds), and the client's own."""

    tag: int
    lane: Lane
    since: float
    message: Any


class Gate:
    """Messages of one consumer between their arrival and their hand-over."""

    def __init__(self) -> None:
        self.bucket: Bucket | None = None
        self.until = math.inf
        """The end of the lease, where the rate is a share: nothing is handed over from then on."""
        self.pulled = False
        """Whether the user takes messages one by one: they wait for that, and not here."""
        self.waiting: deque[Arrived] = deque()
        self.handed_over = 0
        self.tokens_awaited = 0
        """Tokens that a message was waiting for when the bucket got them."""
        self._least = math.inf
        """The fewest messages that waited since ``_least_from``."""
        self._least_from = -math.inf
        self._lateness = 0.0
        """The smallest delay of recent timers, in seconds."""
        self._asked_early = True
        """Whether the first message was not asked for too early, so that it may be again."""

    @property
    def ask_at(self) -> float:
        """When to ask for the first message, in seconds; infinite if none waits.

        Timers fire late, so this is a little before the gate opens. With a small burst, that delay
        would cost part of every token.
        """
        if not self.waiting:
            return math.inf
        return self.opens_at - self._lateness if self._asked_early else self.opens_at

    @property
    def opens_at(self) -> float:
        """When the next message may be handed over, in seconds; infinite if the lease ends first.

        That it has ended is noted when a message is to be taken.
        """
        opens_at = -math.inf if self.bucket is None else self.bucket.ready_at
        return opens_at if opens_at < self.until else math.inf

    def is_open(self, now: float) -> bool:
        """Whether a message may be handed over now."""
        return now < self.until and now >= self.opens_at

    def take(self, now: float) -> Arrived | None:
        """The next message to hand over, which is counted; None if none may go now."""
        if not self.waiting:
            return None
        self._learn_lateness(now)
        if now >= self.until:
            self.until = -math.inf  # so that nobody asks again before there is another lease
        if not self.is_open(now):
            return None
        self._asked_early = True
        arrived = self.waiting.popleft()
        self.count(arrived.since, now)
        return arrived

    def _learn_lateness(self, now: float) -> None:
        """Compare the present with the time at which the first message was to be asked for."""
        if self.bucket is None or self.bucket.burst >= LATENESS_ABSORBED_BURST_MESSAGES:
            self._lateness = 0.0
            return
        opens_at = self.opens_at
        asked_at = opens_at - self._lateness
        if now < asked_at or not self._asked_early:
            return
        if self.waiting[0].since < asked_at:
            self._lateness = min(now - asked_at, self._lateness + LATENESS_STEP_SECONDS)
        self._asked_early = now >= opens_at

    def count(self, since: float, now: float) -> None:
        """Take the token of a message that waited since then and is handed over now."""
        self.handed_over += 1
        if self.bucket is None:
            return
        if self.bucket.ready_at > since:
            self.tokens_awaited += 1
            self._least = min(self._least, len(self.waiting))
        else:
            self._least = 0
        self.bucket.take(now)

    def surplus(self, now: float, turnaround: float) -> int:
        """The number of messages that stood here and are not needed; each is reported once.

        ``turnaround`` is the time in seconds after which an opening brings a message.
        """
        if self.bucket is None or now < self._least_from + max(
            STANDING_AFTER_SECONDS, 2 * turnaround
        ):
            return 0
        surplus = 0
        if self._least_from > -math.inf and self._least > CUSHION_MESSAGES:
            surplus = int(self._least) - CUSHION_MESSAGES
        # What is left out now is missing here only when that number has been handed over.
        self._least_from = now + surplus / self.bucket.rate
        self._least = math.inf
        return surplus
