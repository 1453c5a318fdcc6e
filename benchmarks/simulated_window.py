"""The core in a deterministic world beside the compiled simulator: rates and instants, all 1,920.

Prefetch 0.5 to 40 in steps of 0.5, work 0.5, 1 and 3 ms, round trips of 0.3 and 11 ms, 1 and 4
handlers, under a constant controller (acks spread) and without one.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import asdict, replace
from typing import Any

from tests.worlds.steady import Plant, grid, instants_differ_at, rates

ALLOWED_OFF = 0.01


def judge(plant: Plant) -> tuple[Plant, float, bool]:
    """How far the two rates are apart, and whether slots open at the same instants."""
    around_core, simulated = rates(replace(plant, interval=200 / plant.expected_rate))
    same = instants_differ_at(replace(plant, interval=0.1037), seconds=0.5) is None
    return plant, abs(around_core / simulated - 1), same


def run() -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        judged = pool.map(judge, list(grid()), chunksize=20)
    worst = max(judged, key=lambda each: each[1])
    apart = [asdict(plant) for plant, _, same in judged if not same]
    return {
        "plants": len(judged),
        "worst_rate_off": worst[1],
        "worst_plant": asdict(worst[0]),
        "allowed": ALLOWED_OFF,
        "plants_with_other_instants": apart,
        "met": worst[1] <= ALLOWED_OFF and not apart,
    }
