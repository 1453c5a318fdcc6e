"""Changes over time: from when on a rate or a duration is a multiple of the scenario's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from controlmq.checks import not_negative
from controlmq.errors import InputError
from simulator.scenario import checks


@dataclass(frozen=True)
class Change:
    """From ``at`` seconds on, a rate or a duration is ``factor`` times the scenario's.

    It changes linearly ``over`` this number of seconds; with 0, at once.
    """

    at: float
    factor: float
    over: float = 0.0

    def __post_init__(self) -> None:
        checks.seconds("at", self.at)
        if not_negative("factor", self.factor) > 1e6:
            raise InputError(f"factor is {self.factor:g}; give at most 1e+06.")
        checks.seconds("over", self.over)


def check_changes(owner: object, key: str) -> None:
    """Refuse changes under a key of which one begins before the previous one has ended."""
    changes = checks.entities(owner, key, Change)
    for before, after in pairwise(changes):
        if after.at < before.at + before.over or after.at == before.at:
            raise InputError(
                f"{key} has a change at {after.at:g} seconds before the one at {before.at:g} "
                "has ended; give them in order, one after the other."
            )
