"""Models that follow their consumers: a Structured Streaming job over a folder of traces.

A query lists the folder (:mod:`~identification.continuous.listing`) and hands every batch of
new or changed files to one function. Rows not counted before
(:mod:`~identification.continuous.seen`) are added to the statistics of their groups
(:mod:`~identification.continuous.absorbing`, :mod:`~identification.continuous.running_statistics`);
a model that differs by more than its uncertainty is written to its file
(:mod:`~identification.continuous.model_folder`). What is known after a batch is one file, replaced
as a whole: a process that dies leaves the batch done or not begun.

    from identification.continuous import Options, follow
    from identification.session import session

    with session() as spark:
        follow(spark, "traces/", "models/", Options(half_life=600.0))
"""

from identification.continuous.job import Progress, follow
from identification.continuous.model_folder import NewModel
from identification.continuous.running_statistics import Options, RunningStatistics

__all__ = ["NewModel", "Options", "Progress", "RunningStatistics", "follow"]
