"""Takes growth of the prefetch back where it brought no rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from controlmq.controllers.rest import Rest
from controlmq.controllers.scatter import Scatter, same_prefetch
from controlmq.sample import Sample

JUDGED_FACTOR = 1.25
"""Factor by which the prefetch must have grown before it is judged what that has brought."""

UNJUDGED_PREFETCH = 2.0
"""Messages up to which growth is not judged: so few flood nothing, and bring too few to tell."""

LARGEST_GROWTH_FACTOR = 16.0
"""Factor by which the prefetch may grow before it is judged: enough to be there at once, and too
little for one wrong sample to flood the window."""

VAIN_GROWTH_RESERVE_FACTOR = 1.25
"""Factor on the prefetch that the rate has followed to, where growth beyond it was in vain. Near
its limit the rate gains a few percent that samples do not tell from noise, and a few messages too
many cost less than that."""

LEAST_GAINED_SHARE = 0.2
"""Share of what growth could bring that it must have brought, or else it was in vain."""

CHANCE_DEVIATIONS = 3.0
"""Standard deviations of what comes by chance, by which the rate must have changed to be another
one. Every sample is looked at: two would be exceeded again and again."""

REMEMBERED_MESSAGES = 400.0
"""Messages from which on the rate before growth is a mean of the latest: it scatters by 5 %."""

UNDECIDED_SAMPLES = 5
"""Samples for which the prefetch stays while too few messages have come to tell."""

GROWTH_AFTER_REST_FACTOR = 2.0
"""Factor on the prefetch that is tried at most after a rest."""

CHANGED_SHARE, CHANGED_SAMPLES = 0.2, 2
"""Share by which the rate must have fallen for a rest or a growth to end, because it is another
consumer now, and for how many samples: the rate of a sample that is low by chance is soon higher,
which would pass for a gain."""

USEFUL_IDLE_SHARE = 0.02
"""Handlers that are idle for less than this share of their time have no use for more messages. This
says nothing where their number is the most that was seen at once, and grows with the prefetch."""


@dataclass
class Counted:
    """Messages that handlers were done with at one prefetch, and how busy they were meanwhile."""

    messages: float = 0.0
    seconds: float = 0.0
    busy_seconds: float = 0.0
    samples: int = 0

    def add(self, sample: Sample) -> None:
        """Count a sample; the oldest count less once there are many."""
        if self.messages > REMEMBERED_MESSAGES:
            self.messages, self.seconds = self.messages / 2, self.seconds / 2
            self.busy_seconds /= 2
        self.messages += sample.arrivals
        self.seconds += sample.interval
        self.busy_seconds += sample.busy * sample.interval
        self.samples += 1

    @property
    def rate(self) -> float:
        """Messages/second."""
        return self.messages / self.seconds

    @property
    def busy(self) -> float:
        """Share of their time for which handlers ran."""
        return self.busy_seconds / self.seconds if self.seconds else 0.0


class Growth:
    """Keeps a law from raising the prefetch without end where that brings no rate.

    Where broker, network or the client itself is the limit, handlers stay idle however large the
    prefetch is. A growth by a quarter or more that the rate did not follow, by a fifth of it, is
    taken back to what the rate has followed and a quarter more, and tried again only after a rest,
    which doubles each time. What comes by chance is no gain: where messages are few, or work is
    random, the prefetch stays where it is until enough were counted, for five samples at most.

    Where the number of handlers stays the same, their busy share tells a gain, too. It scatters
    less than the rate, the less the busier they are.
    """

    def __init__(self) -> None:
        self._rest = Rest()
        self._ceiling = math.inf
        self._reserve = VAIN_GROWTH_RESERVE_FACTOR
        """Factor on the prefetch that the rate followed to: growth in vain is taken back to it."""
        self._prefetch, self._handlers = 0.0, 0
        """Where the present growth began; 0 before the first."""
        self._before, self._since = Counted(), Counted()
        """What was counted there, and since the prefetch has grown."""
        self._scatter = Scatter()
        self._last: Sample | None = None
        self._low_samples = 0
        """Samples in a row in which the rate was lower than where growth began."""

    @property
    def resting(self) -> bool:
        """Whether growth is not tried."""
        return self._rest.samples > 0

    def allowed(self, sample: Sample, asked: float) -> float:
        """``asked``, or what it may be at most."""
        if not sample.prefetch:
            return asked  # it was put in force by hand; what arrives with it came before
        # While a window fills, more messages come than handlers are done with: a pool whose size is
        # not known takes all in. While it drains, fewer come. And handler times lag behind handlers
        # that get slower, which makes more of their work.
        sample, more = sorted((sample, finished(sample)), key=lambda each: each.arrivals)
        self._scatter.measure(sample)
        if not self._prefetch or self._changed(more):
            self._rest.samples = 0
            self._ceiling = math.inf
            self._reserve = VAIN_GROWTH_RESERVE_FACTOR
            self._begin(sample)
        elif self.resting:
            self._rest.samples -= 1
            self._before.add(sample)
            if not self.resting:
                self._ceiling = GROWTH_AFTER_REST_FACTOR * sample.prefetch
                self._reserve = 1.0
                self._prefetch, self._handlers = sample.prefetch, sample.handlers
        elif same_prefetch(sample.prefetch, self._prefetch):
            self._prefetch = min(sample.prefetch, self._prefetch)
            self._before.add(sample)
            self._since = Counted()
        elif sample.prefetch < max(self._prefetch, UNJUDGED_PREFETCH):
            self._begin(sample)
        elif sample.prefetch >= JUDGED_FACTOR * self._prefetch:
            self._since.add(sample)
            asked = self._judged(sample, asked)
        most = LARGEST_GROWTH_FACTOR * max(self._prefetch, UNJUDGED_PREFETCH)
        return min(asked, max(self._ceiling, UNJUDGED_PREFETCH), most)

    def _judged(self, sample: Sample, asked: float) -> float:
        """What may be asked for once the prefetch has grown."""
        if self._followed(sample):
            self._ceiling = math.inf
            self._begin(sample)
            self._rest.forget()
            self._reserve = VAIN_GROWTH_RESERVE_FACTOR
        elif asked > sample.prefetch and (
            sample.busy < 1 - USEFUL_IDLE_SHARE or sample.handlers > self._handlers
        ):
            before, since = self._before, self._since
            if self._by_chance > self._possible(sample) / 2 and since.samples < UNDECIDED_SAMPLES:
                return sample.prefetch
            # As far as the rate has followed, the growth was right.
            followed = since.rate / before.rate if before.messages else 1.0
            if self._reserve == 1.0:  # it has been here before, and chance must not take it higher
                followed -= self._by_chance
            self._ceiling = self._reserve * self._prefetch * max(followed, 1.0)
            self._rest.begin()
            self._before, self._since = Counted(), Counted()
        return asked

    def _possible(self, sample: Sample) -> float:
        """Share of the rate that the growth could have brought, at most."""
        lacked = 1 / self._before.busy - 1 if self._before.busy else math.inf
        return min(sample.prefetch / self._prefetch - 1, lacked)

    @property
    def _by_chance(self) -> float:
        """By which share of the rate the two counts may differ by chance."""
        return CHANCE_DEVIATIONS * self._scatter.of_ratio(
            self._before.messages, self._since.messages
        )

    def _followed(self, sample: Sample) -> bool:
        """Whether the growth has brought something."""
        before, since = self._before, self._since
        if not before.messages:
            return False
        least = LEAST_GAINED_SHARE * self._possible(sample)
        by_chance = self._by_chance
        if since.rate / before.rate - 1 >= max(least, by_chance):
            return True
        if sample.handlers != self._handlers:
            return False
        idle = 1 - max(before.busy, since.busy)
        return since.busy / before.busy - 1 >= max(least, by_chance * idle)

    def _changed(self, sample: Sample) -> bool:
        """Whether it is another consumer than before.

        Its rate has fallen below that where growth began, and not by chance; or its handlers lack
        messages although the prefetch is larger than in the last sample, when they lacked none.
        """
        expected = self._before.rate * sample.interval if self._before.seconds else 0.0
        by_chance = CHANCE_DEVIATIONS * self._scatter.of_difference(expected, sample.arrivals)
        low = sample.arrivals < min((1 - CHANGED_SHARE) * expected, expected - by_chance)
        self._low_samples = self._low_samples + 1 if low else 0
        last, self._last = self._last, sample
        return self._low_samples >= CHANGED_SAMPLES or (
            last is not None
            and sample.handlers == last.handlers
            and sample.prefetch >= JUDGED_FACTOR * last.prefetch
            and sample.busy < 1 - USEFUL_IDLE_SHARE < last.busy
        )

    def _begin(self, sample: Sample) -> None:
        self._prefetch, self._handlers = sample.prefetch, sample.handlers
        self._before, self._since = Counted(), Counted()
        self._before.add(sample)
        self._low_samples = 0


def finished(sample: Sample) -> Sample:
    """The sample with the messages that handlers finished, in place of those that came."""
    if sample.handler_time <= 0:
        return sample
    seconds = sample.handlers * sample.busy * sample.interval
    return replace(sample, arrivals=max(round(seconds / sample.handler_time), 1))
