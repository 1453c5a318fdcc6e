"""Takes growth of the prefetch back where it brought no rate."""

from __future__ import annotations

import math

from controlmq.controllers.rest import REST_SAMPLES, Rest
from controlmq.sample import Sample

SAME_PREFETCH_FACTOR = 1.05
"""Factor up to which a prefetch still counts as the one from which growth began."""

JUDGED_FACTOR = 1.25
"""Factor by which the prefetch must have grown before it is judged what that has brought."""

VAIN_GROWTH_RESERVE_FACTOR = 1.25
"""Factor on the prefetch that the rate has followed to, where growth beyond it was in vain. Near
its limit the rate gains a few percent that samples do not tell from noise, and a few messages too
many cost less than that."""

LEAST_GAINED_SHARE = 0.2
"""Share of what growth could bring that it must have brought, or else it was in vain."""

LITTLE_LACKED_WORK_SHARE = 0.15
"""Share of their work that handlers could do in addition, up to which they lack little."""

GROWTH_AFTER_REST_FACTOR = 2.0
"""Factor on the prefetch that is tried at most after a rest."""

CHANGED_SHARE = 0.2
"""Share by which the rate must have fallen for a rest or a growth to end: it is another consumer
now."""

USEFUL_IDLE_SHARE = 0.02
"""Handlers that are idle for less than this share of their time have no use for more messages."""


class Growth:
    """Keeps a law from raising the prefetch without end where that brings no rate.

    Where broker, network or the client itself is the limit, handlers stay idle however large the
    prefetch is. A growth by a quarter or more that the rate did not follow, by a fifth of it, is
    taken back to what the rate has followed and a quarter more, and tried again only after a rest,
    which doubles each time.

    Handlers that lack little can gain less than the prefetch has grown by: a fifth of what they
    lacked is enough then, and their busy share tells it, which scatters less than the rate.
    """

    def __init__(self) -> None:
        self._rest = Rest()
        self._ceiling = math.inf
        self._reserve = VAIN_GROWTH_RESERVE_FACTOR
        """Factor on the prefetch that the rate followed to: growth in vain is taken back to it."""
        self._prefetch, self._rate, self._busy, self._age = 0.0, 0.0, 1.0, REST_SAMPLES
        """Where the present growth began, and how many samples ago."""

    @property
    def resting(self) -> bool:
        """Whether growth is not tried."""
        return self._rest.samples > 0

    def allowed(self, sample: Sample, asked: float) -> float:
        """``asked``, or what it may be at most."""
        if self.resting:
            self._rest.samples -= 1
            changed = sample.rate < (1 - CHANGED_SHARE) * self._rate
            if not self.resting or changed:
                self._rest.samples = 0
                self._ceiling = math.inf if changed else GROWTH_AFTER_REST_FACTOR * sample.prefetch
                self._begin(sample, sample.prefetch)
                self._reserve = VAIN_GROWTH_RESERVE_FACTOR if changed else 1.0
        else:
            self._judge(sample, asked)
        return min(asked, self._ceiling)

    def _judge(self, sample: Sample, asked: float) -> None:
        self._age += 1
        if not self._prefetch:  # from 0, which somebody put in force by hand
            self._begin(sample, sample.prefetch)
        elif self._age > REST_SAMPLES or sample.rate < (1 - CHANGED_SHARE) * self._rate:
            self._ceiling = math.inf
            self._begin(sample, sample.prefetch)
        elif sample.prefetch <= SAME_PREFETCH_FACTOR * self._prefetch:
            self._begin(sample, min(sample.prefetch, self._prefetch))
        if not self._prefetch or sample.prefetch < JUDGED_FACTOR * self._prefetch:
            return
        if self._followed(sample):
            self._ceiling = math.inf
            self._begin(sample, sample.prefetch)
            self._rest.forget()
            self._reserve = VAIN_GROWTH_RESERVE_FACTOR
        elif asked > sample.prefetch and sample.busy < 1 - USEFUL_IDLE_SHARE:
            # As far as the rate has followed, the growth was right.
            self._ceiling = self._reserve * self._prefetch * max(sample.rate / self._rate, 1.0)
            self._rest.begin()

    def _followed(self, sample: Sample) -> bool:
        """Whether the growth has brought something."""
        gain = sample.rate / self._rate - 1
        lacked = 1 / self._busy - 1
        if lacked < LITTLE_LACKED_WORK_SHARE:
            gain = max(gain, sample.busy / self._busy - 1)
        return gain >= LEAST_GAINED_SHARE * min(sample.prefetch / self._prefetch - 1, lacked)

    def _begin(self, sample: Sample, prefetch: float) -> None:
        self._prefetch, self._rate, self._busy, self._age = prefetch, sample.rate, sample.busy, 0
