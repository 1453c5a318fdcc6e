"""Lets a law go on beyond the range of its model, as long as the rate follows."""

from __future__ import annotations

import statistics

from controlmq.controllers.growth import USEFUL_IDLE_SHARE
from controlmq.controllers.limits import Limits
from controlmq.controllers.rest import Rest
from controlmq.model import ArxModel
from controlmq.sample import Sample

BEYOND_FOLLOWED_FACTOR = 2.0
"""Factor on the prefetch that the rate has followed to. The rate counts as following as long as it
is more than the other part, a half, of what the model expects."""

RATE_KEPT_SHARE = 0.8
"""Share of the highest rate that is kept from one sample to the next: a stall of one sample does
not throw the prefetch back."""

GAIN_SMOOTHING = 0.2
"""Share that the newest sample has in the gain that was measured inside the range."""

TRIED_LIMIT_FACTOR = 1.5
"""Factor on what is allowed that is tried now and then."""

COMPARED_SAMPLES = 5
"""Samples before and in a try whose mean rates are compared, so that noise does not decide."""

SAMPLES_IN_VAIN = 10
"""Samples in a row that end at what is allowed before anything is told: longer than a law takes
to settle."""

TRIED_SHARE = 0.95
"""Share of what is allowed that counts as having tried it."""


class LimitTry:
    """Decides when more than is allowed is tried: what was measured may no longer hold.

    ``gain`` is the rate for each message of prefetch that the last try found, if it brought at
    least half of what it could. The pause after a try in vain doubles each time.
    """

    def __init__(self) -> None:
        self.gain: float | None = None
        self.runs = False
        self._before = 0.0
        self._rates: list[float] = []
        self._rest = Rest()

    def end(self) -> None:
        """There is nothing to try."""
        self.runs = False
        self._rates.clear()

    def note(self, sample: Sample) -> None:
        """One more sample that ends with all of the prefetch that is allowed."""
        self._rates.append(sample.rate)
        if self.runs:
            if len(self._rates) > COMPARED_SAMPLES:  # in the first one it was not yet in force
                self._judge(sample, statistics.fmean(self._rates[1:]))
                self.end()
        elif self._rest.samples:
            self._rest.samples -= 1
        elif len(self._rates) >= COMPARED_SAMPLES:
            self._before = statistics.fmean(self._rates[-COMPARED_SAMPLES:])
            self.end()
            self.runs = True

    def _judge(self, sample: Sample, rate: float) -> None:
        if rate >= self._before * (1 + TRIED_LIMIT_FACTOR) / 2:
            self.gain = rate / sample.prefetch
            self._rest.forget()
        else:
            self._rest.begin()


class BeyondRange:
    """How far a law may go beyond the range ``within`` which its model holds.

    At most to twice the prefetch that the measured rate needs, by the model or by the gain ``y/u``
    that was measured inside the range::

        u <= 2 max(end of the range, prefetch_for(y), y / gain)

    While the rate follows the prefetch, that is no limit. Where it does not, because handlers, the
    network or the broker can do no more, growth ends there. Where handlers are idle at that end,
    half as much again is tried now and then (:class:`LimitTry`), since round trips change. Only the
    highest of the last rates is remembered, so the bound follows a consumer whose work changes.

    ``most`` is what is allowed now.
    """

    def __init__(self, model: ArxModel) -> None:
        self.within = Limits.of(model)
        self._limits = Limits.beyond(model)
        self._model = model
        self._gain: float | None = None
        self._limit_try = LimitTry()
        self._beyond: dict[str, str] = {}
        self._in_vain: dict[str, str] = {}
        """What to tell of a prefetch beyond the range, and of growth in vain, by a key."""
        self._rate = 0.0
        self._goal = 0.0
        self._samples_in_vain = 0
        self.most = self._most()

    @property
    def told(self) -> dict[str, str]:
        """What the user should know at present, by a key."""
        return self._beyond | self._in_vain

    def allowed(self, sample: Sample, goal: float, asked: float) -> float:
        """``asked``, or what the law may go to at most."""
        tried = sample.prefetch > TRIED_SHARE * self.most and not self._limit_try.runs
        self._measure(sample)
        self.most = self._most()
        if asked >= self.most and sample.busy < 1 - USEFUL_IDLE_SHARE:
            self._try_more(sample)
        else:
            self._limit_try.end()
        if goal != self._goal:
            self._goal, self._samples_in_vain, self._in_vain = goal, 0, {}
        if not asked > self.within.high:
            self._beyond, self._in_vain = {}, {}
        elif sample.prefetch > self.within.high:
            self._tell_beyond(sample)
        if not asked >= self.most:
            self._samples_in_vain, self._in_vain = 0, {}
            return asked
        # It counts only where the prefetch was there: another goal may have kept it lower.
        self._samples_in_vain += tried
        if self._samples_in_vain == SAMPLES_IN_VAIN:
            self._tell_in_vain(sample)
        return self.most

    def _measure(self, sample: Sample) -> None:
        self._rate = max(sample.rate, RATE_KEPT_SHARE * self._rate)
        # A prefetch of 0 was put in force by hand; what arrives with it came before.
        if 0 < sample.prefetch <= self.within.high and sample.arrivals:
            gain = sample.rate / sample.prefetch
            if self._gain is not None:
                gain = self._gain + GAIN_SMOOTHING * (gain - self._gain)
            self._gain = gain

    def _try_more(self, sample: Sample) -> None:
        limit_try = self._limit_try
        if sample.prefetch > TRIED_SHARE * self.most:
            limit_try.note(sample)
        if limit_try.gain is not None:
            self._gain, limit_try.gain = limit_try.gain, None
            self.most = self._most()
        if limit_try.runs:
            self.most = self._limits.clamp(TRIED_LIMIT_FACTOR * self.most)

    def _most(self) -> float:
        needed = max(self.within.high, self._model.prefetch_for(self._rate))
        if self._gain is not None:
            needed = max(needed, self._rate / self._gain)
        return self._limits.clamp(BEYOND_FOLLOWED_FACTOR * needed)

    def _tell_beyond(self, sample: Sample) -> None:
        end = self.within.high
        text = (
            f"the prefetch goes to {sample.prefetch:.4g}, beyond the {end:.4g} up to which the "
            f"model holds, for a goal of {self._goal:g}/s: the law goes on as long as the rate "
            "follows; identify the model again, or give limits to end it there"
        )
        self._beyond = {f"beyond {end:g}": text}

    def _tell_in_vain(self, sample: Sample) -> None:
        needed = self._model.prefetch_for(sample.rate)
        text = (
            f"the goal is {self._goal:g}/s and the rate stays at {sample.rate:.4g}/s, for which "
            f"the model needs a prefetch of {needed:.4g}: it is {sample.prefetch:.4g} and goes no "
            f"further; {self._advice(sample)}, lower the goal, or identify the model again"
        )
        self._in_vain = {f"in vain {self.within.high:g} {self._goal:g}": text}

    def _advice(self, sample: Sample) -> str:
        if sample.busy < 1 - USEFUL_IDLE_SHARE:
            return "handlers have time left, so add consumers on other connections"
        return "add handlers or consumers"
