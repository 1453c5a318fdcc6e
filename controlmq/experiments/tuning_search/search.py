"""A search from its model to the controller it chooses: simulated loops, run on Spark.

The ranking is in :mod:`simulator.studies.tuning_candidates.ranking`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq import published
from controlmq.controllers import OpenLoop, random_levels
from controlmq.controllers.controller_file import Tuning
from controlmq.controllers.resolve import default_tuning
from controlmq.errors import ControlmqError, InputError
from controlmq.experiments.demo.experiment import LINEAR_SHARE_OF_KNEE
from controlmq.loop import Loop, Transition
from controlmq.model import ArxModel
from controlmq.performance import Score
from controlmq.student import Interval
from controlmq.traces import TraceWriter
from simulator import Scenario, SimulatedConsumer
from simulator.studies.tuning_candidates import (
    Candidate,
    Point,
    Ranked,
    Space,
    Trial,
    rank,
    run_point,
)
from simulator.studies.tuning_candidates.ranking import Scores, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str, int, int], None]

EXPERIMENT_SAMPLES = 240
"""Levels in the experiment that a model is identified from, as many as in the demo."""

LOAD_FACTORS = (1.0, 4.0, 16.0, 64.0)
"""Factors on the scenario's publish rate, tried in turn. A search may run at a rate just above its
goal, but the experiment goes up to the knee and needs more messages than the goal takes."""

MOST_STARVED_SHARE = 0.1
"""Share of the experiment's rows that may lack messages."""


@dataclass(frozen=True)
class Search:
    """What is searched, in which trials, and by what it is judged."""

    trials: Sequence[Trial]
    unseen: Sequence[Trial]
    seeds: Sequence[int]
    by: str
    kinds: Sequence[str]
    placements: Mapping[str, Any]
    intervals: Sequence[float]
    draws: int | None
    model: ArxModel | None
    levels: tuple[float, float]

    def __post_init__(self) -> None:
        if len(self.seeds) < 2:
            raise InputError("1 seed has no spread to compare candidates by; give at least 2.")
        names = [trial.scenario.name for trial in (*self.trials, *self.unseen)]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two scenarios are called {name!r}; give each a name of its own.")
        intervals = [self.model.interval] if self.model else self.intervals
        for trial in (*self.trials, *self.unseen):
            for interval in intervals:
                replace(trial.scenario, sample_interval=interval)
                trial.samples(interval)

    def candidates(self, models: Mapping[float, ArxModel]) -> list[Candidate]:
        """Every controller to try."""
        space = Space(models, self.kinds, **self.placements)
        if self.draws is None:
            return space.grid()
        return space.at_random(self.draws, self.seeds[0])


@dataclass(frozen=True)
class Unseen:
    """The best controller and the published PI in trials that the search did not see."""

    best: Scores
    published: Scores
    published_tuning: Tuning
    difference: Mapping[str, Interval]


@dataclass(frozen=True)
class Outcome:
    """Everything a search found out."""

    search: Search
    models: Mapping[float, ArxModel]
    scores: Mapping[int, Scores]
    ranked: Sequence[Ranked]
    unseen: Unseen | None

    @property
    def best(self) -> Ranked:
        """The candidate that is chosen: the first of the ranking."""
        return self.ranked[0]


def run_search(spark: SparkSession, search: Search, scratch: Path, progress: Progress) -> Outcome:
    """Identify the models, run and rank all candidates, judge the best in unseen trials."""
    models = _models(spark, search, scratch, progress)
    _check_goals(search, models)
    candidates = search.candidates(models)
    tunings = {candidate.number: candidate.tuning for candidate in candidates}
    scores = _scores(spark, tunings, search.trials, search.seeds, "closing loops", progress)
    outcome = Outcome(search, models, scores, rank(scores, candidates, search.by), unseen=None)
    if not search.unseen:
        return outcome
    unseen = _judge_unseen(spark, search, outcome.best.candidate.tuning, progress)
    return replace(outcome, unseen=unseen)


def _models(
    spark: SparkSession, search: Search, scratch: Path, progress: Progress
) -> dict[float, ArxModel]:
    """The model for each interval: the one given, or identified from the first scenario."""
    if search.model is not None:
        return {search.model.interval: search.model}
    folder = scratch / "experiment"
    with TraceWriter(folder) as writer:
        for done, interval in enumerate(search.intervals):
            progress("identifying a model", done, len(search.intervals))
            for row in _experiment(search, interval):
                writer(row)
    return {interval: _identified(spark, folder, search, interval) for interval in search.intervals}


