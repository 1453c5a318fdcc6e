"""How well a loop held its goal, from the rates it was measured at."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from controlmq.errors import InputError

SETTLED = 0.05
"""A measured rate has settled once it stays within this share of the goal: measurements carry
noise, so the band is wider than the 2 % of a computed response."""


@dataclass(frozen=True)
class Performance:
    """One closed-loop run at a constant goal.

    ``settling_samples`` counts from the start until the rate stays within 5 % of the goal;
    None when it never does. ``mean`` and ``sd`` (messages/second) are over the settled
    samples, or over the second half of a run that did not settle. ``overshoot`` is how far
    the highest rate lay above the goal, in percent of the goal.
    """

    mean: float
    sd: float
    settling_samples: int | None
    overshoot: float


def performance(rates: Sequence[float], goal: float) -> Performance:
    """Judge a run from its first sample on."""
    if len(rates) < 4:
        raise InputError(f"{len(rates)} samples are too few to judge a loop; run at least 4.")
    settled = settling_samples(rates, goal, SETTLED)
    enough = settled is not None and settled <= len(rates) - 2
    judged = rates[settled:] if enough else rates[len(rates) // 2 :]
    return Performance(
        mean=statistics.fmean(judged),
        sd=statistics.stdev(judged),
        settling_samples=settled if enough else None,
        overshoot=max(0.0, 100 * (max(rates) - goal) / goal),
    )


def settling_samples(response: Sequence[float], final: float, band: float) -> int | None:
    """The first sample from which on the response stays within ``band`` of ``final``."""
    settled = len(response)
    while settled > 0 and abs(response[settled - 1] - final) <= band * abs(final):
        settled -= 1
    return settled if settled < len(response) else None
