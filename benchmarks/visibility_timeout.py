"""Li's two thread pools with retransmission: simulated beside the analytic model.

20 replications each. In-order delivery is reported beside the source's statement that it costs
roughly half again as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from simulator.studies.visibility import TwoPools, measure
from tests.known.two_pools import seconds

REPLICATIONS = range(20)
RATE, SPEED = 30.3, 10.0


def row(pools: TwoPools) -> dict[str, Any]:
    found = measure(pools, seconds(pools), REPLICATIONS)
    off = found.time / pools.time - 1
    return {
        "analytic_s": pools.time,
        "simulated_s": found.time,
        "standard_error_s": found.error,
        "off_percent": 100 * off,
        "met": abs(off) <= 0.01,
    }


def in_order_costs(pools: TwoPools, timeout: float) -> float:
    """Percent that keeping the order adds to the time from sender to receiver."""
    loose, ordered = (
        measure(pools, 1000.0, range(5), in_order=in_order, timeout=timeout)
        for in_order in (False, True)
    )
    return 100 * (ordered.delivery / loose.delivery - 1)


def sweep(pools: TwoPools, key: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    """The analytic time as one parameter changes, with a short simulation beside it."""
    found = []
    for value in values:
        changed = replace(pools, **{key: value})
        simulated = measure(changed, 300.0 / (1 - max(changed.loads)), range(3))
        found.append({key: value, "analytic_s": changed.time, "simulated_s": simulated.time})
    return found


def run() -> dict[str, Any]:
    table = {
        f"n={threads} q={arrives}": row(TwoPools(RATE, threads, threads, SPEED, SPEED, arrives))
        for threads in range(4, 11)
        for arrives in (0.99, 0.88)
    }
    six = TwoPools(RATE, 6, 6, SPEED, SPEED, 0.88)
    return {
        "table": table,
        "met": all(each["met"] for each in table.values()),
        "in_order_costs_percent": {
            f"n={threads} q={arrives} timeout={timeout:g}": in_order_costs(
                TwoPools(RATE, threads, threads, SPEED, SPEED, arrives), timeout
            )
            for threads in (4, 6, 10)
            for arrives, timeout in ((1.0, 1.0), (0.99, 1.0), (0.88, 1.0), (0.99, 5.0))
        },
        "sweeps": {
            "rate": sweep(six, "rate", [10.0, 20.0, 30.0, 40.0, 50.0]),
            "sender_threads": sweep(six, "sender_threads", [4, 5, 6, 8, 10]),
            "broker_threads": sweep(six, "broker_threads", [4, 5, 6, 8, 10]),
            "broker_speed": sweep(six, "broker_speed", [6.5, 8.0, 10.0, 15.0]),
        },
    }
