"""One point of a search: a candidate in a trial with a seed, and its score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from controlmq.checks import above_zero
from controlmq.controllers import build
from controlmq.controllers.controller_file import Tuning
from controlmq.errors import InputError
from controlmq.loop import Loop, Step
from controlmq.performance import FEWEST_SAMPLES, Score, score
from simulator.plant import SimulatedConsumer
from simulator.scenario.scenario import Scenario


@dataclass(frozen=True)
class Trial:
    """The test that every candidate takes: a scenario, held at one goal after another.

    ``duration`` is in simulated seconds; each of the ``goals`` (messages/second) gets the same
    share of it. The disturbances are the changes in the scenario's schedules. If the scenario has
    several consumers, ``consumer`` names the one to drive.
    """

    scenario: Scenario
    goals: Sequence[float]
    duration: float
    consumer: str | None = None

    def __post_init__(self) -> None:
        if not self.goals:
            raise InputError("a trial needs a goal, in messages/second.")
        for goal in self.goals:
            above_zero("goal", goal)
        above_zero("duration", self.duration)

    def samples(self, interval: float) -> int:
        """The number of samples of this interval in the trial."""
        count = round(self.duration / interval)
        if count < FEWEST_SAMPLES * len(self.goals):
            raise InputError(
                f"{self.duration:g} seconds are {count} samples of {interval:g} s; a trial needs "
                f"at least {FEWEST_SAMPLES} for every goal, give a longer duration."
            )
        return count

    @property
    def disturbances(self) -> list[float]:
        """When the scenario changes the work or the load, in seconds."""
        schedules = [group.schedule for group in self.scenario.publishers]
        schedules += [consumer.work_schedule for consumer in self.scenario.consumers]
        times = {change.at for schedule in schedules for change in schedule}
        return sorted(time for time in times if time < self.duration)


@dataclass(frozen=True)
class Point:
    """One closed loop to simulate."""

    tuning: Tuning
    trial: Trial
    seed: int


def run_point(point: Point) -> Score:
    """The score of the simulated loop."""
    return score(list(steps(point)), point.trial.disturbances)


def steps(point: Point) -> Iterator[Step]:
    """The loop's steps; the next goal follows when the share of the last one has passed."""
    trial, interval = point.trial, point.tuning.model.interval
    scenario = replace(trial.scenario, sample_interval=interval)
    plant = SimulatedConsumer(scenario, seed=point.seed, consumer=trial.consumer)
    loop = Loop(plant, build(point.tuning), trial.goals[0])
    count = trial.samples(interval)
    for k in range(count):
        loop.goal = trial.goals[k * len(trial.goals) // count]
        yield loop.step()
