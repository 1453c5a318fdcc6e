"""The books of a world's program: what it saw itself, compared with what the core noted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controlmq.consumer.consumer import Consumer
from controlmq.consumer.core import Core
from controlmq.consumer.lanes import Lane
from controlmq.controllers.limits import Limits
from controlmq.loop import Sample
from tests.worlds.broker import BrokerQueue, Violation
from tests.worlds.circumstances import Circumstances

if TYPE_CHECKING:
    from tests.worlds.world import World

TIMING_SECONDS = 1e-6
"""By how much rounding may make a time longer."""

BOUND_ROUNDING_MESSAGES = 1e-6
"""By how much rounding in these books may exceed a bound."""

NO_LIMIT = 10**9
"""Slots of a consumer that stops: what is on its way to it goes back to its queue."""


class Subscription:
    """One consumer of the program, as its user and the network see it."""

    __slots__ = (
        "alive",
        "allowed",
        "asked",
        "bound",
        "burst",
        "circumstances",
        "consumer",
        "doomed",
        "held",
        "lanes",
        "largest_lane",
        "least",
        "lowest",
        "max_held",
        "pace",
        "paced",
        "queue",
        "quiet",
        "received",
        "received_before",
        "redelivered",
        "refused",
        "sampled",
        "samples",
        "sensors",
        "since",
        "spacing",
        "target",
        "waited",
        "waiting",
        "waiting_since",
        "window",
    )

    def __init__(
        self, consumer: Consumer, queue: BrokerQueue, target: float, circumstances: Circumstances
    ) -> None:
        self.consumer = consumer
        self.queue = queue
        self.circumstances = circumstances
        self.window = consumer.window
        self.sensors = consumer.sensors
        self.max_held = circumstances.most_held(target)
        self.target = consumer.window.target
        self.samples: list[Sample] = []
        """Those that a law has seen."""
        self.alive = True
        self.doomed = False
        """Whether the broker has cancelled a lane, of which the program may not know yet."""
        self.asked = 0
        """Slots asked for, and messages that cancelled lanes have and have not answered."""
        self.held = 0
        """Acks that the user gave and that are not on the wire."""
        self.lanes = 0
        self.largest_lane = 0
        self.received = 0
        self.received_before = 0
        """Messages handed over up to the last sample."""
        self.quiet = False
        """Whether none was in the last whole interval, as where a handler waits for more."""
        self.least = 0
        """The most messages that were acknowledged at once after such an interval."""
        self.redelivered = 0
        self.refused = 0
        self.sampled = 0
        self.spacing = 0.0
        self.pace = 0.0
        self.paced = 0
        self.bound = 0.0
        """Messages/second that may be handed over; 0 for any number."""
        self.burst = 0.0
        """The largest burst so far."""
        self.since = 0.0
        self.allowed = 0.0
        """Messages that the bound has allowed up to ``since``."""
        self.lowest = math.inf
        """The fewest messages handed over beyond what was allowed, at any time so far."""
        self.waiting = 0
        """Messages that wait for the bucket since ``waiting_since``."""
        self.waiting_since = 0.0
        self.waited = 0.0
        """Seconds that all messages together have waited for the bucket up to then."""

    def wait(self, now: float, more: int = 0) -> None:
        """From now on so many more messages wait for the bucket, or fewer."""
        self.waited += self.waiting * (now - self.waiting_since)
        self.waiting_since = now
        self.waiting += more

    def aim(self, target: float) -> None:
        """The user asks for another prefetch; a handler may wait for more messages than that."""
        limits = self.consumer.limits
        target = max(target, self.consumer._least)
        self.target = limits.clamp(target) if limits else target

    def interval_ends(self) -> None:
        """A sample is taken."""
        self.quiet = self.received == self.received_before
        self.received_before = self.received

    def acknowledged_together(self, count: int) -> None:
        """The user acknowledges this many messages at once."""
        if self.quiet:
            self.least = max(self.least, count)

    def limit_rate(self, bound: float, now: float) -> None:
        """The user asks for another bound."""
        self.allowed += self.bound * (now - self.since)
        self.since = now
        if bound and not self.bound and self.burst:
            # It was unbounded for a while, and begins again without a burst.
            self.burst = self.circumstances.largest_burst(bound)
            self.lowest = self.received - self.allowed - self.burst
        self.bound = bound
        if bound:
            self.burst = max(self.burst, self.circumstances.largest_burst(bound))

    def handed_over(self, now: float) -> None:
        """A message is handed over: in no stretch more than its bound and the burst."""
        self.limit_rate(self.bound, now)
        self.received += 1
        if not self.bound:
            self.allowed += 1
        else:
            beyond = self.received - self.allowed
            self.lowest = min(self.lowest, beyond - 1)
            if beyond - self.lowest > self.burst + BOUND_ROUNDING_MESSAGES:
                raise Violation(
                    f"{beyond - self.lowest:.6f} messages were handed over beyond "
                    f"{self.bound:g}/s, {self.burst:g} are allowed"
                )


class Books:
    """What the user got and answered and what is on the wire, as the program saw it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.core = Core()
        self.subscriptions: list[Subscription] = []
        self.busy = False
        """Whether a handler runs in the client's thread, so that nothing else can happen."""
        self.unacked: dict[int, tuple[Lane | None, Subscription | None]] = {}
        """What the user got and has not answered."""
        self.unanswered: dict[int, tuple[Lane | None, Subscription | None]] = {}
        """What the user got and whose answer is not on the wire (or not committed)."""
        self.owed: dict[int, float] = {}
        """Acks that the user gave, since when, and that are not on the wire."""
        self.gated: dict[int, tuple[Lane, Subscription]] = {}
        """What is here, and the user has not got."""
        self.refused: set[int] = set()
        """Of those, what the user has refused."""
        self.committing: list[int] | None = None
        self.commits = 0
        """Commits that the broker has not answered."""
        self.foreign = 0
        """Of ``unacked``, those that no consumer brought."""
        self.announced: dict[int, Lane] = {}
        """What the client has received and not handed over, as far as the core was told."""
        self.cancelled: set[Lane] = set()
        self.late: set[int] = set()
        """What came for a consumer that was cancelled, and has not gone back."""
        self.unconfirmed: set[Lane] = set()
        """Lanes that were asked for and that the broker has not answered."""
        self.noticed: dict[str, float] = {}
        """When the log said of a lane that the broker keeps its messages, by its tag."""
        self.max_hold = world.circumstances.max_hold
        self.fixed: dict[Consumer, tuple[bool, Limits | None, float]] = {}
        """Consumers whose controller was taken away, and what they had: control, limits, bound."""

    def _lane_gone(self, lane: Lane, subscription: Subscription) -> None:
        self.cancelled.add(lane)
        subscription.lanes -= 1
        out = sum(each is lane for each, _ in self.unanswered.values())
        out += sum(each is lane for each, _ in self.gated.values())
        out += sum(each is lane for each in self.announced.values())
        subscription.asked -= lane.size - out

    def _sent(self, tag: int) -> None:
        """An ack is on the wire."""
        if self.owed.pop(tag, None) is None:
            if self.committing is not None and tag in self.committing:
                return
            state = "not given yet" if tag in self.unacked else "sent before"
            raise Violation(f"the ack of {tag} is on the wire, and was {state}")
        if self.committing is None:
            entry = self.unanswered[tag][1]
            if entry is not None:
                entry.held -= 1
        self._answered(tag)

    def _answered(self, tag: int) -> None:
        if self.committing is not None:
            self.committing.append(tag)
            return
        lane, subscription = self.unanswered.pop(tag)
        if tag in self.refused and subscription is not None:
            subscription.refused += 1
        self.refused.discard(tag)
        if lane in self.cancelled:
            subscription.asked -= 1  # type: ignore[union-attr]

    def _asked(self) -> list[int]:
        return [
            each.asked if each.alive and not each.doomed else NO_LIMIT
            for each in self.subscriptions
        ]

    def _limit(self, asked: list[int]) -> None:
        """What was asked for when this was sent is what may be in flight from now on."""
        for subscription, slots in zip(self.subscriptions, asked, strict=False):
            queue = subscription.queue
            if subscription.doomed:
                slots = NO_LIMIT  # the broker may have passed the queue on to another lane
            queue.limit = slots
            if queue.in_flight > slots:
                raise Violation(f"{queue.in_flight} are in flight, {slots} slots were asked for")

    def _up_to(self, tag: int) -> list[int]:
        return [each for each in self.unacked if each <= tag]

    # The comparison

    def check(self) -> None:
        """Compare the core's books with ours; called after every event of the program."""
        for each in self.subscriptions:
            window, held, asked = each.window, each.held, each.asked
            if window.held != held:
                raise Violation(f"{held} acks are held, the window has {window.held}")
            if window.granted != asked:
                raise Violation(f"{asked} slots are granted, the window has {window.granted}")
            if each.sensors._open != asked - held:
                raise Violation(
                    f"{asked - held} slots are open, the sensors have {each.sensors._open}"
                )
            if held > each.max_held and held > each.largest_lane:
                allowed = max(each.max_held, each.largest_lane)
                raise Violation(f"{held} acks are held, {allowed} are allowed")
            if held and not each.alive and not each.lanes:
                raise Violation("a consumer that has stopped holds acks")
        self._check_wakes()
        if self.owed and not self.busy:
            since = next(iter(self.owed.values()))
            if self.world.now - since > self.max_hold + TIMING_SECONDS:
                raise Violation(f"an ack is held for {self.world.now - since:g} s")
        if len(self.core.ledger.gated) != len(self.gated):
            raise Violation("the ledger does not have what the user has not got")
        if self.committing is None:
            if len(self.core.ledger.unacked) != len(self.unacked) - self.foreign:
                raise Violation("the ledger does not have what the user has not answered")

    def _check_wakes(self) -> None:
        """Whatever a consumer waits for, the core asks to be woken for it in time."""
        core = self.core
        latest = core.wake_at - TIMING_SECONDS
        for each in self.subscriptions:
            consumer = each.consumer
            if consumer.cancelled:
                continue
            held = each.window.held
            released_at = each.window.deadline(self.world.now) if held else math.inf
            if latest > consumer.attend_at or latest > consumer.next_sample or latest > released_at:
                needed = min(consumer.attend_at, consumer.next_sample, released_at)
                raise Violation(f"the core is to be woken at {core.wake_at:g} s, not at {needed:g}")
            if consumer.gate.waiting and core.hand_over_at > consumer.gate.ask_at:
                raise Violation("a message waits, and nobody asks to hand it over")

    def check_all(self) -> None:
        """Compare all that is too long to compare after every event."""
        core = self.core
        for each in self.subscriptions:
            window = each.window
            tags = sorted(held.tag for held in window.all_held())
            ours = sorted(tag for tag in self.owed if self.unanswered[tag][1] is each)
            if tags != ours:
                raise Violation(f"held are {ours}, the window has {tags}")
            granted = sum(lane.unacked if lane.cancelled else lane.size for lane in window.lanes)
            if granted != window.granted:
                raise Violation(f"lanes have {granted} slots, the window {window.granted}")
            # A single subscription never gets more slots than it has.
            most = window.granted if each.consumer.kind == "single" else math.inf
            if not min(each.target, most) <= window.target <= each.target:
                raise Violation(f"the window aims at {window.target:g}, not at {each.target:g}")
            if each.consumer._least > each.least:
                raise Violation(
                    f"a handler waits for {each.consumer._least} messages, and has acknowledged "
                    f"at most {each.least} at once"
                )
            if each.received != each.sensors.total:
                raise Violation("the sensors have missed a message")
            waiting = [arrived.tag for arrived in each.consumer.gate.waiting]
            if waiting != [tag for tag, entry in self.gated.items() if entry[1] is each]:
                raise Violation(f"other messages wait than came: {waiting}")
            if each.redelivered != each.consumer.redelivered:
                raise Violation("the consumer has missed a message that was delivered before")
            if each.refused != each.consumer.refused:
                raise Violation(
                    f"{each.refused} were refused, the consumer has {each.consumer.refused}"
                )
            if self.world.circumstances.controlled:
                if each.sampled + each.sensors.arrivals != each.received:
                    raise Violation("the samples have missed a message")
        if self.committing is None:
            ours = [tag for tag, entry in self.unacked.items() if entry[1] is not None]
            if list(core.ledger.unacked) != ours:
                raise Violation(f"not answered are {ours}, the ledger differs")
