"""The least prefetch that loses no throughput."""

from __future__ import annotations

import math

from controlmq.controllers.growth import Growth, finished
from controlmq.controllers.limits import Limits
from controlmq.sample import Sample

ALLOWED_IDLE_SHARE = 0.01
"""Share of their time that handlers may lack a message: what the least prefetch may cost."""

ALLOWED_IDLE_SHARE_BELOW_RATE = 0.003
"""The same where a bucket allows more than handlers can do: what it allows or they can do is to be
reached within 1 %, also where the share scatters."""

UNUSED_SHARE = 0.1
"""Share of the tokens of a bucket that may find no ack waiting. The bucket keeps them for the acks
that come a little later, so that they are not lost."""

GATED_MESSAGES = 1.5
"""Messages that may wait for the bucket, in the mean: where more do, handlers that are idle wait
for tokens and not for messages."""

SMALLEST_STEP, LARGEST_STEP = 0.005, 0.08
"""Shares by which the margin moves in a sample, per relative deviation from the share allowed. A
step is halved when the deviation changes its sign, so that it gets small where the margin is
right, and grows again while the sign stays."""

STEP_GROWTH = 1.3
"""Factor by which a step grows while the sign stays."""

LARGEST_DEVIATION = 3.0
"""Relative deviations above this count as this: an idle second must not flood the buffer."""

LARGEST_DEBT = 20.0
"""Sum of what is cut off from deviations that is remembered at most. The margin shrinks only after
that many samples without idleness: where work is regular, a slot too few makes handlers idle for a
tenth of their time at once, and a slot more for none of it."""

MESSAGES_FOR_A_STEP = 200.0
"""Arrivals in a sample from which a full step is made: fewer say less about the idle share."""

SMOOTHING_MESSAGES = 100.0
"""Arrivals over which the flow is smoothed: a sample with as many counts one half."""

REACHED_SHARE = 0.98
"""Share of the rate of a bucket from which on it counts as reached."""

SHORT_OF_TOKENS_SHARE, FEW_GATED_MESSAGES = 0.2, 0.5
"""Where more of the tokens than this found no ack waiting, and fewer messages than this waited for
one, nothing but the prefetch keeps the consumer from its rate."""

LARGEST_GROWTH = 2.0
"""Factor by which the prefetch grows at most because of that."""

LEAST_BUSY_SHARE = 0.001
"""Handlers that were busy for less of their time say nothing of what they could do."""


