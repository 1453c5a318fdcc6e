"""How well a loop held its goal, from the rates it was measured at."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.loop import Step

SETTLED_SHARE_OF_GOAL = 0.05
"""A measured rate has settled once it stays within this share of the goal: measurements carry
noise, so the band is wider than the 2 % of a computed response."""

FEWEST_SAMPLES = 4
"""Samples needed for a mean and a spread."""


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
    if len(rates) < FEWEST_SAMPLES:
        raise InputError(f"{len(rates)} samples are too few to judge a loop; run at least 4.")
    settled = settling_samples(rates, goal, SETTLED_SHARE_OF_GOAL)
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


@dataclass(frozen=True)
class Score:
    """One closed-loop run with its goal steps and disturbances, in figures; less is better.

    ``iae`` is the integral of the error's size, messages; ``itae`` weighs each error with the
    seconds since the last event (the start, a goal step or a disturbance). ``sd`` is the
    spread of the settled rate, messages/second, and ``overshoot`` the highest rate above the
    goal, percent of it. ``settling`` and ``recovery`` are the seconds from the start, and from
    each later event, until the rate stays within 5 % of the goal; where it does not before the
    next event, all the seconds until then. ``effort`` adds up all changes of the prefetch,
    messages.
    """

    iae: float
    itae: float
    sd: float
    overshoot: float
    settling: float
    recovery: tuple[float, ...]
    effort: float

    @property
    def mean_recovery(self) -> float:
        """Seconds, the mean over the events; 0 where there was none."""
        return statistics.fmean(self.recovery) if self.recovery else 0.0


def score(steps: Sequence[Step], disturbances: Sequence[float] = ()) -> Score:
    """Judge a run from its start; ``disturbances`` are when they came, on the samples' clock.

    A goal step is an event by itself. What happens within an interval counts from its start.
    """
    if len(steps) < FEWEST_SAMPLES:
        raise InputError(f"{len(steps)} samples are too few to judge a loop; run at least 4.")
    parts = [
        steps[start:end] for start, end in pairwise([*_events(steps, disturbances), len(steps)])
    ]
    judged = [_judge(part) for part in parts]
    settled = [seconds for seconds, _ in judged]
    spreads = [spread for _, spread in judged if spread is not None]
    return Score(
        iae=sum(_error(step) * step.sample.interval for step in steps),
        itae=sum(_itae(part) for part in parts),
        sd=(sum(spread**2 for spread in spreads) / len(spreads)) ** 0.5 if spreads else 0.0,
        overshoot=max(0.0, *(100 * (step.sample.rate - step.goal) / step.goal for step in steps)),
        settling=settled[0],
        recovery=tuple(settled[1:]),
        effort=sum(abs(step.prefetch - step.sample.prefetch) for step in steps),
    )


def _events(steps: Sequence[Step], disturbances: Sequence[float]) -> list[int]:
    """The samples with which something began: the first, goal steps, disturbances."""
    found = {0}
    found.update(k for k in range(1, len(steps)) if steps[k].goal != steps[k - 1].goal)
    for time in disturbances:
        found.update(
            k
            for k in range(1, len(steps))
            if steps[k].sample.time - steps[k].sample.interval <= time < steps[k].sample.time
        )
    return sorted(found)


def _judge(part: Sequence[Step]) -> tuple[float, float | None]:
    """Seconds until the rate has settled, and how much it spreads then."""
    length = sum(step.sample.interval for step in part)
    if len(part) < FEWEST_SAMPLES:
        return length, None
    found = performance([step.sample.rate for step in part], part[0].goal)
    if found.settling_samples is None:
        return length, found.sd
    return sum(step.sample.interval for step in part[: found.settling_samples]), found.sd


def _itae(part: Sequence[Step]) -> float:
    began = part[0].sample.time - part[0].sample.interval
    return sum((s.sample.time - began) * _error(s) * s.sample.interval for s in part)


def _error(step: Step) -> float:
    return abs(step.goal - step.sample.rate)
