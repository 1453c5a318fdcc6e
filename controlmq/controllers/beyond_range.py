"""Going on beyond the range of a model, as long as the rate follows."""

from __future__ import annotations

from controlmq.controllers.limits import Limits
from controlmq.loop import Sample
from controlmq.model import ArxModel

RESERVE_FACTOR = 2.0
"""Factor on the prefetch that the model needs for the measured rate. The rate counts as following
as long as it is more than the other part, a half, of what the model expects."""

RATE_KEPT_SHARE = 0.8
"""Share of the highest rate that is kept from one sample to the next: a stall of one sample does
not throw the prefetch back."""

SAMPLES_IN_VAIN = 10
"""Samples in a row that end at what is allowed before anything is told: longer than a law takes
to settle."""

TRIED_SHARE = 0.95
"""Share of what is allowed that counts as having tried it."""


class BeyondRange:
    """How far a law may go beyond the range ``within`` which its model holds.

    At most to twice the prefetch that the model needs for the rate that is measured::

        u <= 2 max(end of the range, prefetch_for(y))

    While the rate follows the prefetch, at more than half of the model's gain, that is no limit.
    Where it does not, because handlers, the network or the broker can do no more, growth ends
    there. Only the highest of the last rates is remembered, so the bound follows a consumer whose
    work or network changes.

    ``most`` is what is allowed now.
    """

    def __init__(self, model: ArxModel) -> None:
        self.within = Limits.of(model)
        self._limits = Limits.beyond(model)
        self._model = model
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
        tried = sample.prefetch > TRIED_SHARE * self.most
        self._rate = max(sample.rate, RATE_KEPT_SHARE * self._rate)
        self.most = self._most()
        if goal != self._goal:
            self._goal, self._samples_in_vain, self._in_vain = goal, 0, {}
        if not asked > self.within.high:
            self._beyond, self._in_vain = {}, {}
        elif sample.prefetch > self.within.high and not self._beyond:
            self._tell_beyond(sample)
        if not asked >= self.most:
            self._samples_in_vain, self._in_vain = 0, {}
            return asked
        # It counts only where the prefetch was there: another goal may have kept it lower.
        self._samples_in_vain += tried
        if self._samples_in_vain == SAMPLES_IN_VAIN:
            self._tell_in_vain(sample)
        return self.most

    def _most(self) -> float:
        followed = max(self.within.high, self._model.prefetch_for(self._rate))
        return self._limits.clamp(RESERVE_FACTOR * followed)

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
            "further; add handlers or consumers, lower the goal, or identify the model again"
        )
        self._in_vain = {f"in vain {self.within.high:g} {self._goal:g}": text}
