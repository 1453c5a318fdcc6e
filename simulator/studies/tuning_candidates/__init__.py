"""What a search for a controller is made of: the candidates, their trials, scores and ranking.

Everything here is a plain value or a function of plain values: the caller decides where the loops
run, and how many at the same time. What runs a whole search on Spark and chooses, and its files,
picture and report, are in :mod:`controlmq.experiments.tuning_search`.
"""

from simulator.studies.tuning_candidates.point import Point, Trial, run_point
from simulator.studies.tuning_candidates.ranking import METRICS, Ranked, front, rank
from simulator.studies.tuning_candidates.space import Candidate, Space

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
