"""Tuning in simulation: which candidates there are, how one does, which one to take.

Everything here is a plain value or a plain function of one: where the loops run, and how many
side by side, is up to the caller.
"""

from simulator.tuning.point import Point, Trial, run_point
from simulator.tuning.ranking import METRICS, Ranked, front, rank
from simulator.tuning.space import Candidate, Space

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
