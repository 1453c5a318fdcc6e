"""Sensors of a live consumer: what one interval looked like, for very little work per message.

Work and waiting may be longer than an interval. So the time that a message waited counts when it
is over, in the interval in which a handler starts, and its handler time in that in which it is
acknowledged. Where neither is seen, times come from counts: the area under a count over time,
divided by the messages that passed, is the mean time each of them stayed (Little's law).

Starvation is detected from slots. A slot goes to the broker with an ack and comes back with a
message; matched first in, first out, that takes one turnaround: the round trip and the
broker's work while the queue has messages, longer once it runs dry. A slot out for longer
than usual while the consumer waits is overdue. A slow network, a busy broker or a machine that
takes the processor away make slots overdue too, but a queue with messages soon fills them all.
So a consumer counts as starved once at least one slot has been continuously overdue for a
while. The same holds for a program that lets its connection wait while it does something else.

A message that the consumer waited for shows the turnaround itself. One that came to a busy
consumer shows the turnaround and its time in the buffer together, so the buffer time is what is
left without the turnaround that was seen last.

Handlers run inside the client's calls if acks come during a call; then a call is a running
handler. If acks come outside of calls, the calls hand messages on, to a pool or to tasks: every
message handed over and not answered is with a handler, or waits for one if there are more of them
than handlers.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import NamedTuple

from controlmq.controllers.scatter import Scatter
from controlmq.sample import Sample

WAITING_AFTER_SECONDS = 0.001
"""Seconds without a delivery from which the consumer counts as waiting for one; shorter gaps
are its own work between two messages of one batch."""

LATE_SHARE_OF_TURNAROUND = 0.25
"""Share of a turnaround by which a message may be late before its slot is overdue."""

LATE_SECONDS = 0.002
"""Seconds a message may be late in any case."""

STARVED_AFTER_TURNAROUNDS = 4.0
"""Turnarounds for which slots must have been overdue at least."""

STARVED_AFTER_INTERVALS = 0.2
"""Share of an interval for which slots must have been overdue, too. Processor time taken by
other programs was seen to make spells of up to 0.2 s; a queue that gives less than the window
takes makes longer ones, because its slots are overdue all the time. Drawback: the interval in
which a queue runs dry may count as window-limited although its rate is up to a fifth too low;
so may an interval with pauses between quick bursts."""

FIRST_TURNAROUND_SECONDS = 0.5
"""Seconds to wait for a first message before the queue counts as dry."""

LONGEST_STEP_INTERVALS = 1.3
"""An interval longer than this many nominal ones is not counted as one step."""

SAMPLES_REMEMBERED = 10
"""Samples of which the most messages at once are the number of handlers, if it was not given."""

SPAN_SECONDS = 10.0
"""Seconds over which one lowest turnaround is taken."""

SPANS_REMEMBERED = 6
"""A turnaround that has grown is believed after this many spans."""

FOLLOWED_GROWTH, FOLLOWED_SHARE = 0.1, 0.3
"""Where the prefetch of a consumer that seems starved has grown by at least this share, and its
rate by at least three tenths of what it could, the window is the limit: not the queue, but the
turnaround has changed. Acks that are spread keep the rate from following as a whole."""

FOLLOWED_DEVIATIONS = 2.0
"""Standard deviations of messages that come by chance, by which more must have come for that: of
one message a second there are two in one second and four in the next quite often."""

SPAN_MESSAGES = 100
"""A span does not end before this many messages were waited for: a dry queue shows nothing."""


class HandlersSeen(NamedTuple):
    """What handlers did in an interval.

    ``busy`` is the share of those that this consumer could have; ``handler_time`` is the mean of
    the messages that ended, in seconds, and ``waited`` the seconds before a handler, summed over
    the messages that started. ``in_line`` messages wait for a handler at the end.
    """

    handlers: int
    busy: float
    handler_time: float
    waited: float = 0.0
    in_line: int = 0


# Here and not in a file of its own: every message asks it, and must not pass more files.
class Turnaround:
    """The usual time from a slot's release to its next message: the lowest of the last minute."""

    def __init__(self) -> None:
        self.usual = FIRST_TURNAROUND_SECONDS
        self._spans: deque[float] = deque(maxlen=SPANS_REMEMBERED)
        self._lowest = math.inf
        self._count = 0
        self._since = -math.inf

    @property
    def late_after(self) -> float:
        """Seconds after its release from which a slot is overdue."""
        return self.usual * (1 + LATE_SHARE_OF_TURNAROUND) + LATE_SECONDS

    def forget(self) -> None:
        """Forget the turnaround, because it has changed: the next message shows it."""
        self._spans.clear()
        self._lowest, self._count = math.inf, 0

    def measured(self, seconds: float, now: float) -> None:
        """A message that the consumer waited for came ``seconds`` after its slot's release."""
        if seconds < self._lowest:
            self._lowest = seconds
            self.usual = min(seconds, *self._spans) if self._spans else seconds
        if self._count == 0:
            self._since = now
        self._count += 1
        if self._count >= SPAN_MESSAGES and now - self._since >= SPAN_SECONDS:
            self._spans.append(self._lowest)
            self.usual = min(self._spans)
            self._lowest, self._count = math.inf, 0


