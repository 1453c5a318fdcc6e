"""How long something takes and how large it is: distributions in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.checks import not_negative
from controlmq.errors import InputError

DISTRIBUTIONS = ("deterministic", "exponential", "normal", "lognormal", "replay")

LONGEST_SECONDS = 1e6
"""Seconds. Eleven days: what takes longer does not belong in a run of a messaging system."""

WIDEST_NORMAL_SD_PER_MEAN = 0.25
"""Share of the mean. A normal value is cut off at 0; up to this spread that concerns one
draw in 30,000 and leaves mean and sd as given."""

WIDEST_LOGNORMAL_SD_PER_MEAN = 100.0
"""Multiple of the mean. Beyond it no run is long enough to see the mean."""


@dataclass(frozen=True)
class _Distribution:
    mean: float | None = None
    distribution: str = "deterministic"
    sd: float | None = None
    values: Sequence[float] | None = None

    def __post_init__(self) -> None:
        what = type(self).__name__.lower()
        if self.distribution not in DISTRIBUTIONS:
            raise InputError(
                f"distribution is {self.distribution!r}; give one of {', '.join(DISTRIBUTIONS)}."
            )
        if self.distribution == "replay":
            self._check_replay(what)
            return
        if self.values is not None:
            raise InputError(
                f"values are given, but a {what} that is {self.distribution} draws its own; "
                'leave them out or make the distribution "replay".'
            )
        if self.mean is None:
            raise InputError(f"'mean' is missing; a {self.distribution} {what} needs one.")
        not_negative("mean", self.mean)
        self._check_spread(what)

    def _check_replay(self, what: str) -> None:
        if not isinstance(self.values, list | tuple) or not self.values:
            raise InputError(f"values is {self.values!r}; a replayed {what} needs a list of them.")
        if self.sd is not None:
            raise InputError(f"sd is {self.sd!r}, but a replayed {what} has its values; omit it.")
        values = tuple(not_negative("values", value) for value in self.values)
        mean = sum(values) / len(values)
        if self.mean is not None and self.mean != mean:
            raise InputError(f"mean is {self.mean!r}, but the values have {mean:g}; leave it out.")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "mean", mean)

    def _check_spread(self, what: str) -> None:
        assert self.mean is not None
        if self.distribution in ("deterministic", "exponential"):
            if self.sd is not None:
                raise InputError(
                    f"sd is {self.sd!r}, but a {what} that is {self.distribution} "
                    "has none of its own; leave it out."
                )
            return
        if self.sd is None:
            raise InputError(f"sd is missing; a {self.distribution} {what} needs one.")
        normal = self.distribution == "normal"
        widest = (WIDEST_NORMAL_SD_PER_MEAN if normal else WIDEST_LOGNORMAL_SD_PER_MEAN) * self.mean
        if not_negative("sd", self.sd) > widest:
            raise InputError(
                f"sd is {self.sd:g} with a mean of {self.mean:g}; a {self.distribution} {what} "
                f"allows up to {widest:g}{', a lognormal one more' if normal else ''}."
            )
        if self.mean == 0:
            raise InputError(
                f"mean is 0; a {self.distribution} {what} needs more, a deterministic one not."
            )


@dataclass(frozen=True)
class Duration(_Distribution):
    """Seconds that something takes each time, drawn from a distribution.

    ``mean`` is in seconds. ``sd``, in seconds too, belongs to "normal" and "lognormal" only:
    a deterministic duration has none and that of an exponential one equals its mean. "replay"
    takes its ``values`` one after the other, and begins again after the last.
    """

    mean: float = None  # type: ignore[assignment] # a replay has the mean of its values

    def __post_init__(self) -> None:
        super().__post_init__()
        longest = max(self.values) if self.values else self.mean
        if longest > LONGEST_SECONDS:
            raise InputError(f"mean is {longest:g} seconds; give at most {LONGEST_SECONDS:g}.")


@dataclass(frozen=True)
class Size(_Distribution):
    """Bytes of a message, drawn anew for each and rounded; as :class:`Duration` in bytes.

    A draw above what RabbitMQ accepts, 512 MiB, counts as that.
    """

    mean: float = None  # type: ignore[assignment] # a replay has the mean of its values
