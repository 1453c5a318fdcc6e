"""A controller for changing workloads: one law for every profile, blended by what is measured."""

from __future__ import annotations

from collections.abc import Sequence

from controlmq.controllers.gain_schedule import Schedule
from controlmq.controllers.limits import Limits
from controlmq.controllers.pid import PID
from controlmq.model import ArxModel
from controlmq.sample import Sample


class ScheduledController:
    """``u(k) = sum of w(i) u(i, k)``: every profile's law decides, the workload weighs them.

    The weights come from the schedule, at the service time (and what else distinguishes
    its profiles) of the sample just measured. Each law is a change of the prefetch in force,
    so what is blended are changes, which is the same as blending gains: however the weights
    jump, with the rate at its goal the prefetch stays where it is.

    ``laws`` are the controllers of the schedule's profiles, in their order, each with the
    limits of its own model: where slow work moves the knee, the limit moves along. Before
    anything has been handled there is nothing measured, and the first profile decides.
    """

    kind = "schedule"

    def __init__(self, schedule: Schedule, laws: Sequence[PID]) -> None:
        self.schedule = schedule
        self.laws = tuple(laws)
        self.weights = [1.0] + [0.0] * (len(self.laws) - 1)
        """The share of each profile in the last decision."""
        self._measured: dict[str, float] | None = None

    @property
    def models(self) -> tuple[ArxModel, ...]:
        """Those that the gains of the profiles were computed for."""
        return tuple(profile.tuning.model for profile in self.schedule.profiles)

    @property
    def limits(self) -> Limits:
        """What no profile goes beyond."""
        return Limits(
            min(law.limits.low for law in self.laws), max(law.limits.high for law in self.laws)
        )

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval."""
        self._measure(sample)
        # All of them, so that each remembers the last error whenever its turn comes.
        decisions = [law(sample, goal) for law in self.laws]
        return sum(
            weight * prefetch
            for weight, prefetch in zip(self.weights, decisions, strict=True)
            if weight > 0
        )

    def _measure(self, sample: Sample) -> None:
        if sample.handler_time <= 0:
            return  # nothing was handled: the workload is the last one known
        now = {"service_time": sample.handler_time, "arrival_rate": sample.rate}
        before = self._measured or now
        kept = self.schedule.smoothing
        self._measured = {
            quantity: kept * before[quantity] + (1 - kept) * now[quantity]
            for quantity in self.schedule.axes
        }
        self.weights = self.schedule.weights(self._measured)
