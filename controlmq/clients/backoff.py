"""Pauses between attempts that fail one after another: doubled each time, drawn at random."""

from __future__ import annotations

import random


class Backoff:
    """The pauses between attempts at one thing, in seconds.

    Each is between half and the whole of a limit that starts at ``first`` and doubles up to
    ``longest``. Drawing them keeps consumers that lost the same broker from coming back together.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._limit = first

    def pause(self) -> float:
        """How long to wait after another failure."""
        limit = self._limit
        self._limit = min(2 * limit, self._longest)
        return random.uniform(limit / 2, limit)

    def reset(self) -> None:
        """Note that an attempt has worked: the next pause is as short as the first."""
        self._limit = self._first