class Sensors:
    """Counts one consumer's deliveries, acks and slots, and makes a sample of each interval.

    ``slot_seconds`` and ``acks`` are those of the interval closed last: open slots added up over
    time, and acks given by handlers. The areas are added up in each method, not in a method of
    their own, because these run for every message.

    A message's own seconds count in the interval in which a handler starts with it or is done with
    it. Handlers are taken to do so in the order in which messages came. ``handlers``
    is their number, if the user has said so; those of :mod:`controlmq.consumer.pool_sensors` know
    better.
    """

    # Python finds more than 30 attributes of an object slowly without these.
    __slots__ = (
        "_before",
        "_before_growth",
        "_buffer_seconds",
        "_busy_from",
        "_call_from",
        "_call_seconds",
        "_changed_at",
        "_gate_seconds",
        "_gated",
        "_gated_area",
        "_given",
        "_handled",
        "_handled_in_calls",
        "_handled_seconds",
        "_held",
        "_held_area",
        "_in_handler",
        "_in_line",
        "_inline",
        "_late",
        "_late_seconds",
        "_left_behind",
        "_left_seconds",
        "_mean_turnaround",
        "_most_at_once",
        "_most_running",
        "_number",
        "_open",
        "_open_area",
        "_overdue_from",
        "_overdue_seconds",
        "_overdue_to",
        "_owed_seconds",
        "_recent_most",
        "_running_before",
        "_running_seconds",
        "_scatter",
        "_shortest",
        "_since",
        "_slots",
        "_starved",
        "_turnaround_seconds",
        "_turnarounds",
        "_waited_seconds",
        "_with_user_before",
        "acks",
        "active_at",
        "arrivals",
        "in_call",
        "interval_from",
        "nominal_interval",
        "slot_seconds",
        "turnaround",
    )

    def __init__(self, now: float, interval: float, handlers: int | None = None) -> None:
        self.nominal_interval = interval
        self._given = handlers or 0
        self._most_running = float(self._given or math.inf)
        self.arrivals = 0
        self.active_at = now
        """When the last delivery was done with; only from then on is the consumer waiting."""
        self.turnaround = Turnaround()
        self.slot_seconds = 0.0
        self.acks = 0
        self._slots: deque[float] = deque()
        self._open = 0
        self._in_handler = 0
        self._since: deque[float] = deque()
        """Of each message that the user has: when it was handed over, or a handler took it where
        their number is known."""
        self._handled_seconds = 0.0
        """Seconds with a handler, of the messages answered in this interval."""
        self._waited_seconds = 0.0
        """Seconds before a handler, of the messages that one took in this interval."""
        self._owed_seconds = 0.0
        """Seconds that messages waited which are in no sample yet: none had started since."""
        self._running_seconds = 0.0
        """Seconds with handlers, if their number is not known, since one has ended a message."""
        self._in_line = 0
        """Messages that waited for a handler at the end of the last interval."""
        self._running_before = self._with_user_before = 0.0
        """Seconds up to the last interval of the messages there: with a handler, and at all."""
        self._held = 0
        self._changed_at = now
        self._open_area = 0.0
        self._held_area = 0.0
        self._gated = 0
        self._gated_area = 0.0
        self._gate_seconds = 0.0
        """Seconds that the messages handed over in this interval waited at the gate."""
        self._handled = 0
        self.in_call = False
        """Whether the user's code is being called with a message."""
        self._call_from = now
        """When the last call began, or up to when it is added up."""
        self._call_seconds = 0.0
        self._left_behind = 0
        """Messages that waited at the client when the call began."""
        self._left_seconds = 0.0
        self._handled_in_calls = 0
        self._inline = False
        self._busy_from = now
        """When the last message came that the consumer waited for."""
        self._buffer_seconds = 0.0
        self._mean_turnaround = 0.0
        self._turnaround_seconds = 0.0
        self._turnarounds = 0
        self._late_seconds, self._late = 0.0, 0
        """Turnarounds of late messages, before it is known whether the queue was dry."""
        self._shortest = math.inf
        self._most_at_once = 0
        self._recent_most: deque[int] = deque(maxlen=SAMPLES_REMEMBERED)
        self._starved = 0.0
        self._overdue_from: float | None = None
        """Since when there has always been an overdue slot, as far as seen."""
        self._overdue_to = now
        self._overdue_seconds = 0.0
        """Seconds of that in this interval, before it is known to be starvation."""
        self._scatter = Scatter()
        self._before_growth: Sample | None = None
        """The last sample, if messages were late in it."""
        self.interval_from = now
        self._number = -1
        self._before = 0

    @property
    def total(self) -> int:
        """Messages delivered since the start."""
        return self._before + self.arrivals

    @property
    def in_handler(self) -> int:
        """Messages that the user has and has not answered."""
        return self._in_handler

    def delivered(self, now: float, buffered: int, *, gated: bool = False) -> None:
        """A message comes, and is handed over or ``gated``; ``buffered`` more wait behind it."""
        elapsed = now - self._changed_at
        self._changed_at = now
        self._open_area += self._open * elapsed
        if self._held:
            self._held_area += self._held * elapsed
        if self._gated:
            self._gated_area += self._gated * elapsed
        if gated:
            self._gated += 1
        else:
            self.arrivals += 1
            self._since.append(now)
            self._in_handler += 1
            if self._in_handler > self._most_at_once:
                self._most_at_once = self._in_handler
            seconds = self.active_at - self._call_from
            if seconds > 0:  # of the call before
                self._call_seconds += seconds
                self._left_seconds += self._left_behind * seconds
            self._call_from, self._left_behind = now, buffered
            self.in_call = True
        released = self._slots.popleft() if self._slots else now
        taken = now - released
        if taken < self._shortest:
            self._shortest = taken
        if now - self.active_at > WAITING_AFTER_SECONDS:
            self._busy_from = now
            starved = self._consumer_waited(released, now)
            self._late_seconds += taken
            self._late += 1
            if self._overdue_from is None:  # none of them was late because the queue was dry
                self._turnaround_seconds += self._late_seconds
                self._turnarounds += self._late
                self._mean_turnaround = self._mean_turnaround or taken
            if self._overdue_from is None or starved:
                self._late_seconds, self._late = 0.0, 0
            self.turnaround.measured(taken, now)
        else:
            # It has not been here for longer than the consumer has been busy.
            buffered_for, busy_for = taken - self._mean_turnaround, now - self._busy_from
            self._buffer_seconds += buffered_for if buffered_for < busy_for else busy_for
            if self.turnaround.usual == FIRST_TURNAROUND_SECONDS:
                # A first message that came too soon to be waited for is better than a guess.
                self.turnaround.measured(taken, now)

    def message_waited(self, seconds: float) -> None:
        """Note how long the message that comes now was here before; nothing else shows that."""
        self._left_seconds += seconds

    def handed_over(self, since: float, now: float) -> None:
        """A message that has waited at the gate since then is handed over."""
        self.released(0, self._held, now)
        self.arrivals += 1
        self._gate_seconds += now - since
        self._gated -= 1
        self._since.append(now)
        self._in_handler += 1
        self._most_at_once = max(self._most_at_once, self._in_handler)
        self.calling(now)

    def forgotten(self, now: float) -> None:
        """A message that has waited is not handed over: its slot is no longer open."""
        self.released(0, self._held, now)
        self._gated -= 1
        self._open -= 1

    def calling(self, now: float) -> None:
        """The user's code gets a message that was delivered before, and works on it."""
        self._add_call(now)
        self._call_from, self._left_behind = now, 0
        self.in_call = True

    def _add_call(self, now: float) -> None:
        """Add up the last call, until it returned or until now."""
        seconds = (now if self.in_call else self.active_at) - self._call_from
        self._call_seconds += seconds
        self._left_seconds += self._left_behind * seconds
        self._call_from += seconds

    def answered(self, held: int, now: float) -> None:
        """The handler acknowledged or rejected a message: its slot is no longer open.

        ``held`` acks are held from now on.
        """
        elapsed = now - self._changed_at
        self._changed_at = now
        self._open_area += self._open * elapsed
        if self._held:
            self._held_area += self._held * elapsed
        if self._gated:
            self._gated_area += self._gated * elapsed
        self._held = held
        if self._since:  # a message that was parked and not taken back has no time here
            self._handled_seconds += now - self._since.popleft()
        self._in_handler -= 1
        if self._in_handler >= self._most_running:
            self._start_next(now)
        self._open -= 1
        self._handled += 1
        if self.in_call:
            self._handled_in_calls += 1

    def reopened(self, now: float) -> None:
        """The handler acknowledged a message, and its slot is open again at once."""
        elapsed = now - self._changed_at
        self._changed_at = now
        self._open_area += self._open * elapsed
        if self._held:
            self._held_area += self._held * elapsed
        if self._gated:
            self._gated_area += self._gated * elapsed
        if self._since:  # a message that was parked and not taken back has no time here
            self._handled_seconds += now - self._since.popleft()
        self._in_handler -= 1
        if self._in_handler >= self._most_running:
            self._start_next(now)
        self._handled += 1
        if self.in_call:
            self._handled_in_calls += 1
        self._slots.append(now)

    def _start_next(self, now: float) -> None:
        """A message that waited for a handler has one: the first that had none."""
        if len(self._since) >= self._given:
            self._waited_seconds += now - self._since[self._given - 1]
            self._since[self._given - 1] = now

    def released(self, slots: int, held: int, now: float) -> None:
        """``slots`` more are open from now on, and ``held`` acks are held."""
        elapsed = now - self._changed_at
        if elapsed:
            self._changed_at = now
            self._open_area += self._open * elapsed
            self._held_area += self._held * elapsed
            self._gated_area += self._gated * elapsed
        self._held = held
        if slots == 1:
            self._slots.append(now)
        else:
            self._slots.extend([now] * slots)
        self._open += slots

    def parked(self, count: int, now: float) -> None:
        """``count`` more messages are parked, or fewer: no handler has them, no slot is open."""
        self.released(0, self._held, now)
        for _ in range(min(count, len(self._since))):
            runs = len(self._since) <= self._most_running
            seconds = now - self._since.pop()
            self._with_user_before -= seconds
            self._running_before -= seconds if runs else 0.0
        self._since.extend([now] * -count)
        self._in_handler -= count
        self._open -= count

    def withdrawn(self, slots: int, now: float) -> None:
        """``slots`` will not be filled because their lane is gone."""
        self.released(0, self._held, now)
        for _ in range(min(slots, len(self._slots))):
            self._slots.pop()
        self._open -= slots

    def dry_since(self, now: float) -> float | None:
        """Since when a slot has been overdue while we wait for messages; None if none is."""
        if not self._slots or self.in_call:
            return None
        since = max(self._slots[0] + self.turnaround.late_after, self.active_at)
        return since if now > since else None

    def close(self, now: float, prefetch: float, unused: float = 1.0) -> Sample:
        """The interval that ends now; ``unused`` is the share of tokens that nothing awaited."""
        waits = not self.in_call and now - self.active_at > WAITING_AFTER_SECONDS
        if self._slots and waits:
            self._consumer_waited(self._slots[0], now)
        self.released(0, self._held, now)
        interval = max(now - self.interval_from, 1e-9)
        # An interval that was drawn out leaves a gap in the numbers, so that what was counted
        # over more than one interval is not taken for one step.
        length = interval / self.nominal_interval
        self._number += 1 if length <= LONGEST_STEP_INTERVALS else max(2, round(length))
        self._add_call(now)
        if self._turnarounds:
            self._mean_turnaround = self._turnaround_seconds / self._turnarounds
        elif self._shortest < self._mean_turnaround and not self._late:
            # No message was waited for, so that each shows the turnaround at most.
            self._mean_turnaround = self._shortest
        running, with_user = self._seconds_with_user(now)
        self._recent_most.append(self._most_at_once)
        self._most_at_once = self._in_handler
        seen = self._handlers_seen(interval, running, with_user)
        started = max(self.arrivals - (seen.in_line - self._in_line), 0)
        self._in_line = seen.in_line
        buffered = max(self._buffer_seconds, self._left_seconds, 0.0)
        self._owed_seconds += self._gate_seconds + seen.waited + buffered * (self.arrivals > 0)
        # Those that came in this interval may have waited since long before, but in slots.
        here_area = min(with_user + self._gated_area + buffered, self._open_area)
        sample = Sample(
            number=self._number,
            time=now,
            interval=interval,
            prefetch=prefetch,
            arrivals=started,
            starved=min(1.0, self._starved / interval),
            in_flight=(here_area + self._held_area) / interval,
            handler_time=seen.handler_time,
            buffer_time=self._owed_seconds / started if started else 0.0,
            held=self._held_area / interval,
            handlers=seen.handlers,
            busy=min(max(seen.busy, 0.0), 1.0),
            turnaround=self._mean_turnaround,
            gated=self._gated_area / interval,
            unused=unused,
        )
        self._doubt_starvation(sample)
        self.slot_seconds, self.acks = self._open_area, self._handled
        self._before += self.arrivals
        self.arrivals = self._handled = self._handled_in_calls = self._turnarounds = 0
        self._open_area = self._held_area = 0.0
        self._handled_seconds = self._waited_seconds = 0.0
        if started:
            self._owed_seconds = 0.0
        self._gated_area = self._gate_seconds = 0.0
        self._call_seconds = self._left_seconds = 0.0
        self._buffer_seconds = self._turnaround_seconds = 0.0
        self._shortest = math.inf
        self._starved = self._overdue_seconds = 0.0
        self.interval_from = now
        return sample

    def _doubt_starvation(self, sample: Sample) -> None:
        """Measure the turnaround again where the rate has followed the prefetch."""
        self._scatter.measure(sample)
        before, self._before_growth = self._before_growth, None
        if before is not None and min(before.prefetch, before.rate, before.busy) > 0:
            growth = sample.prefetch / before.prefetch - 1
            # Handlers that are busy now cannot have gained more than they lacked.
            possible = min(growth, 1 / before.busy - 1)
            gain = sample.rate / before.rate - 1
            more = sample.arrivals - before.arrivals
            by_chance = self._scatter.of_difference(sample.arrivals, before.arrivals)
            if (
                growth >= FOLLOWED_GROWTH
                and gain >= FOLLOWED_SHARE * possible > 0
                and more > FOLLOWED_DEVIATIONS * by_chance
            ):
                self.turnaround.forget()
                self._overdue_from = None
                self._late_seconds, self._late = 0.0, 0
                return
        if self._late or not sample.window_limited:
            self._before_growth = sample

    def _seconds_with_user(self, now: float) -> tuple[float, float]:
        """Seconds of this interval with handlers, and with the user at all, over all messages."""
        with_user = len(self._since) * now - sum(self._since)
        running = with_user
        if len(self._since) > self._most_running:
            since = islice(self._since, self._given)
            running = self._given * now - sum(since)
        before, before_with_user = self._running_before, self._with_user_before
        self._running_before, self._with_user_before = running, with_user
        gone = self._handled_seconds
        return gone + running - before, gone + self._waited_seconds + with_user - before_with_user

    def _handlers_seen(self, interval: float, running: float, with_user: float) -> HandlersSeen:
        """What handlers did in this interval, from seconds of messages with them and the user."""
        handled = max(self._handled, 1)
        if self._handled:
            self._inline = 2 * self._handled_in_calls > self._handled
        if self._inline:
            handler_time = (self._handled_seconds + self._waited_seconds) / handled
            return HandlersSeen(1, self._call_seconds / interval, handler_time)
        handlers = self._given or max(*self._recent_most, 1)
        busy = running / (handlers * interval)
        if self._given:
            in_line = max(self._in_handler - handlers, 0)
            handler_time = self._handled_seconds / handled
            return HandlersSeen(handlers, busy, handler_time, self._waited_seconds, in_line)
        # Time in a pool counts here, and grows with the window. The messages that end came with a
        # smaller one, so the area tells sooner.
        self._running_seconds += running
        handler_time = self._running_seconds / handled if self._handled else 0.0
        if self._handled:
            self._running_seconds = 0.0
        return HandlersSeen(handlers, busy, handler_time)

    def _consumer_waited(self, released: float, now: float) -> bool:
        """Note that the consumer waited until now, for the slot released then and maybe others.

        Returns whether it waited because it is starved.
        """
        late_from = released + self.turnaround.late_after
        overdue_from = max(late_from, self.active_at)
        if late_from >= self._overdue_to or overdue_from >= now:
            self._overdue_from = None
            self._overdue_seconds = 0.0
        if overdue_from >= now:
            return False
        if self._overdue_from is None:
            self._overdue_from = overdue_from
        self._overdue_to = now
        self._overdue_seconds += now - max(overdue_from, self.interval_from)
        enough = max(
            STARVED_AFTER_TURNAROUNDS * self.turnaround.usual,
            STARVED_AFTER_INTERVALS * self.nominal_interval,
        )
        starved = now - self._overdue_from > enough
        if starved:
            self._starved += self._overdue_seconds
            self._overdue_seconds = 0.0
        return starved
