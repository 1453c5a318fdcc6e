"""A token bucket: how often something may happen, in exact arithmetic.

In every stretch of ``T`` seconds, both ends included, at most ``rate * T + burst`` takes are
allowed. Tokens are not counted: the bucket keeps the instant at which it will be full again, which
every take moves on by ``1 / rate`` (the generic cell rate algorithm of ATM networks). Times are
whole numbers of ticks times a factor of the rate, so nothing is rounded and nothing adds up.
"""

from __future__ import annotations

import math
from fractions import Fraction

TICKS_PER_SECOND = 2**20
"""About a microsecond each. A whole number of ticks is exact in a float for centuries."""


class Bucket:
    """Allows ``rate`` takes per second on average, and ``burst`` (at least 1) at once.

    ``ready_at`` is the time in seconds from which the next take is allowed. A new bucket is full.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self.ready_at = -math.inf
        self._full_at: int | None = None
        self._set(rate, burst)

    def take(self, now: float, tokens: int = 1) -> None:
        """Take tokens, even some that the bucket does not have yet."""
        full_at = self._units(now)
        if self._full_at is not None and self._full_at > full_at:
            full_at = self._full_at
        self._full_at = full_at + tokens * self._token
        self._find_ready_at()

    def change(self, rate: float, burst: float, now: float) -> None:
        """Go on with another rate from now on; as many tokens are missing as before."""
        self._go_on(rate, burst, self._missing(now), now)

    def follow(self, rate: float, burst: float, now: float, *, empty: bool = False) -> None:
        """Go on with another rate from now on; no tokens are added, and none stay if ``empty``.

        With :meth:`change` a larger burst brings tokens; where several buckets share a rate, those
        tokens would exceed it.
        """
        most = Fraction(0) if empty else Fraction(burst)
        there = min(most, Fraction(self.burst) - self._missing(now))
        self._go_on(rate, burst, Fraction(burst) - there, now)

    def empty(self, now: float) -> None:
        """Have no token at this time; one that has less than none stays so."""
        self.follow(self.rate, self.burst, now, empty=True)

    def is_full(self, now: float) -> bool:
        """Whether nothing is missing, as in a new bucket."""
        return not self._missing(now)

    def _missing(self, now: float) -> Fraction:
        if self._full_at is None:
            return Fraction(0)
        present = math.floor(now * TICKS_PER_SECOND) * self._scale
        return Fraction(max(0, self._full_at - present), self._token)

    def _go_on(self, rate: float, burst: float, missing: Fraction, now: float) -> None:
        self._set(rate, burst)
        self._full_at = self._units(now) + math.ceil(missing * self._token)
        self._find_ready_at()

    def _set(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        per_tick = Fraction(rate) / TICKS_PER_SECOND
        # In units of 1 / numerator ticks a token takes a whole number.
        self._scale, self._token = per_tick.numerator, per_tick.denominator
        self._early = math.floor((Fraction(burst) - 1) * self._token)

    def _units(self, now: float) -> int:
        # A take counts from the end of its tick, and the next is allowed at the start of its own.
        return math.ceil(now * TICKS_PER_SECOND) * self._scale

    def _find_ready_at(self) -> None:
        assert self._full_at is not None
        ticks = -((self._early - self._full_at) // self._scale)  # rounded up
        self.ready_at = ticks / TICKS_PER_SECOND
