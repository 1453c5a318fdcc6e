"""Ranks candidates by their scores: means with confidence intervals, and the Pareto front."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlmq.performance import Score
from controlmq.student import Interval, mean_interval
from simulator.studies.tuning_candidates.space import Candidate

METRICS = {
    "iae": "messages",
    "itae": "message seconds",
    "sd": "messages/second",
    "overshoot": "% of the goal",
    "settling": "seconds",
    "recovery": "seconds",
    "effort": "messages",
}
"""The metrics of a score with their units; for all of them less is better."""

Scores = Mapping[int, Sequence[Score]]
"""The scores of one controller by seed, one for each trial."""


@dataclass(frozen=True)
class Ranked:
    """A candidate with the mean of every metric and its confidence interval."""

    candidate: Candidate
    means: Mapping[str, Interval]


def rank(scores: Mapping[int, Scores], candidates: Sequence[Candidate], by: str) -> list[Ranked]:
    """The candidates, the lowest mean of ``by`` first; ``scores`` are by candidate number."""
    ranked = [Ranked(each, means_of(scores[each.number])) for each in candidates]
    return sorted(ranked, key=lambda each: (each.means[by].mean, each.means["effort"].mean))


def means_of(scores: Scores) -> dict[str, Interval]:
    """The mean of every metric over the seeds, with its confidence interval."""
    return {metric: mean_interval(per_seed(scores, metric)) for metric in METRICS}


def per_seed(scores: Scores, metric: str) -> list[float]:
    """The mean over the trials for each seed; means of different seeds are independent."""
    return [
        statistics.fmean(value_of(score, metric) for score in trials)
        for _, trials in sorted(scores.items())
    ]


def value_of(score: Score, metric: str) -> float:
    """One metric of one score."""
    return score.mean_recovery if metric == "recovery" else float(getattr(score, metric))


def front(ranked: Sequence[Ranked], first: str, second: str) -> list[Ranked]:
    """The Pareto front: candidates that no other beats in both metrics, sorted by the first."""
    best = float("inf")
    found = []
    for each in sorted(ranked, key=lambda r: (r.means[first].mean, r.means[second].mean)):
        if each.means[second].mean < best:
            best = each.means[second].mean
            found.append(each)
    return found


def compare(ours: Scores, theirs: Scores) -> dict[str, Interval]:
    """Ours minus theirs for every metric, paired by seed: both had the same arrivals."""
    return {
        metric: mean_interval(
            [a - b for a, b in zip(per_seed(ours, metric), per_seed(theirs, metric), strict=True)]
        )
        for metric in METRICS
    }
