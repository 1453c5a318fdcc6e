"""At most a rate, in deterministic worlds: no stretch above its bound, little lost, few waiting.

Parts: ``bound`` (worlds in which users, networks and handlers do what they may), ``reached`` (a
queue that never runs dry, with the law that finds the prefetch).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks.measure import chosen, spread
from tests.worlds.bounded import bounded_world, drawn_demand
from tests.worlds.broker import Violation

FIRST_SEED, SEEDS = 20_000, 10_000
"""Beyond the seeds of the tests."""

DEMANDS = 400
SETTLING_SECONDS, MEASURED_SECONDS = 25.0, 25.0
LINE_EVERY_SEEDS = 1000


def bound() -> dict[str, Any]:
    """Worlds that raise where a stretch has more hand-overs than its bound and the burst."""
    events, violations = 0, []
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        world = bounded_world(seed)
        try:
            world.run()
        except Violation as violation:
            violations.append(str(violation))
        events += world.events
        if (seed + 1) % LINE_EVERY_SEEDS == 0:
            print(f"  up to seed {seed}: {len(violations)} violations", file=sys.stderr)
    return {
        "first_seed": FIRST_SEED,
        "seeds": SEEDS,
        "events": events,
        "violations": len(violations),
        "first_violations": violations[:10],
        "allowed": "none",
    }


def reached() -> dict[str, Any]:
    """What is handed over of the smaller of ceiling and capacity, and how many messages wait.

    Capacity is what the same handlers do behind the same bucket if a message always waits before
    their door. ``share_of_means`` has the smaller of the ceiling and of handlers per mean work in
    its place, which random work misses by chance, and a small burst by the tokens that it loses.
    """
    shares, of_means, waiting = [], [], []
    for seed in range(DEMANDS):
        demand = drawn_demand(seed)
        rate, waited = demand.run(MEASURED_SECONDS, SETTLING_SECONDS)
        shares.append(demand.share_of_attainable())
        of_means.append(rate / min(demand.rate, demand.capacity))
        waiting.append(waited)
        said = f"{rate:.1f}/s, {shares[-1]:.4f} of what can be, waiting {waited:.2f}"
        print(f"  {seed}: at most {demand.rate:.1f}/s: {said}", file=sys.stderr)
    return {
        "share": spread(shares),
        "share_of_means": spread(of_means),
        "waiting": spread(waiting),
        "allowed": "share at least 0.99, on average at most 2 waiting",
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"bound": bound, "reached": reached}


def run(*parts: str) -> dict[str, Any]:
    return {name: part() for name, part in chosen(PARTS, parts).items()}
