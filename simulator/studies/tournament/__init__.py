"""A tournament of laws for goals: ours and those of other projects, on the same plants."""

from simulator.studies.tournament.entries import TABLES, Entry
from simulator.studies.tournament.plants import Phase, TrialConsumer, drawn, drive
from simulator.studies.tournament.trials import METRICS, Trial, cost, run_trial

__all__ = [
    "METRICS",
    "TABLES",
    "Entry",
    "Phase",
    "Trial",
    "TrialConsumer",
    "cost",
    "drawn",
    "drive",
    "run_trial",
]
