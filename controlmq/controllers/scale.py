"""Holds a rate without a model: the prefetch is scaled by goal over rate."""

from __future__ import annotations

import math
from collections.abc import Mapping

from controlmq.controllers.freeze import frozen
from controlmq.controllers.growth import (
    CHANGED_SHARE,
    LEAST_GAINED_SHARE,
    VAIN_GROWTH_RESERVE_FACTOR,
)
from controlmq.controllers.limits import Limits
from controlmq.controllers.rest import Rest
from controlmq.sample import Sample

LEAST_REMOVED_ERROR_SHARE = 0.25
"""Share of the error that is removed however noisy the rate is."""

NOISE_MULTIPLE = 9.0
"""An error of three standard deviations of the noise is half removed."""

NOISE_FORGETTING = 0.1
"""Share that the newest difference has in the noise."""

SMALLEST_FACTOR, LARGEST_FACTOR = 0.05, 4.0
"""Factors by which the prefetch changes at most in a step."""

MESSAGES_TO_DECIDE = 10.0
"""Messages that the goal must have asked for before a step: a count is never better than 1. To
decide as soon as a count is far off would favour the counts that are off by chance."""

SURELY_TOO_MANY_DEVIATIONS = 4.0
"""Standard deviations of a Poisson count above what the goal asked for: so many messages too many
are no chance, and a step is taken at once."""

MESSAGES_TO_JUDGE = 200.0
"""Messages that must have been asked for before it is judged whether the rate has followed: less
than 7 % of noise, where a growth that is judged could bring 100 % and must bring 20."""

JUDGED_FACTOR = 2.0
"""Factor by which the prefetch must have grown before it is judged what that has brought. A rate
does not grow in proportion while acks begin to be spread, so less would be judged too early."""

REACHED_SHARE = 0.98
"""Share of the goal from which on it counts as reached: nothing is in vain then."""

NEARLY_SHARE = 0.95
"""Share of the judged factor from which on it counts as reached."""


class Followed:
    """The prefetch ``most`` up to which the rate has followed, while more would be in vain.

    Where doubling the prefetch brought less than a fifth more rate, growth is taken back to what
    the rate has followed and a quarter more. It is tried again after a rest, which doubles each
    time, or when the rate has fallen by a fifth.
    """

    def __init__(self) -> None:
        self.most = math.inf
        self.told: dict[str, str] = {}
        """What the user should know at present, by a key."""
        self._rest = Rest()
        self._reserve = VAIN_GROWTH_RESERVE_FACTOR
        """Factor on what the rate has followed to; none is added again by a try after a rest."""
        self._prefetch = self._rate = 0.0
        """Where the present growth began; 0 where none did."""
        self._changed = True
        """Whether the means of the present samples may have some from before a change in them."""

    def judge(self, prefetch: float, rate: float, goal: float) -> None:
        """Take in the means of some samples."""
        fallen = rate < (1 - CHANGED_SHARE) * self._rate
        reached = rate >= REACHED_SHARE * goal
        if fallen or reached:
            self.told = {}
        if self._rest.samples:
            self._rest.samples -= 1
            if fallen or not self._rest.samples:
                self._rest.samples = 0
                self._reserve = VAIN_GROWTH_RESERVE_FACTOR if fallen else 1.0
                if fallen:
                    self._begin_later()
                else:
                    self._begin(prefetch, rate, JUDGED_FACTOR * prefetch)
        elif reached or fallen:
            self._begin_later()
        elif self._changed:
            self._changed = False
        elif prefetch <= self._prefetch or not self._prefetch:
            self._begin(prefetch, rate, math.inf)
        elif prefetch >= NEARLY_SHARE * JUDGED_FACTOR * self._prefetch:
            gained = rate / self._rate - 1 if self._rate else math.inf
            if gained >= LEAST_GAINED_SHARE * (prefetch / self._prefetch - 1):
                self._begin(prefetch, rate, math.inf)
                self._rest.forget()
                self._reserve = VAIN_GROWTH_RESERVE_FACTOR
            else:
                self.most = self._reserve * self._prefetch * (1 + max(gained, 0.0))
                self._rest.begin()
                self._tell(prefetch, rate, goal)

    def _begin_later(self) -> None:
        """Growth begins once the rate is too low, by samples that all are from after a change."""
        self._begin(0.0, 0.0, math.inf)
        self._changed = True

    def _tell(self, prefetch: float, rate: float, goal: float) -> None:
        text = (
            f"the goal is {goal:g}/s and the rate stays at {rate:.4g}/s, also with a prefetch of "
            f"{prefetch:.4g}: it goes back to {self.most:.4g}; add handlers or consumers, or lower "
            "the goal"
        )
        self.told = {f"in vain {goal:g}": text}

    def _begin(self, prefetch: float, rate: float, most: float) -> None:
        self._prefetch, self._rate, self.most = prefetch, rate, most


