"""Tuning in simulation: which candidates there are, how one does, which one to take.

Everything here is a plain value or a plain function of one: where the loops run, and how many
side by side, is up to the caller.
"""

from simulator.studies.tuning_search.point import Point, Trial, run_point
from simulator.studies.tuning_search.ranking import METRICS, Ranked, front, rank
from simulator.studies.tuning_search.space import Candidate, Space

__all__ = [
    "METRICS",
    "Candidate",
    "Point",
    "Ranked",
    "Space",
    "Trial",
    "front",
    "rank",
    "run_point",
]
