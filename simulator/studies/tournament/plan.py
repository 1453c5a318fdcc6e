"""What is played: which laws, on which plants, with which seeds; and the tables that come of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlmq.student import Interval, mean_interval
from simulator.studies.tournament.entries import TABLES, Entry
from simulator.studies.tournament.plants import (
    TrialConsumer,
    drawn,
    named_ceilings,
    named_rates,
    named_times,
    named_without_goals,
    with_ceilings,
    with_rates,
    with_times,
)
from simulator.studies.tournament.trials import METRICS, Trial, cost

TUNING_DRAW = 1
"""Seed of the plants that light tuning sees."""

HELD_OUT_DRAW = 31415
"""Seed of the plants to judge on. No law was tried on them before docs/tournament.md was made.

After a change of a law they are new to it no more: take another seed, and make the page again.
"""

NAMED: dict[str, Callable[[], list[TrialConsumer]]] = {
    "rate": named_rates,
    "at_most": named_ceilings,
    "buffer_time": named_times,
    "least": named_without_goals,
}
"""Consumers with a name in each table, to judge on as well."""


Chosen = tuple[tuple[str, float], ...]
"""What light tuning chose, as a key."""


@dataclass(frozen=True)
class Plan:
    """``tuning`` plants to choose variants on and ``held_out`` ones to judge on, with ``seeds``.

    Each phase of a drawn plant handles about this number of ``messages``. ``draw`` is the seed of
    the plants to judge on.
    """

    tuning: int = 6
    held_out: int = 12
    seeds: int = 2
    messages: float = 2e4
    draw: int = HELD_OUT_DRAW

    def plants(self, table: str, number: int, seed: int) -> list[TrialConsumer]:
        """Drawn plants with the goal of a table."""
        plants = drawn(number, seed, self.messages)
        if table == "rate":
            return with_rates(plants)
        if table == "at_most":
            return with_ceilings(plants)
        return with_times(plants) if table == "buffer_time" else plants

    def tuned_with(self, entry: Entry) -> int:
        """The number of trials by which a peer is tuned: 0 where there is nothing to choose."""
        return len(entry.variants) * self.tuning if len(entry.variants) > 1 else 0

    def tuning_trials(self, table: str) -> Iterator[Trial]:
        """Every variant of every law that has some."""
        for entry in TABLES[table]:
            if self.tuned_with(entry):
                for chosen in entry.variants:
                    for plant in self.plants(table, self.tuning, TUNING_DRAW):
                        yield Trial(table, entry.name, plant, 1, chosen)

    def trials(self, table: str, best: Mapping[str, Mapping[str, float]]) -> Iterator[Trial]:
        """Every law on plants that tuning has not seen, as it comes and as tuning made it."""
        plants = [*self.plants(table, self.held_out, self.draw), *NAMED[table]()]
        for entry in TABLES[table]:
            for chosen in _as_it_comes_and(best.get(entry.name, {})):
                for plant in plants:
                    for seed in range(1, self.seeds + 1):
                        yield Trial(table, entry.name, plant, seed, chosen)


def _as_it_comes_and(best: Mapping[str, float]) -> list[Mapping[str, float]]:
    return [{}, best] if best else [{}]


def best_variants(
    trials: Sequence[Trial], found: Sequence[Mapping[str, float]]
) -> dict[str, Mapping[str, float]]:
    """The variant of each law with the lowest mean cost."""
    costs: dict[str, dict[Chosen, list[float]]] = {}
    for trial, metrics in zip(trials, found, strict=True):
        variants = costs.setdefault(trial.entry, {})
        key: Chosen = tuple(trial.chosen.items())
        variants.setdefault(key, []).append(cost(trial.table, metrics))
    return {
        name: dict(min(variants.items(), key=lambda item: statistics.fmean(item[1]))[0])
        for name, variants in costs.items()
    }


@dataclass(frozen=True)
class Row:
    """One law in its table: the mean of each metric and of the cost over plants.

    ``by_plant`` has the metrics on each plant, each the mean of its seeds. Two seeds of a plant
    tell little more than one, so the intervals are those of the plants' means.
    """

    entry: Entry
    chosen: Mapping[str, float]
    means: Mapping[str, Interval]
    cost: Interval
    by_plant: Mapping[str, Mapping[str, float]]


def table_of(
    table: str, trials: Sequence[Trial], found: Sequence[Mapping[str, float]]
) -> list[Row]:
    """The rows of a table, the lowest cost first."""
    seeds: dict[tuple[str, Chosen], dict[str, list[Mapping[str, float]]]] = {}
    for trial, metrics in zip(trials, found, strict=True):
        plants = seeds.setdefault((trial.entry, tuple(trial.chosen.items())), {})
        plants.setdefault(trial.plant.name, []).append(metrics)
    entries = {entry.name: entry for entry in TABLES[table]}
    rows = []
    for (name, chosen), plants in seeds.items():
        by_plant = {
            plant: {
                metric: statistics.fmean(each[metric] for each in runs) for metric in METRICS[table]
            }
            for plant, runs in plants.items()
        }
        rows.append(
            Row(
                entries[name],
                dict(chosen),
                {
                    metric: mean_interval([means[metric] for means in by_plant.values()])
                    for metric in METRICS[table]
                },
                mean_interval([cost(table, means) for means in by_plant.values()]),
                by_plant,
            )
        )
    return sorted(rows, key=lambda row: row.cost.mean)
