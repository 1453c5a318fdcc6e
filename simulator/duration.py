"""How long something takes: a distribution in words."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.checks import not_negative
from controlmq.errors import InputError

DISTRIBUTIONS = ("deterministic", "exponential", "normal", "lognormal")

LONGEST = 1e6
"""Seconds. Eleven days: what takes longer does not belong in a run of a messaging system."""

WIDEST_NORMAL = 0.25
"""Share of the mean. A normal duration is cut off at 0; up to this spread that concerns one
draw in 30,000 and leaves mean and sd as given."""

WIDEST_LOGNORMAL = 100.0
"""Multiple of the mean. Beyond it no run is long enough to see the mean."""


@dataclass(frozen=True)
class Duration:
    """Seconds that something takes each time, drawn from a distribution.

    ``mean`` is in seconds. ``sd``, in seconds too, belongs to "normal" and "lognormal" only:
    a deterministic duration has none and that of an exponential one equals its mean.
    """

    mean: float
    distribution: str = "deterministic"
    sd: float | None = None

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise InputError(
                f"distribution is {self.distribution!r}; give one of {', '.join(DISTRIBUTIONS)}."
            )
        if not_negative("mean", self.mean) > LONGEST:
            raise InputError(f"mean is {self.mean:g} seconds; give at most {LONGEST:g}.")
        if self.distribution in ("deterministic", "exponential"):
            if self.sd is not None:
                raise InputError(
                    f"sd is {self.sd!r}, but a duration that is {self.distribution} "
                    "has none of its own; leave it out."
                )
            return
        if self.sd is None:
            raise InputError(f"sd is missing; a {self.distribution} duration needs one.")
        normal = self.distribution == "normal"
        widest = (WIDEST_NORMAL if normal else WIDEST_LOGNORMAL) * self.mean
        if not_negative("sd", self.sd) > widest:
            raise InputError(
                f"sd is {self.sd:g} with a mean of {self.mean:g}; a {self.distribution} duration "
                f"allows up to {widest:g}{', a lognormal one more' if normal else ''}."
            )
        if self.mean == 0:
            raise InputError(
                f"mean is 0; a {self.distribution} duration needs more, a deterministic one not."
            )