def _experiment(search: Search, interval: float) -> list[Transition]:
    """Levels in random order on the first scenario, its publishers as busy as that takes."""
    trial = search.trials[0]
    scenario = replace(_undisturbed(trial.scenario), sample_interval=interval)
    levels = random_levels(*search.levels, EXPERIMENT_SAMPLES)
    rows: list[Transition] = []
    for factor in LOAD_FACTORS:
        plant = SimulatedConsumer(scenario, seed=search.seeds[0], consumer=trial.consumer)
        plant.set_publish_rate(factor)
        rows = []
        loop = Loop(plant, OpenLoop(levels), 1.0, record=rows.append, group=repr(interval))
        list(loop.run(len(levels) + 1))
        if sum(not row.window_limited for row in rows) <= MOST_STARVED_SHARE * len(rows):
            break
    return rows


def _identified(spark: SparkSession, folder: Path, search: Search, interval: float) -> ArxModel:
    """The model below the knee: found with all levels, fitted where the curve is straight."""
    from identification import identify

    group = repr(interval)
    linear_range: tuple[float, float] | None = None
    for _ in range(2):
        (fit,) = (f for f in identify(spark, folder, linear_range=linear_range) if f.group == group)
        if linear_range is not None or fit.knee is None:
            break
        linear_range = (search.levels[0], LINEAR_SHARE_OF_KNEE * fit.knee.prefetch)
    if fit.model is None:
        raise ControlmqError(
            f"no model for scenario {search.trials[0].scenario.name} at {interval:g} s: "
            f"{fit.reason}"
        )
    return replace(fit.model, interval=interval)


def _undisturbed(scenario: Scenario) -> Scenario:
    """The scenario without what it schedules: a model is of one workload."""
    return replace(
        scenario,
        publishers=[replace(group, schedule=()) for group in scenario.publishers],
        consumers=[replace(consumer, work_schedule=()) for consumer in scenario.consumers],
    )


def _check_goals(search: Search, models: Mapping[float, ArxModel]) -> None:
    goal = max(search.trials[0].goals)
    for model in models.values():
        reach = model.rate_at(model.linear_range[1])
        if goal > reach:
            raise InputError(
                f"the goal {goal:g} is beyond the {reach:.4g} msg/s that the model reaches at "
                f"prefetch {model.linear_range[1]:.3g}; lower it, or give --levels that go further."
            )


def _scores(
    spark: SparkSession,
    tunings: Mapping[int, Tuning],
    trials: Sequence[Trial],
    seeds: Sequence[int],
    doing: str,
    progress: Progress,
) -> dict[int, dict[int, list[Score]]]:
    """Every tuning in every trial with every seed: ``{number: {seed: [score per trial]}}``."""
    from identification.parallel import over

    keys = [
        (number, seed, index)
        for number in tunings
        for seed in seeds
        for index in range(len(trials))
    ]
    points = [Point(tunings[number], trials[index], seed) for number, seed, index in keys]
    found: dict[tuple[int, int, int], Score] = {}
    progress(doing, 0, len(points))
    with closing(over(spark, run_point, points)) as results:
        for position, score in results:
            found[keys[position]] = score
            progress(doing, len(found), len(points))
    return {
        number: {
            seed: [found[number, seed, index] for index in range(len(trials))] for seed in seeds
        }
        for number in tunings
    }


def published_pi(interval: float) -> Tuning:
    """The published PI, its gains from the published model and poles, at this interval."""
    model = ArxModel(published.A, published.B, 0.0, interval, published.PREFETCH_RANGE)
    return default_tuning("pi", model)


def _judge_unseen(spark: SparkSession, search: Search, best: Tuning, progress: Progress) -> Unseen:
    """Other scenarios and other seeds than those of the search."""
    peer = published_pi(best.model.interval)
    seeds = [seed + len(search.seeds) for seed in search.seeds]
    scores = _scores(
        spark, {0: best, 1: peer}, search.unseen, seeds, "judging on the unseen", progress
    )
    return Unseen(scores[0], scores[1], peer, compare(scores[0], scores[1]))
