"""At most a rate, in deterministic worlds: no stretch above its bound, little lost, few waiting.

Parts: ``bound`` (worlds in which users, networks and handlers do what they may), ``reached`` (a
queue that never runs dry, with the law that finds the prefetch).
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.measure import at_least, at_most, beside, chosen, spread, verdict
from tests.worlds.bounded import SteadyDemand, bounded_world, drawn_demand
from tests.worlds.broker import Violation

FIRST_SEED, SEEDS = 20_000, 10_000
"""Beyond the seeds of the tests."""

DEMANDS = 400
SETTLING_SECONDS, MEASURED_SECONDS = 25.0, 25.0
LINE_EVERY_SEEDS = 1000

LEAST_ATTAINED_SHARE = 0.99
"""Asked for, of the smaller of ceiling and capacity."""

BY_CHANCE = "because the random work that was drawn is longer than its mean"
BY_LOST_TOKENS = "because a handler works for longer than the burst lasts, and loses tokens"
BY_THE_LAW = "because a message was missing although the same handlers could do more"
REASONS = (BY_CHANCE, BY_LOST_TOKENS, BY_THE_LAW)
"""Why consumers are below it."""


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
        **verdict(
            at_most(
                f"ceiling: worlds of {SEEDS} with a stretch above its bound", len(violations), 0
            )
        ),
    }


def reached() -> dict[str, Any]:
    """What is handed over of the smaller of ceiling and capacity, and how many messages wait.

    Capacity is handlers per mean work. Random work misses it by chance, and a handler that works
    for longer than the burst lasts loses tokens, whatever the prefetch is. So this share is judged
    in the mean. Judged in every world is the share of what the same handlers, with the same work,
    would start behind the same bucket if a message always waited before their door.
    """
    shares, attainable, waiting = [], [], []
    below = dict.fromkeys(REASONS, 0)
    for seed in range(DEMANDS):
        demand = drawn_demand(seed)
        rate, waited = demand.run(MEASURED_SECONDS, SETTLING_SECONDS)
        shares.append(rate / min(demand.rate, demand.capacity))
        attainable.append(demand.share_of_attainable())
        waiting.append(waited)
        if shares[-1] < LEAST_ATTAINED_SHARE:
            below[_reason(demand, rate, attainable[-1])] += 1
        said = f"{rate:.1f}/s, {shares[-1]:.4f}, {attainable[-1]:.4f} of what can be"
        said += f", waiting {waited:.2f}"
        print(f"  {seed}: at most {demand.rate:.1f}/s: {said}", file=sys.stderr)
    percent, asked = "% of the smaller of ceiling and capacity", 100 * LEAST_ATTAINED_SHARE
    return {
        "share": spread(shares),
        "share_of_attainable": spread(attainable),
        "waiting": spread(waiting),
        "below": below,
        **verdict(
            at_least(
                f"ceiling: {percent}, mean of {DEMANDS} consumers",
                100 * statistics.fmean(shares),
                asked,
            ),
            beside("the same, worst of them", 100 * min(shares)),
            beside(
                f"ceiling: of {DEMANDS} consumers, below {asked:g} % of it", sum(below.values())
            ),
            *(beside(f"of these, {reason}", number) for reason, number in below.items()),
            at_least(
                "ceiling: % of what handlers that always have a message start behind the same "
                f"bucket with the same work, worst of {DEMANDS} consumers",
                100 * min(attainable),
                asked,
            ),
            at_most("ceiling: messages that wait, mean of them", statistics.fmean(waiting), 2),
            beside("messages that wait, most of them", max(waiting)),
        ),
    }


def _reason(demand: SteadyDemand, rate: float, attainable: float) -> str:
    """Why a consumer stays below the smaller of ceiling and capacity."""
    if attainable < LEAST_ATTAINED_SHARE:
        return BY_THE_LAW
    in_force = min(demand.rate, demand.capacity_of_drawn_work())
    return BY_CHANCE if rate >= LEAST_ATTAINED_SHARE * in_force else BY_LOST_TOKENS


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"bound": bound, "reached": reached}


def run(*parts: str) -> dict[str, Any]:
    return {name: part() for name, part in chosen(PARTS, parts).items()}