class LeastPrefetch:
    """``u = (1 + m) (c + R y / busy)``: what is under way if handlers never lack a message.

    ``c`` handlers have one each, and the rest is on its way to them, with the turnaround ``R``:
    handlers that were busy for half of the interval could have done twice the rate ``y``. The
    margin ``m`` covers what random work and jitter ask for, no more and no less: it makes the
    share of time for which handlers lack a message 1 %.

    Where a bucket keeps the consumer to a ``rate`` (messages/second), handlers are idle because
    of it, and no more is asked for than that rate needs, with one slot more for the ack that waits
    for its token. What counts then are tokens that found no ack waiting, as far as handlers had
    time for them (0.3 % of it may be idle); without ``capped`` even if they had none. The margin
    does not grow while messages wait for their tokens, and shrinks where too many do. Where nothing
    but the prefetch keeps the consumer from its rate, it grows in proportion to what is lacking.

    While something else, a limit or growth in vain, keeps the prefetch lower than this law asks
    for, the margin does not grow.
    """

    kind = "least"

    def __init__(self, limits: Limits, rate: float | None = None, *, capped: bool = True) -> None:
        self.limits = limits
        self.rate = rate
        self.capped = capped
        self._margin = 0.0
        self._step, self._rising = LARGEST_STEP, True
        self._debt = 0.0
        """What was cut off from deviations, and not yet made up for by samples without idleness."""
        self._flow = 0.0
        """The rate without any lack of messages, smoothed; messages/second."""
        self._done = 0.0
        """The rate of messages that handlers were done with, smoothed alike."""
        self._asked = 0.0
        """The prefetch that was asked for last; limits, and what growth may be, left aside."""
        self._growth = Growth()

    @property
    def grew_in_vain(self) -> bool:
        """Whether a larger prefetch was last tried in vain, though handlers are idle."""
        return self._growth.resting

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval."""
        if not sample.window_limited or not sample.arrivals or sample.busy <= 0:
            return self.limits.clamp(sample.prefetch)
        full = 1 / max(sample.busy, LEAST_BUSY_SHARE)
        if self.rate is not None:
            paced = self.rate / sample.rate
            full = min(full, paced) if self.capped else paced
        weight = sample.arrivals / (sample.arrivals + SMOOTHING_MESSAGES) if self._flow else 1.0
        self._flow += weight * (full * sample.rate - self._flow)
        self._adjust_margin(sample)
        needed = full * sample.handlers * sample.busy + sample.turnaround * self._flow
        # A margin below that of the least prefetch allowed would only have to be made up for.
        floor = max(1.0, self.limits.low)
        self._margin = max(self._margin, min(floor / needed - 1, 0.0))
        asked = max((1 + self._margin) * needed, floor)
        if self.rate is not None:
            asked = max(asked + 1.0, self._in_proportion(sample, self.rate))
        self._asked = asked
        self._done += weight * (finished(sample).rate - self._done)
        if self.rate is None or self._done < REACHED_SHARE * self.rate:
            asked = self._growth.allowed(sample, asked)
        else:
            self._growth = Growth()  # it has brought what was wanted
        return self.limits.clamp(asked)

    def _in_proportion(self, sample: Sample, rate: float) -> float:
        """The prefetch for the rate, if it follows in proportion; 0 if something else limits it.

        A turnaround that has grown is measured only after a while: until then slots that are late
        may be those of a queue that is short of messages.
        """
        lacking = rate / sample.rate
        if (
            lacking * REACHED_SHARE <= 1
            or lacking * sample.busy > 1
            or sample.unused < SHORT_OF_TOKENS_SHARE
            or sample.gated > FEW_GATED_MESSAGES
            or self._growth.resting
        ):
            return 0.0
        return sample.prefetch * min(lacking, LARGEST_GROWTH)

    def _adjust_margin(self, sample: Sample) -> None:
        deviation = min(sample.unused / UNUSED_SHARE - 1, LARGEST_DEVIATION)
        if self.capped:
            allowed = ALLOWED_IDLE_SHARE if self.rate is None else ALLOWED_IDLE_SHARE_BELOW_RATE
            deviation = min(deviation, (1 - sample.busy) / allowed - 1)
        lacking = LARGEST_DEVIATION * (1 - sample.gated / GATED_MESSAGES)
        # After a stall of the network many wait at once, which says little about the margin.
        deviation = max(min(deviation, lacking), -1.0)
        held = sample.prefetch < self._asked or self._growth.resting
        if self.rate is None:
            uncut = deviation if held else (1 - sample.busy) / ALLOWED_IDLE_SHARE - 1
            deviation = self._less_debt(deviation, uncut)
        if deviation > 0 and held:
            return
        trust = math.sqrt(min(1.0, sample.arrivals / MESSAGES_FOR_A_STEP))
        same = (deviation > 0) == self._rising
        self._rising = deviation > 0
        self._step *= STEP_GROWTH if same else 0.5
        self._step = min(max(self._step, SMALLEST_STEP), LARGEST_STEP)
        self._margin += self._step * (1 + self._margin) * deviation * trust
        if self.rate is not None:
            self._margin = max(self._margin, 0.0)

    def _less_debt(self, deviation: float, uncut: float) -> float:
        """A deviation, less what it takes to make up for what was cut off from earlier ones."""
        if deviation < 0:
            paid = min(self._debt, -deviation)
            self._debt -= paid
            return deviation + paid
        self._debt = min(self._debt + max(uncut - deviation, 0.0), LARGEST_DEBT)
        return deviation
