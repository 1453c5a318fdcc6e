"""The live consumer as a plant: observed by its sensors, actuated through its window."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from controlmq.checks import MOST_PREFETCH
from controlmq.consumer.bucket import Bucket
from controlmq.consumer.commands import Notice
from controlmq.consumer.hand_over_gate import Gate
from controlmq.consumer.handler_pool import HandlerPool
from controlmq.consumer.held_acks import Window
from controlmq.consumer.lanes import Lane
from controlmq.consumer.pool_sensors import sensors_for
from controlmq.consumer.retiring import LanePlan
from controlmq.consumer.spread import Spread
from controlmq.consumer.stuck_lanes import StuckLanes
from controlmq.controllers.limits import Limits
from controlmq.goals import usual_burst
from controlmq.sample import Sample

WindowChoice = Literal["auto", "lanes", "single"]
"""``lanes``: the window grows by further consumers on the channel. ``single``: one consumer
at the upper limit, shaped by held acks alone, as single-active and exclusive consumers and
streams need it. ``auto``: lanes, until the queue turns out not to share."""

Buckets = tuple[Bucket, Bucket]
"""Of the acks that open slots, and of the messages handed over."""

LINGER_INTERVALS = 3.0
"""A lane is retired after it was not needed for this many intervals; a controller that moves
about its goal would otherwise open and retire lanes all the time."""

SHORTEST_INTERVAL_SHARE = 0.9
"""After a late sample the next interval may be shortened to this share, so that samples get
back on schedule."""

DEFAULT_MAX_HELD = 250
"""Acks held at most unless the user says otherwise: what a crash could deliver twice. Also the
size of a single subscription that is controlled and has no limits."""

BARREN_AFTER_WINDOWS = 3
"""If the first lane gets this many windows of messages and the new lane none, the queue serves
one consumer at a time."""

LEAST_OPENING_BURST = 2.0
"""Messages. The bucket of the acks that open slots keeps at least this burst, so that a late timer
costs nothing there. What comes early for that waits in the gate, which keeps the bound."""

SHARE_EARLY_MESSAGES = 2
"""Messages that may come early to a consumer with a share: so many slots may open late at once."""

LONGEST_TAG_BYTES = 255
"""Of a consumer tag, in AMQP 0-9-1."""

REFUSED_LANE_RETRY_SECONDS = 10.0
"""Seconds after a refused lane before another one is asked for."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How the window of a consumer may be made.

    ``controlled`` says that a controller will move the prefetch, so that lanes stay small enough
    to be retired; with ``spreads`` its acks are spread, too. ``max_held`` and ``max_hold``
    (seconds) bound what is held; ``interval`` (seconds) is the length of a sample. ``handlers`` is
    their number or the pool they run in, if the user has said so.
    """

    window: WindowChoice = "auto"
    controlled: bool = False
    spreads: bool = True
    limits: Limits | None = None
    max_held: int | None = None
    max_hold: float = 10.0
    interval: float = 1.0
    handlers: int | HandlerPool | None = None


class Consumer:
    """One adaptive consumer: its queue, and the window that moves to the prefetch it is given.

    ``kind`` says how the window is made: ``"lanes"``, ``"single"`` (one subscription, held acks
    alone) or, until the queue has shown which it allows, ``"auto"``. ``tag_is_new`` says that the
    channel has had no consumer of this tag before.
    """

    def __init__(
        self,
        tag: str,
        queue: str,
        prefetch: float,
        shape: Shape,
        now: float,
        *,
        tag_is_new: bool = True,
    ) -> None:
        prefetch = min(prefetch, MOST_PREFETCH)
        self.tag = tag
        self.queue = queue
        self.kind = shape.window
        self.controlled = shape.controlled
        self.spreads = shape.spreads
        self.limits = shape.limits
        self.interval = shape.interval
        self.now = now
        """The time of the last event, as the core was told."""
        self.next_sample = now + shape.interval
        self.attend_at = self.next_sample
        """When the core has to look at the sample and the lanes; acks have times of their own."""
        self.notices: list[Notice] = []
        self.cancelled = False
        self.tag_is_new = tag_is_new
        self.unseen = True
        """Whether no message has come yet."""
        self.pending: Lane | None = None
        """The lane whose request or cancel is not answered yet; one at a time."""
        self.grow_after = -math.inf
        self.most = _most(prefetch, shape)
        self.window = Window(
            prefetch, now, max_held=_max_held(self.most, shape), max_hold=shape.max_hold
        )
        self.plan = LanePlan(self.window, LINGER_INTERVALS * shape.interval, now)
        self._keeps_lanes = self.plan.exact, self.plan.linger
        """How lanes are kept unless the prefetch is fixed."""
        self.plan.may_grow = self.plan.may_retire = shape.window == "lanes"
        self.sensors = sensors_for(now, shape.interval, shape.handlers)
        self.spread = Spread()
        self.stuck_lanes = StuckLanes(self.window)
        self.gate = Gate()
        # Counts since the start, read by controlmq.observe.
        self.lanes_asked = 0
        self.lanes_refused = 0
        self.redelivered = 0
        self.refused = 0
        """Messages that the user rejected or had recovered."""
        self._awaited_before = 0
        """Tokens that something was waiting for, up to the last sample."""
        self._second_lane: tuple[Lane, int] | None = None
        self._stalled = False
        self._least = 0
        """Messages that the handler was seen to wait for."""
        self._goes_on = False
        """Whether it stands for another consumer, whose hand-overs count for its bound."""
        self._too_small_noticed = False
        self._too_many_noticed = False
        self._too_many_since: float | None = None

    # The plant

    def observe(self) -> Sample:
        """Close the interval that ends with the event at hand."""
        sensors = self.sensors
        sample = sensors.close(self.now, self.window.target, self._unused())
        self.spread.measured(
            sensors.slot_seconds, sensors.acks, sample.interval, sample.prefetch, sample.starved > 0
        )
        self._space()
        self.plan.filled = not sample.starved
        waits = not sample.arrivals and not sensors.acks
        self._stalled = waits and sensors.in_handler >= self.window.open_slots
        self._check_shrunk()
        return sample

    def actuate(self, prefetch: float) -> None:
        """Aim the window at ``prefetch``, or at the nearest that is allowed."""
        prefetch = min(max(prefetch, self._least), MOST_PREFETCH)
        if self.limits is not None:
            prefetch = self.limits.clamp(prefetch)
        if self.kind == "single" and prefetch > self.window.granted > 0:
            self._notice_too_small(prefetch)
            prefetch = self.window.granted  # a law that went on from more would wind up
        self.window.retarget(prefetch, self.now)
        self._space()

    def pace(self, rate: float | None, burst: float | None = None) -> None:
        """Hand over at most ``rate`` messages/second from now on; any number with None.

        In every stretch of ``T`` seconds at most ``rate * T + burst``, unless it has another rate
        in it. Slots open no faster, so that few messages wait for their hand-over. Only a consumer
        that begins with a bound may have its burst at once: later, as much may have been handed
        over just before.
        """
        window, gate = self.window, self.gate
        gate.until = math.inf
        if rate is None:
            window.bucket = gate.bucket = None
        else:
            burst = usual_burst(rate) if burst is None else burst
            opening_burst = max(burst, LEAST_OPENING_BURST)
            if window.bucket is None or gate.bucket is None:
                window.bucket, gate.bucket = Bucket(rate, opening_burst), Bucket(rate, burst)
                if self.lanes_asked or self._goes_on:
                    window.bucket.empty(self.now)
                    gate.bucket.empty(self.now)
            else:
                window.bucket.change(rate, opening_burst, self.now)
                gate.bucket.change(rate, burst, self.now)
        self._space()

    def share(self, rate: float, burst: float, until: float) -> None:
        """Hand over at most ``rate`` messages/second, and from ``until`` on nothing.

        Tokens that are there stay, unless nothing might be handed over before: those of that time
        belong to others that share the rate.
        """
        window, gate = self.window, self.gate
        lapsed = gate.bucket is None or self.now >= gate.until
        gate.until = until
        if window.bucket is None or gate.bucket is None:
            window.bucket, gate.bucket = Bucket(rate, burst), Bucket(rate, burst)
        elif not lapsed and (gate.bucket.rate, gate.bucket.burst) == (rate, burst):
            return
        # What comes early waits in the gate; what comes late is lost to a share with a small burst.
        window.bucket.change(rate, burst + SHARE_EARLY_MESSAGES, self.now)
        gate.bucket.follow(rate, burst, self.now, empty=lapsed)
        self._space()

    @property
    def buckets(self) -> Buckets | None:
        """What bounds its openings and its hand-overs; None where its rate is not bounded."""
        window, gate = self.window, self.gate
        if window.bucket is None or gate.bucket is None:
            return None
        return window.bucket, gate.bucket

    def use_buckets(self, buckets: Buckets) -> None:
        """Take tokens of these from now on: other consumers do too, and have one rate together."""
        self.window.bucket, self.gate.bucket = buckets

    def follow_on(self, last: Consumer) -> None:
        """Take over what bounds ``last``, which has ended: what that handed over counts here.

        Where nothing bounds it any more, a bound on this one begins without a burst. A bound has to
        be set again.
        """
        self._goes_on = True
        self.window.bucket, self.gate.bucket = last.window.bucket, last.gate.bucket

    @property
    def tokens_awaited(self) -> int:
        """Tokens since the start that something was waiting for when the bucket got them."""
        awaited = max(self.window.tokens_awaited, self.gate.tokens_awaited)
        return self._awaited_before + awaited

    def _unused(self) -> float:
        """Share of the tokens since the last sample that nothing was waiting for."""
        awaited = max(self.window.tokens_awaited, self.gate.tokens_awaited)
        self._awaited_before += awaited
        self.window.tokens_awaited = self.gate.tokens_awaited = 0
        if self.gate.bucket is None:
            return 1.0
        tokens = self.gate.bucket.rate * (self.now - self.sensors.interval_from)
        return max(0.0, 1 - awaited / tokens) if tokens > 0 else 1.0

    def acknowledged_together(self, count: int) -> None:
        """This many messages were acknowledged at once.

        Where nothing came and nothing was acknowledged for an interval before, the handler had
        waited for that many messages, and would wait forever with a smaller window.
        """
        if self._stalled and count > self._least:
            self._least = count
            self._notice(
                f"its handler waits for {count} messages and acknowledges them at once, so the "
                "prefetch stays at that or above (below an upper limit); acknowledge in smaller "
                "groups to hold lower rates"
            )
        self._stalled = False

    def _space(self) -> None:
        # What a bucket paces is spread already.
        spread = self.controlled and self.spreads and self.window.bucket is None
        self.window.spacing = self.spread.spacing(self.window.target) if spread else 0.0

    def start_next_interval(self) -> None:
        """Find when the next sample is due: a late one does not shift those that follow."""
        earliest = self.now + SHORTEST_INTERVAL_SHARE * self.interval
        self.next_sample = max(self.next_sample + self.interval, earliest)

    # Lanes

    @property
    def first_size(self) -> int:
        """Slots of the first lane; all slots, where there can be no second lane."""
        if self.kind == "single":
            return self.most
        slots = max(1, math.ceil(self.window.target))
        # Without a controller nothing is going to shrink, and one lane is as good as plain.
        return self.plan.lane_size(slots) if self.controlled else slots

    def new_lane(self, size: int, number: int) -> Lane:
        """Enter a lane in the books; ``number`` is one that no other lane of the channel has.

        The first has the user's tag, where that is new to the channel. No tag is used twice:
        RabbitMQ does not allow a tag that still has messages out.
        """
        self.lanes_asked += 1
        own = self.lanes_asked == 1 and self.tag_is_new
        tag = self.tag if own else _lane_tag(self.tag, number)
        lane = self.window.opened(self, tag, size)
        self.sensors.released(size, self.window.held, self.now)
        if self.kind == "auto" and self.lanes_asked > 1:
            self._second_lane = lane, self.sensors.total
            self.plan.may_grow = False
        return lane

    def lane_opened(self, lane: Lane) -> None:
        """The broker has confirmed ``lane``; what it gets counts only from now."""
        if self._second_lane is not None and self._second_lane[0] is lane:
            self._second_lane = lane, self.sensors.total

    def lane_gone(self, lane: Lane) -> None:
        """The broker delivers to ``lane`` no more."""
        if self._second_lane is not None and self._second_lane[0] is lane:
            self._second_lane = None  # it has shown nothing; the next lane may
            self.plan.may_grow = True
        if not lane.cancelled:
            self.sensors.withdrawn(lane.size - lane.unacked, self.now)
            self.window.cancelled(lane)

    def first_message(self, headers: dict[str, Any]) -> None:
        """Learn from a first message whether lanes are possible."""
        self.unseen = False
        if "x-stream-offset" in headers:
            self.be_single("it is a stream, which delivers every message to every consumer")
        elif self.kind == "auto":
            self.plan.may_grow = True

    def barren_lane(self) -> Lane | None:
        """The second lane, if it gets nothing while the first is served; it has to go."""
        if self._second_lane is None:
            return None
        lane, total = self._second_lane
        if lane.received:
            self._second_lane = None
            self.kind = "lanes"
            self.plan.may_grow = self.plan.may_retire = True
        elif self.sensors.total - total > BARREN_AFTER_WINDOWS * self.window.granted:
            self._second_lane = None
            self.be_single("it serves one consumer at a time")
            return lane
        return None

    @property
    def stuck(self) -> bool:
        """Whether the broker keeps messages of a lane, until the channel is closed."""
        return bool(self.stuck_lanes.found)

    def look_for_stuck_lanes(self) -> None:
        """Log a lane that the broker serves no more; to be asked at each sample."""
        for lane, seconds in self.stuck_lanes.look(self.sensors.total, self.pending, self.now):
            self._notice(
                f"nothing has come for {seconds:.0f} s into {lane.size - lane.unacked} of the "
                f"{lane.size} slots of consumer {lane.tag}, while its other lanes were served: the "
                "broker keeps the messages that it has assigned to it; connect again to have them "
                "delivered (controlmq run does so by itself)"
            )

    @property
    def lane_in_vain(self) -> bool:
        """Whether it has asked for a further lane that the broker has refused or not answered."""
        lane = self.pending
        unanswered = lane is not None and not (lane.retiring or lane.cancelled)
        return self.lanes_asked > 1 and (unanswered or self.lanes_refused > 0)

    def be_single(self, why: str) -> None:
        """Keep to one subscription from now on."""
        if self.kind != "single":
            most = self.window.lanes[0].size if self.window.lanes else 0
            self._notice(
                f"{why}, so the prefetch stays at most {most}; wrap with window='single' and "
                "limits to choose the maximum"
            )
            self._too_small_noticed = True
        self.kind = "single"
        self.plan.may_grow = self.plan.may_retire = False

    def be_pulled(self) -> None:
        """The user takes messages one by one: they wait for that, and not in the gate."""
        self.gate.pulled = True

    def fix(self, prefetch: float | None) -> None:
        """Stay at ``prefetch``, or at the slots there are, from now on."""
        self.controlled = False
        self.pace(None)
        self.plan.exact, self.plan.linger = True, 0.0
        self.limits = None
        self.actuate(prefetch or self.window.granted)

    def keep_lanes_exact(self, linger: float) -> None:
        """Keep no more slots in lanes than are wanted, as is best for a prefetch that stays.

        A lane that is not needed is retired after ``linger`` seconds.
        """
        self._keeps_lanes = self.plan.exact, self.plan.linger = True, linger

    def unfix(self, *, controlled: bool) -> None:
        """Change lanes as before :meth:`fix`, with a controller or without.

        A bound has to be set again.
        """
        self.controlled = controlled
        self.plan.exact, self.plan.linger = self._keeps_lanes

    @property
    def plain(self) -> bool:
        """Whether one consumer with the user's tag and the whole prefetch is all there is."""
        lanes = self.window.lanes
        return (
            len(lanes) == 1
            and lanes[0].tag == self.tag
            and lanes[0].size == self.window.target
            and not self.window.held
            and not self.gate.waiting
        )

    def _check_shrunk(self) -> None:
        """Log once if slots stay open that are no longer wanted."""
        window = self.window
        slots = sum(lane.slots for lane in window.subscribed) - window.held
        if slots <= window.wanted or not self.plan.filled or window.idle:
            self._too_many_since = None
        elif self._too_many_since is None:
            self._too_many_since = self.now
        elif self.now - self._too_many_since > window.max_hold + self.plan.linger:
            if not self._too_many_noticed:
                self._notice_too_many(slots)
            self._too_many_noticed = True

    def _notice_too_many(self, slots: int) -> None:
        window = self.window
        if self.kind == "single":
            cause = (
                f"its one subscription has {window.granted} slots, and at most {window.max_held} "
                f"acks are held for at most {window.max_hold:g} s; wrap with a larger max_held or "
                "a lower upper limit"
            )
        else:
            cause = (
                f"its lanes of {', '.join(str(lane.size) for lane in window.subscribed)} slots "
                "are retired once all their messages have come, and acks are kept for that for "
                f"at most {window.max_hold:g} s; wrap with a larger max_hold, or give the work "
                "to a pool of handlers"
            )
        self._notice(
            f"prefetch {window.target:g} is asked for, but {slots} slots stay open: {cause}"
        )

    def _notice_too_small(self, prefetch: float) -> None:
        """Log once that the only possible subscription has fewer slots than are asked for."""
        if not self._too_small_noticed:
            self._notice(
                f"prefetch {prefetch:g} is asked for, but its one subscription has "
                f"{self.window.granted} slots and stays so; wrap with limits to choose the maximum"
            )
        self._too_small_noticed = True

    def _notice(self, text: str) -> None:
        self.notices.append(Notice(f"queue {self.queue}: {text}"))


def _lane_tag(tag: str, number: int) -> str:
    """The tag of a further lane; a long one of the user's is cut, the number stays."""
    suffix = f".lane-{number}"
    most = LONGEST_TAG_BYTES - len(suffix)
    return tag.encode()[:most].decode(errors="ignore") + suffix


def _most(prefetch: float, shape: Shape) -> int:
    """Slots of a single subscription, which is never changed."""
    if shape.limits is not None:
        return min(math.ceil(shape.limits.high), MOST_PREFETCH)
    slots = math.ceil(prefetch)
    return max(DEFAULT_MAX_HELD, slots) if shape.controlled else slots


def _max_held(most: int, shape: Shape) -> int:
    if shape.max_held is not None:
        return shape.max_held
    if shape.window == "single":
        return most
    return DEFAULT_MAX_HELD if shape.limits is None else min(DEFAULT_MAX_HELD, most)
