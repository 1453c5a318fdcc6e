"""A gain schedule from a trace: a model and a controller for every workload in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controlmq.controllers.controller_file import Tuning
from controlmq.controllers.gain_schedule import Profile, Schedule
from controlmq.controllers.placement import place
from controlmq.design import wanted_polynomial
from controlmq.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from identification import Fit

SERVICE_TIME = "service_time_band"
"""The column that separates workloads; 0 where the service time is not known."""


def fit_workloads(spark: SparkSession, trace: str) -> list[Fit]:
    """A fit for every band of service time in the trace."""
    from identification import identify

    return identify(spark, trace, by=("group", SERVICE_TIME))


def schedule_of(
    fits: Sequence[Fit],
    kind: str = "pi",
    *,
    settling_samples: float | None = None,
    overshoot: float | None = None,
    smoothing: float = 0.0,
) -> Schedule:
    """A profile for every fit with a model; the others are left out."""
    consumers = sorted({fit.key["group"] for fit in fits})
    if len(consumers) > 1:
        raise InputError(
            f"the trace holds {len(consumers)} consumers ({', '.join(consumers[:3])}, ...) and a "
            "schedule is for one; give the trace of one."
        )
    wanted = wanted_polynomial(kind, None, None, settling_samples, overshoot)
    profiles = [
        Profile(
            {"service_time": fit.key[SERVICE_TIME]},
            Tuning(kind, place(kind, fit.model, wanted), fit.model),
        )
        for fit in fits
        if fit.model is not None and fit.key[SERVICE_TIME] > 0
    ]
    if not profiles:
        raise InputError(f"no workload in the trace gave a model: {fits[0].reason}")
    return Schedule(profiles, smoothing=smoothing)
