"""One law on one plant with one seed, and what came of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice

from controlmq.loop import Controller, Sample
from simulator.studies.tournament.entries import find
from simulator.studies.tournament.peers import fixed
from simulator.studies.tournament.plants import Phase, TrialConsumer, drive

METRICS: dict[str, dict[str, str]] = {
    "rate": {
        "error": "mean size of the error, % of the goal",
        "sd": "spread of the rate in the second half of a phase, % of the goal",
    },
    "at_most": {
        "over": "worst sample above the ceiling, % of it",
        "lost": "throughput lost in the second half of a phase, % of what ceiling and work allow",
    },
    "least": {
        "lost": "throughput lost in the second half of a phase, %",
        "buffered": "messages that wait in the client",
    },
    "buffer_time": {
        "error": "mean size of the error in the second half of a phase, % of the goal",
        "lost": "throughput lost, %",
    },
}
"""What is measured for each goal; less is better. The first decides, but see :func:`cost`."""

LOSSLESS_PREFETCH = 1000.0
"""Messages. A prefetch that loses nothing."""


@dataclass(frozen=True)
class Trial:
    """A law of a table, with what light tuning has chosen for it, on a plant."""

    table: str
    entry: str
    plant: TrialConsumer
    seed: int
    chosen: Mapping[str, float] = field(default_factory=dict)


def run_trial(trial: Trial) -> dict[str, float]:
    """The metrics of the table."""
    entry = find(trial.table, trial.entry)
    plant = _asleep(trial.plant) if entry.sleeps else trial.plant
    controller = entry.make(trial.plant, **trial.chosen)
    phases = by_phase(plant, controller, trial.seed)
    full = () if trial.table == "rate" else rates_without_loss(trial.plant, trial.seed)
    return judge(trial.table, phases, full)


def by_phase(
    plant: TrialConsumer, controller: Controller, seed: int
) -> list[tuple[Phase, list[Sample]]]:
    """The samples of each phase, also where one phase is like the next."""
    steps = drive(plant, controller, seed)
    return [
        (phase, [step.sample for _, step in islice(steps, phase.samples)]) for phase in plant.phases
    ]


def judge(
    table: str, phases: Sequence[tuple[Phase, Sequence[Sample]]], full: Sequence[float]
) -> dict[str, float]:
    """The metrics of a table from the samples of each phase.

    ``full`` are the settled rates of a prefetch that loses nothing; a rate needs none.
    """
    if table == "rate":
        return _rate(phases)
    if table == "at_most":
        return _at_most(phases, full)
    return _least(phases, full) if table == "least" else _buffer_time(phases, full)


def cost(table: str, metrics: Mapping[str, float]) -> float:
    """One figure to rank by: percent lost and a percent for each message that waits, or percent
    off the goal and lost."""
    if table == "rate":
        return metrics["error"]
    return sum(metrics.values())


@cache
def rates_without_loss(plant: TrialConsumer, seed: int) -> tuple[float, ...]:
    """The settled rate of each phase with more prefetch than is needed."""
    return tuple(
        statistics.fmean(sample.rate for sample in second_half(samples))
        for _, samples in by_phase(plant, fixed(LOSSLESS_PREFETCH), seed)
    )


def second_half(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples of a phase after it has settled."""
    return samples[len(samples) // 2 :]


def _rate(phases: Sequence[tuple[Phase, Sequence[Sample]]]) -> dict[str, float]:
    errors: list[float] = []
    spreads: list[float] = []
    for phase, samples in phases:
        relative = [100 * (sample.rate / phase.goal - 1) for sample in samples]
        errors += map(abs, relative)
        spreads.append(statistics.pstdev(relative[len(relative) // 2 :]))
    return {"error": statistics.fmean(errors), "sd": statistics.fmean(spreads)}


def _asleep(plant: TrialConsumer) -> TrialConsumer:
    """The plant whose handlers sleep until their share of the ceiling has passed.

    Work that is longer than its share needs no sleep. Here each message takes the mean of both,
    which leaves out that some take longer, in favour of the sleep.
    """
    phases = [
        replace(phase, work=mean_at_least(plant, phase.work, phase.handlers / phase.goal))
        for phase in plant.phases
    ]
    return replace(plant, phases=tuple(phases), distribution="deterministic", cv=0.0)


def mean_at_least(plant: TrialConsumer, work: float, least: float) -> float:
    """The mean of ``max(X, least)`` for the plant's distribution of work ``X`` with this mean."""
    if plant.distribution == "exponential":
        return least + work * math.exp(-least / work)
    if plant.distribution == "lognormal":
        sd = math.sqrt(math.log1p(plant.cv**2))
        middle = (math.log(least / work) + sd**2 / 2) / sd
        normal = statistics.NormalDist()
        return least * normal.cdf(middle) + work * normal.cdf(sd - middle)
    return max(work, least)


def _at_most(
    phases: Sequence[tuple[Phase, Sequence[Sample]]], full: Sequence[float]
) -> dict[str, float]:
    over = [sample.rate / phase.goal - 1 for phase, samples in phases for sample in samples]
    over = over[1:]  # no law has decided the first sample
    losses = [
        lost(second_half(samples), min(rate, phase.goal))
        for (phase, samples), rate in zip(phases, full, strict=True)
    ]
    return {"over": 100 * max(0.0, *over), "lost": max(0.0, statistics.fmean(losses))}


def _least(
    phases: Sequence[tuple[Phase, Sequence[Sample]]], full: Sequence[float]
) -> dict[str, float]:
    settled = [second_half(samples) for _, samples in phases]
    return {
        "lost": statistics.fmean(
            lost(samples, rate) for samples, rate in zip(settled, full, strict=True)
        ),
        "buffered": statistics.fmean(map(buffered, settled)),
    }


def lost(samples: Sequence[Sample], full: float) -> float:
    """Percent of the throughput ``full`` that these samples fell short of."""
    return 100 * (1 - statistics.fmean(sample.rate for sample in samples) / full)


def buffered(samples: Sequence[Sample]) -> float:
    """Mean number of messages that wait in the client (Little's law)."""
    return statistics.fmean(sample.rate * sample.buffer_time for sample in samples)


def _buffer_time(
    phases: Sequence[tuple[Phase, Sequence[Sample]]], full: Sequence[float]
) -> dict[str, float]:
    errors, losses = [], []
    for (phase, samples), rate in zip(phases, full, strict=True):
        settled = second_half(samples)
        errors += [100 * abs(sample.buffer_time / phase.goal - 1) for sample in settled]
        losses.append(lost(settled, rate))
    return {"error": statistics.fmean(errors), "lost": statistics.fmean(losses)}
