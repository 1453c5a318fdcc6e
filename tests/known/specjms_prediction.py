"""Completion times of SPECjms2007 predicted for a higher BASE from those measured at a lower one.

The service demands behind the measurements of Sachs were never published. Two ways without them:

**Growth.** The network is known. What a hop takes beyond it is C / (1 - load), as a wait in heavy
traffic grows. C is no service time: it has the variability of arrivals and service in it, and
comes from the lower BASE of the scenario that is predicted. The load of each delivery group grows
in proportion to BASE. As C is unknown, a time at one BASE does not say what the load was; it is
what the *other* scenarios show between their two values of BASE, and assumed to be the same at the
higher BASE of each. Nothing measured at the higher BASE of a scenario is used to predict it.
``assumed_load`` says what follows from the lower BASE alone when one load is assumed for all.

**Resources.** Network, CPU and disk in tandem, with demands that are fitted to the times at the
lower BASE of all scenarios: see ``specjms_tandem``.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import Any

from simulator.studies.specjms.message_types import BY_NAME, GROUPS
from tests.known import specjms_tandem
from tests.known.sachs_measured import CASES, PATHS, Case, errors, network

ASSUMED = (0.5, 0.6, 0.65, 0.7, 0.8)


def groups_of(interaction: int) -> list[str]:
    """The delivery group of each hop on the path of an interaction."""
    return [BY_NAME[name].group for name in PATHS[interaction]]


def hop_times(times: dict[int, float]) -> dict[str, list[float]]:
    """Those of one hop, by group, of the interactions that stay within one."""
    return {
        group: [
            time / len(PATHS[number])
            for number, time in times.items()
            if set(groups_of(number)) == {group}
        ]
        for group in GROUPS
    }


def at_broker(case: Case, base: int, measured: dict[int, float]) -> dict[int, float]:
    """Milliseconds beyond those on the network."""
    return {number: time - network(case, base, number) for number, time in measured.items()}


def loads_of(case: Case) -> dict[str, list[float]]:
    """How busy each group was at the higher BASE, by every interaction that stays within it."""
    before = hop_times(at_broker(case, case.low, case.measured_low))
    after = hop_times(at_broker(case, case.high, case.measured_high))
    ratio = case.low / case.high
    return {
        # Hops grow by (1 - load * ratio) / (1 - load); this is solved for the load.
        group: [(late - early) / (late - early * ratio) for early, late in pairs]
        for group in GROUPS
        if (pairs := list(zip(before[group], after[group], strict=True)))
    }


def others_loads(case: Case) -> dict[str, float]:
    """The mean load of each group in all scenarios but this one."""
    shown: dict[str, list[float]] = {}
    for other in CASES:
        if other is not case:
            for group, loads in loads_of(other).items():
                shown.setdefault(group, []).extend(loads)
    return {group: statistics.fmean(loads) for group, loads in shown.items()}


def predicted(case: Case, loads: dict[str, float]) -> dict[int, float]:
    """Milliseconds at the higher BASE, from those measured at the lower one and the loads."""
    growth = {
        group: (1 - load * case.low / case.high) / (1 - load) for group, load in loads.items()
    }
    times = at_broker(case, case.low, case.measured_low)
    hops = hop_times(times)
    values = {}
    for number, time in times.items():
        # A path through several groups is shared out as the others' hops say.
        groups = groups_of(number)
        weights = [statistics.fmean(hops[group]) for group in groups]
        grown = statistics.fmean([growth[group] for group in groups], weights)
        values[number] = time * grown + network(case, case.high, number)
    return values


def assumed(load: float) -> list[dict[int, float]]:
    """The predictions if all groups of all scenarios had this load."""
    return [predicted(case, dict.fromkeys(GROUPS, load)) for case in CASES]


def run() -> dict[str, Any]:
    found = [predicted(case, others_loads(case)) for case in CASES]
    demands = specjms_tandem.fitted()
    tandem = [specjms_tandem.times(demands, case, case.high) for case in CASES]
    ours, author = errors(found), errors(case.author for case in CASES)
    return {
        "table_ms": [
            {
                "scenario": f"{case.name}, BASE {case.low} to {case.high}",
                "interaction": number,
                "measured_low": case.measured_low[number],
                "measured_high": time,
                "ours": values[number],
                "resources": resources[number],
                "author": case.author[number],
            }
            for case, values, resources in zip(CASES, found, tandem, strict=True)
            for number, time in case.measured_high.items()
        ],
        "loads": {
            case.name: {"used": others_loads(case), "shown": loads_of(case)} for case in CASES
        },
        "median_error_percent": statistics.median(ours),
        "author_median_error_percent": statistics.median(author),
        "mean_error_percent": statistics.fmean(ours),
        "author_mean_error_percent": statistics.fmean(author),
        "by_scenario": {
            case.name: {
                "median_error_percent": statistics.median(errors([values], [case])),
                "author_median_error_percent": statistics.median(errors([case.author], [case])),
            }
            for case, values in zip(CASES, found, strict=True)
        },
        "resources": {
            "median_error_percent": statistics.median(errors(tandem)),
            "demands_ms": asdict(demands),
            "loads": {
                case.name: {
                    base: asdict(specjms_tandem.loads(demands, case, base))
                    for base in (case.low, case.high)
                }
                for case in CASES
            },
        },
        "assumed_load": {
            f"{load:.2f}": statistics.median(errors(assumed(load))) for load in ASSUMED
        },
        "met": statistics.median(ours) <= statistics.median(author),
    }