class Scale:
    """``u <- u [1 + s (goal/y - 1)]``: answers big errors at once and does not chase noise.

    The share ``s = max(0.25, e^2 / (e^2 + 9 n))``, with ``e`` the relative error and ``n`` the
    variance of the rate about what each step should have made of it: an error that stands out of
    the noise is removed in one step, another one in several. Below the knee of a consumer the
    rate follows the prefetch in proportion, which is all that the law assumes.

    At low rates it counts over several samples, those without a message included, until the goal
    has asked for 10 messages, or at once where far too many came. The mean of ``1/y`` over counts
    that scatter by ``n`` is too high by a share of ``n``, which is taken off.

    Growth that the rate did not follow is taken back (:class:`Followed`). How busy handlers are
    does not count there, because their number may not be known.
    """

    kind = "scale"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._noise = 0.0
        self._goal: float | None = None
        self._prefetch: float | None = None
        self._asked = self._arrived = 0.0
        self._expected: float | None = None
        """What the last step should have made of the rate, as a multiple of the goal."""
        self._seen: list[Sample] = []
        """The samples since it was judged how the rate follows."""
        self._followed = Followed()

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval."""
        stands_still = frozen(sample, goal)
        if goal != self._goal or sample.prefetch != self._prefetch or stands_still:
            # What was counted belongs to another goal or prefetch, or to a queue that ran dry.
            self._forget(growth=goal != self._goal)
        self._goal, self._prefetch = goal, sample.prefetch
        if stands_still:
            return self.limits.clamp(sample.prefetch)
        self._asked += goal * sample.interval
        self._arrived += sample.arrivals
        self._judge(sample, goal)
        if self._asked < MESSAGES_TO_DECIDE and not self._surely_too_many():
            return self.limits.clamp(sample.prefetch)
        wanted = sample.prefetch * self._factor(self._arrived / self._asked)
        self._prefetch = self.limits.clamp(min(wanted, self._followed.most))
        factor = self._prefetch / sample.prefetch if sample.prefetch else 1.0
        self._expected = factor * self._arrived / self._asked
        self._asked = self._arrived = 0.0
        return self._prefetch

    @property
    def told(self) -> Mapping[str, str]:
        """What the user should know at present, by a key."""
        return self._followed.told

    def _forget(self, growth: bool) -> None:
        """Begin to count again, and with ``growth`` to watch what growth brings."""
        self._asked = self._arrived = 0.0
        self._expected = None
        self._seen = []
        if growth:
            self._followed = Followed()

    def _surely_too_many(self) -> bool:
        scatter = math.sqrt(max(self._asked, 1.0))
        return self._arrived - self._asked > SURELY_TOO_MANY_DEVIATIONS * scatter

    def _judge(self, sample: Sample, goal: float) -> None:
        """Find out how far the rate has followed the prefetch."""
        self._seen.append(sample)
        interval = sum(each.interval for each in self._seen)
        if goal * interval < MESSAGES_TO_JUDGE:
            return
        rate = sum(each.arrivals for each in self._seen) / interval
        prefetch = sum(each.prefetch * each.interval for each in self._seen) / interval
        self._followed.judge(prefetch, rate, goal)
        self._seen = []

    def _factor(self, relative: float) -> float:
        """The factor on the prefetch for a rate that is ``relative`` times the goal."""
        if self._expected is not None:
            noise = (relative - self._expected) ** 2 / 2
            self._noise += NOISE_FORGETTING * (noise - self._noise)
        squared = (relative - 1) ** 2
        share = squared / (squared + NOISE_MULTIPLE * self._noise) if squared else 0.0
        # No more than twice that of counts at random: a rate that has jumped is not noisy.
        scatter = min(self._noise, 2 / self._asked)
        wanted = 1 / (relative * (1 + scatter)) if relative > 0 else LARGEST_FACTOR
        factor = 1 + max(share, LEAST_REMOVED_ERROR_SHARE) * (wanted - 1)
        return min(max(factor, SMALLEST_FACTOR), LARGEST_FACTOR)
