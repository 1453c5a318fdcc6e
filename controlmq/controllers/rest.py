"""How long not to repeat what has been of no use."""

from __future__ import annotations

REST_SAMPLES, LONGEST_REST_SAMPLES = 10, 160
"""Samples for which it is not repeated: at first, and at most."""


class Rest:
    """Samples to go until the next try; each rest is twice as long as the one before.

    ``samples`` are those to go, and 0 while nothing rests.
    """

    def __init__(self) -> None:
        self.samples = 0
        self._next = REST_SAMPLES

    @property
    def fresh(self) -> bool:
        """Whether nothing was tried in vain since the start, or since the last success."""
        return self._next == REST_SAMPLES

    def begin(self) -> None:
        """A try was in vain."""
        self.samples = self._next
        self._next = min(2 * self._next, LONGEST_REST_SAMPLES)

    def forget(self) -> None:
        """A try was of use, or much has changed: the next rest is as short as the first."""
        self._next = REST_SAMPLES
