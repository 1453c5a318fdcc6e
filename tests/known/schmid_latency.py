"""Interactions 1 and 3 of SPECjms2007 as Schmid simulated them, beside what RabbitMQ measured.

The calibration is a straight line, latency = base + slope * bytes, from RabbitMQ at 1 message/s.
Here it is a link with that delay and that speed, each way half of it; the rest takes no time.
"""

from __future__ import annotations

import statistics
from typing import Any

from simulator import Broker, Link
from simulator.studies.specjms import Deployment, Phases, Run, Topology, workload
from simulator.studies.specjms import run as run_phases

BASE, SLOPE = 1.402349e-3, 6.861179e-9
"""Seconds, and seconds for every byte; printed as milliseconds."""

MEASURED = {
    "order": (1.76, 1.4179),
    "orderConf": (1.65, 1.4202),
    "statInfoOrderDC": (1.30, 1.4051),
    "shipDep": (1.27, 1.4157),
    "shipInfo": (1.38, 1.4169),
    "shipConf": (1.03, 1.4097),
}
"""Milliseconds: the median on RabbitMQ 3.8.3, and what the author predicts."""

ONE_SUBSCRIBER, TEN_SUBSCRIBERS = 1.45, 2.39
"""Milliseconds measured for a price update; the author predicts 1.403994 for both."""


def calibrated(broker: Broker | None = None) -> Deployment:
    link = Link("calibrated", BASE, bytes_per_second=2 / SLOPE)
    return Deployment(broker=broker, link=link, work=0.0, prefetch=1000.0)


def simulate(topology: Topology, deployment: Deployment) -> Run:
    return run_phases(workload(topology, Phases(1.0, 300.0, 10.0), deployment))


def latency(done: Run, name: str) -> float:
    """Milliseconds on average of a type over all its queues."""
    found = [each for queue, each in done.deliveries.items() if queue.endswith(f".{name}")]
    return 1000 * sum(e.mean * e.count for e in found) / sum(e.count for e in found)


def run_interaction_1() -> dict[str, Any]:
    only = Topology("interaction 1", 1, 1, 1, 1, 1, 1.0, (1.53920154, 0, 0, 0, 0, 0, 0))
    done = simulate(only, calibrated())
    rows = {
        name: {
            "measured_ms": measured,
            "author_ms": author,
            "ours_ms": latency(done, name),
            "author_error_percent": 100 * abs(author / measured - 1),
            "ours_off_author_percent": 100 * abs(latency(done, name) / author - 1),
        }
        for name, (measured, author) in MEASURED.items()
    }
    return {
        "rows": rows,
        "median_error_percent": statistics.median(
            row["author_error_percent"] for row in rows.values()
        ),
        "met": all(row["ours_off_author_percent"] < 1.0 for row in rows.values()),
    }


def run_interaction_3() -> dict[str, Any]:
    """The broker's work on a copy follows from ten subscribers against one, and explains both."""
    copy = (TEN_SUBSCRIBERS - ONE_SUBSCRIBER) / 9 * 1e-3
    found = {}
    for subscribers in (1, 10):
        rates = (0, 0, 6.0, 0, 0, 0, 0)
        topology = Topology("interaction 3", subscribers, 1, 1, 2, 1, 1.0, rates)
        for name, broker in (("link alone", None), ("with copies", Broker(8, copy=copy))):
            done = simulate(topology, calibrated(broker))
            found[f"{subscribers} subscribers, {name}"] = latency(done, "priceUpdate")
    return {"copy_ms": 1000 * copy, "ours_ms": found}


def run() -> dict[str, Any]:
    return {"interaction_1": run_interaction_1(), "interaction_3": run_interaction_3()}
