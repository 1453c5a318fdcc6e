"""A schedule: one controller for each workload profile, and its file.

A profile is a workload that a consumer may meet, described by what the consumer can measure. The
profiles of a schedule form a table, as in any gain-scheduled controller: one quantity or more,
a few breakpoints of each, and a tuning at every crossing. Between breakpoints neighbours blend
linearly; beyond the outermost the outermost holds.

Blending along the service time is no approximation for a consumer that its window limits: one
more message of prefetch adds ``b = 1/(round trip + service time)``, and the gains of a
placement are proportional to ``1/b``.
"""

from __future__ import annotations

import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlmq.checks import finite, not_negative
from controlmq.controllers.controller_file import Tuning
from controlmq.errors import InputError
from controlmq.files import JsonFile, check_keys
from controlmq.model import SAME_INTERVAL_FACTOR

QUANTITIES = {
    "service_time": "seconds a message is in the handler, the mean of a sample",
    "arrival_rate": "messages/second handed to the business logic in a sample",
}
"""What a consumer measures of its workload, by the names that files use."""


@dataclass(frozen=True)
class Profile:
    """A workload, by the quantities that distinguish it, and the tuning made for it."""

    at: Mapping[str, float]
    tuning: Tuning

    def __post_init__(self) -> None:
        if not isinstance(self.at, Mapping) or not self.at:
            raise InputError(
                f"a profile is at {self.at!r}; say where, by {' or '.join(QUANTITIES)}."
            )
        for quantity, value in self.at.items():
            if quantity not in QUANTITIES:
                raise InputError(
                    f"a profile is at {quantity!r}; a consumer measures {' and '.join(QUANTITIES)}."
                )
            not_negative(quantity, value)
        if self.tuning.kind == "p":
            raise InputError(
                "a profile has a p controller, which steps with its operating point when profiles "
                "change; give pi or pid, which continue from the prefetch in force."
            )


@dataclass(frozen=True)
class Schedule(JsonFile):
    """Tunings at the breakpoints of a table, one for every combination of them.

    ``smoothing``, 0 up to but not including 1, is the share of a measured quantity kept from
    one sample to the next. 0 answers a jump of the workload at once; nearer 1 suits a consumer
    that handles only a few messages a sample, whose mean says little.
    """

    profiles: Sequence[Profile]
    smoothing: float = 0.0

    what = "schedule file"
    file_format = "controlmq-schedule"

    def __post_init__(self) -> None:
        object.__setattr__(self, "profiles", tuple(self.profiles))
        if not 0 <= finite("smoothing", self.smoothing) < 1:
            raise InputError(
                f"smoothing is {self.smoothing:g}; give 0 (none) up to, not including, 1."
            )
        if not self.profiles:
            raise InputError("a schedule needs at least one profile.")
        if any(profile.at.keys() != self.profiles[0].at.keys() for profile in self.profiles):
            raise InputError("the profiles use different quantities; use the same in all.")
        self._check_table()
        intervals = [profile.tuning.model.interval for profile in self.profiles]
        if max(intervals) > SAME_INTERVAL_FACTOR * min(intervals):
            raise InputError(
                f"the models have intervals of {min(intervals):g} to {max(intervals):g} s, and a "
                "loop runs at one; identify them at the same interval."
            )

    def _check_table(self) -> None:
        given = [self._place(profile) for profile in self.profiles]
        for place in itertools.product(*self.axes.values()):
            if given.count(place) != 1:
                where = ", ".join(
                    f"{name} {value:g}" for name, value in zip(self.axes, place, strict=True)
                )
                raise InputError(
                    f"there are {given.count(place)} profiles at {where}; give one for every "
                    "combination of breakpoints."
                )

    @property
    def axes(self) -> dict[str, tuple[float, ...]]:
        """The breakpoints of each quantity, ascending."""
        return {
            quantity: tuple(sorted({profile.at[quantity] for profile in self.profiles}))
            for quantity in self.profiles[0].at
        }

    def weights(self, measured: Mapping[str, float]) -> list[float]:
        """The share of every profile, in their order, at these quantities; they add up to 1."""
        shares = [_shares(axis, measured[quantity]) for quantity, axis in self.axes.items()]
        return [
            math.prod(
                share.get(value, 0.0)
                for share, value in zip(shares, self._place(profile), strict=True)
            )
            for profile in self.profiles
        ]

    def _place(self, profile: Profile) -> tuple[float, ...]:
        return tuple(profile.at[quantity] for quantity in self.profiles[0].at)

    def to_json(self) -> str:
        """The schedule as a JSON document, the tunings and their models included."""
        content: dict[str, Any] = {
            "format": self.file_format,
            "version": self.file_version,
            "smoothing": self.smoothing,
            "profiles": [
                {"at": dict(profile.at), "controller": json.loads(profile.tuning.to_json())}
                for profile in self.profiles
            ],
            "units": {quantity: QUANTITIES[quantity] for quantity in self.axes},
        }
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Schedule:
        """The schedule that the object of a schedule file describes."""
        check_keys(content, ["profiles"], ("format", "version", "smoothing", "units"))
        profiles = content["profiles"]
        if not isinstance(profiles, list):
            raise InputError(f"profiles is {profiles!r}; give a list of them.")
        return cls(
            [_profile(number, each) for number, each in enumerate(profiles, 1)],
            smoothing=content.get("smoothing", 0.0),
        )


def _shares(axis: Sequence[float], value: float) -> dict[float, float]:
    """How much of each breakpoint there is in ``value``: of its neighbours, linearly."""
    above = bisect_right(axis, value)
    if above == 0 or above == len(axis):
        return {axis[min(above, len(axis) - 1)]: 1.0}
    low, high = axis[above - 1], axis[above]
    share = (value - low) / (high - low)
    return {low: 1 - share, high: share}


def _profile(number: int, content: object) -> Profile:
    if not isinstance(content, dict) or content.keys() != {"at", "controller"}:
        raise InputError(f"profile {number} must have exactly the keys at and controller.")
    tuning = Tuning.from_json(json.dumps(content["controller"]), f"profile {number}")
    try:
        return Profile(content["at"], tuning)
    except InputError as error:
        raise InputError(f"profile {number}: {error}") from None
