"""The progress of a run: messages counted so far, and messages expected by then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.simulation import Simulation
from simulator.studies.specjms.build import Workload
from simulator.studies.specjms.flow import base_type
from simulator.studies.specjms.message_types import of_interaction
from simulator.studies.specjms.phased_run import by_base_type, first_types


@dataclass(frozen=True)
class Progress:
    """Messages sent and received by type in the first ``time`` seconds of a run.

    Unlike in a :class:`Run`, warm-up and drain are included.
    """

    workload: Workload
    time: float
    sent: Mapping[str, int]
    received: Mapping[str, int]

    def counted(self, interaction: int) -> tuple[int, int, int]:
        """Interactions started, and their messages sent and received."""
        first = first_types(self.workload)[self.workload.drivers[interaction][0]]
        return (
            self.sent[base_type(first)],
            of_interaction(self.sent, interaction),
            of_interaction(self.received, interaction),
        )

    def expected(self, interaction: int) -> tuple[float, float, float]:
        """The same by arithmetic, as if all messages of an interaction came when it starts."""
        seconds = self.workload.phases.at_full_rate(self.time)
        return self.workload.expected_counts(interaction, seconds)


def simulated_progress(workload: Workload, simulation: Simulation) -> Progress:
    """The progress of a simulation of the workload that began empty."""
    state, types = simulation.state, simulation.types
    counts = state.latencies["count"][: state.pairs.size]
    received = np.bincount(state.pairs, counts, minlength=len(types))
    return Progress(
        workload,
        simulation.now,
        by_base_type(simulation.sent),
        by_base_type({(name, ""): int(count) for name, count in zip(types, received, strict=True)}),
    )


def noted_progress(
    workload: Workload,
    time: float,
    sent: Mapping[tuple[str, str], int],
    received: Mapping[tuple[str, str], int],
) -> Progress:
    """The progress from client counts: sent by type and key, received by queue and type."""
    return Progress(
        workload,
        time,
        by_base_type(sent),
        by_base_type({(type_, queue): count for (queue, type_), count in received.items()}),
    )
