"""A search for a controller, run on Spark: its models, its outcome, files, picture and report.

Candidates, the trial of one of them, scores and ranking are in
:mod:`simulator.studies.tuning_candidates`, which needs no Spark.
"""
