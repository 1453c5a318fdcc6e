"""Between which bounds a controller may move the prefetch."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import not_negative
from controlmq.errors import InputError
from controlmq.model import ArxModel

LOWEST_PREFETCH = 0.1
"""Messages. Low enough for a tenth of what prefetch 1 gives, high enough that the consumer
keeps receiving something to measure."""


MOST_WITHOUT_LIMITS = 2000.0
"""Messages. How far a law may go where the user gives no limits: what quorum queues take for a
prefetch without a limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The prefetch stays within ``low`` and ``high`` messages, whatever the law asks for."""

    low: float
    high: float

    def __post_init__(self) -> None:
        not_negative("low limit", self.low)
        not_negative("high limit", self.high)
        if self.low >= self.high:
            raise InputError(
                f"the limits are {self.low:g} to {self.high:g}; low must be below high."
            )

    @classmethod
    def widest(cls) -> Limits:
        """What a law without a model stays within where the user gives no limits."""
        return cls(LOWEST_PREFETCH, MOST_WITHOUT_LIMITS)

    @classmethod
    def of(cls, model: ArxModel) -> Limits:
        """Limits up to the end of the linear range, beyond which nothing is known of the rate."""
        return cls.up_to(model.linear_range[1])

    @classmethod
    def up_to(cls, high: float) -> Limits:
        """Limits up to a prefetch that the user has chosen."""
        return cls(min(LOWEST_PREFETCH, high / 2), high)

    @classmethod
    def beyond(cls, model: ArxModel) -> Limits:
        """Limits that let a law go on beyond the end of the linear range."""
        within = cls.of(model)
        return cls(within.low, max(within.high, MOST_WITHOUT_LIMITS))

    def clamp(self, prefetch: float) -> float:
        """The nearest allowed prefetch; NaN stays NaN for the loop to refuse."""
        if prefetch < self.low:
            return self.low
        if prefetch > self.high:
            return self.high
        return prefetch
