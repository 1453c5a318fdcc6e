"""Durations and sizes: fixed, or drawn from a distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.checks import not_negative
from controlmq.errors import InputError

DISTRIBUTIONS = ("deterministic", "exponential", "normal", "lognormal", "replay")

LONGEST_SECONDS = 1e6
"""Eleven days. No single step in a messaging system takes longer."""

WIDEST_NORMAL_SD_PER_MEAN = 0.25
"""A normal value is cut off at 0. Up to this spread that happens to one draw in 30,000, and the
mean and the sd stay as given."""

WIDEST_LOGNORMAL_SD_PER_MEAN = 100.0
"""With a larger spread no run is long enough for the average to come near the mean."""


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
            raise InputError(f"sd is {self.sd!r}, but a replayed {what} takes none; leave it out.")
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
                    "takes none; leave it out."
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
            raise InputError(f"mean is 0; give a {self.distribution} {what} a mean above 0.")


@dataclass(frozen=True)
class Duration(_Distribution):
    """Seconds that something takes, drawn from a distribution each time.

    ``distribution`` is "deterministic", "exponential", "normal" (cut off at 0), "lognormal" or
    "replay". ``mean`` and ``sd`` are in seconds. Only "normal" and "lognormal" have an ``sd``:
    that of a deterministic duration is 0 and that of an exponential one equals its mean.
    "replay" takes its ``values`` one after the other and starts again after the last.
    """

    mean: float = None  # type: ignore[assignment] # a replay computes it from its values

    def __post_init__(self) -> None:
        super().__post_init__()
        longest = max(self.values) if self.values else self.mean
        if longest > LONGEST_SECONDS:
            raise InputError(f"mean is {longest:g} seconds; give at most {LONGEST_SECONDS:g}.")


@dataclass(frozen=True)
class Size(_Distribution):
    """Bytes of a message, drawn for each message and rounded; otherwise like :class:`Duration`.

    A draw above 512 MiB, the most that RabbitMQ accepts, becomes 512 MiB.
    """

    mean: float = None  # type: ignore[assignment] # a replay computes it from its values
