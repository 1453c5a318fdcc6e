"""A broker as network, CPU and disk in tandem, with demands fitted to completion times.

A hop passes

- the network in each direction, first-come-first-served, which is known;
- the CPU, eight cores that messages share: ``event`` for each message and ``notification`` for each
  copy, of which the one in the middle is looked at; stretched as by the line of an M/M/8;
- the disk, if the message is persistent: ``write``, first-come-first-served, an M/M/1;
- and everything else, ``outside``, whatever the load.

The demands are those with the smallest sum of squared relative errors at the lower BASE of all
scenarios, among those with which no published BASE is an overload.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import cache
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from simulator.studies.specjms import TYPES, expected
from simulator.studies.specjms.message_types import BY_NAME, GROUPS
from tests.known.sachs_measured import CASES, PATHS, Case, network, topology

CORES = 8

MOST_LOAD = 0.95
"""Of CPU and disk, at every BASE that was measured: all of them were sustained."""

OVERLOAD = 50.0
"""What a load beyond that counts, against relative errors."""

STARTS = (0.1, 0.3, 1.0)
"""Milliseconds of an event that a fit begins with; the best fit counts."""


@dataclass(frozen=True)
class Demands:
    """Milliseconds."""

    event: float
    notification: float
    write: float
    outside: float


@dataclass(frozen=True)
class Loads:
    """Shares of the time that they are busy."""

    cpu: float
    disk: float


def loads(demands: Demands, case: Case, base: int) -> Loads:
    """How busy a scenario keeps the broker at a BASE."""
    rates = expected(topology(case, base))
    events = sum(rates.sent.values())
    notifications = sum(rates.received.values())
    writes = sum(rates.sent[each.name] for each in TYPES if GROUPS[each.group].persistent)
    cpu = (events * demands.event + notifications * demands.notification) / 1000 / CORES
    return Loads(cpu, writes * demands.write / 1000)


def stretched(load: float) -> float:
    """By how much a CPU's line makes its service longer: Erlang's C formula."""
    term = total = 1.0
    for busy in range(1, CORES):
        term *= load * CORES / busy
        total += term
    all_busy = term * load / (1 - load)
    return 1 + all_busy / (total + all_busy) / (CORES * (1 - load))


def times(demands: Demands, case: Case, base: int) -> dict[int, float]:
    """Milliseconds of each interaction of a scenario at a BASE."""
    busy = loads(demands, case, base)
    longer = stretched(min(busy.cpu, MOST_LOAD))
    write = demands.write / (1 - min(busy.disk, MOST_LOAD))
    rates = expected(topology(case, base))
    found = {}
    for number in case.measured_low:
        found[number] = network(case, base, number)
        for name in PATHS[number]:
            copies = rates.received[name] / rates.sent[name]
            cpu = demands.event + demands.notification * (copies + 1) / 2
            found[number] += demands.outside + longer * cpu
            if GROUPS[BY_NAME[name].group].persistent:
                found[number] += write
    return found


@cache
def fitted() -> Demands:
    """The demands that fit the lower BASE best."""
    from scipy.optimize import least_squares

    def residuals(logarithms: NDArray[np.float64], /) -> list[float]:
        demands = Demands(*map(exp, logarithms))
        values = []
        for case in CASES:
            found = times(demands, case, case.low)
            values += [log(found[number] / time) for number, time in case.measured_low.items()]
            for base in (case.low, case.high):
                for load in astuple(loads(demands, case, base)):
                    values.append(OVERLOAD * max(load - MOST_LOAD, 0.0))
        return values

    fits = [least_squares(residuals, [log(start), -4.0, -2.0, -0.5]) for start in STARTS]
    return Demands(*map(exp, min(fits, key=lambda fit: float(fit.cost)).x))
