"""A simulated run with the kilobytes that went through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from simulator import Simulation, Size
from simulator.studies.specjms import TYPES, MessageType, Run, Workload, run
from simulator.studies.specjms.flow import base_type
from simulator.studies.specjms.message_types import BYTES_PER_KILOBYTE


@dataclass(frozen=True)
class Weighed:
    """A run, and the kilobytes of its measurement by type.

    Those received are those sent, once for every queue they went to: all of them arrive.
    """

    run: Run
    sent: Mapping[str, float]
    received: Mapping[str, float]


def weighed(built: Workload, seed: int) -> Weighed:
    """Sizes are drawn in order, so that counts of each sender tell which of them were."""
    counts: dict[float, Any] = {}

    def note(simulation: Simulation) -> None:
        counts[simulation.now] = simulation.state.kinds["sent"].tolist()

    done = run(built, seed, watch=note)
    sent = dict.fromkeys((each.name for each in TYPES), 0.0)
    received = dict(sent)
    flows = built.scenario.message_paths()
    for kind, begin, end in zip(
        flows.kinds, counts[built.phases.warm_up], counts[built.phases.end], strict=True
    ):
        assert isinstance(kind.message.size, Size)
        assert kind.message.size.values is not None
        kilobytes = sum(islice(cycle(kind.message.size.values), begin, end)) / BYTES_PER_KILOBYTE
        name = base_type(flows.types[kind.type])
        sent[name] += kilobytes
        received[name] += kilobytes * len(kind.targets)
    return Weighed(done, sent, received)


def percent(
    amounts: Mapping[str, float], key_of: Callable[[MessageType], Any]
) -> tuple[float, ...]:
    """Shares of amounts by type, summed up by a key of the type, in the order of keys."""
    sums: dict[Any, float] = {}
    for each in TYPES:
        sums[key_of(each)] = sums.get(key_of(each), 0.0) + amounts[each.name]
    return tuple(100 * sums[key] / sum(sums.values()) for key in sorted(sums))
