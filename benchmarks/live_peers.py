"""Our laws on a real broker through 11 ms while the work changes, beside those of others.

Peers are the three strongest laws of each table of the tournament, through the same window, and
what users do today: a fixed prefetch of 1, 10 or 250, and for a ceiling a sleep in the handler.
Every law runs once; a law that is in two tables is judged by both. Parts are the tables.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from benchmarks.live_consumer import WORK, Bed, Work, bed, wrapped
from benchmarks.live_goals import Stolen
from benchmarks.live_laws import changing_work
from benchmarks.measure import at_most, chosen, verdict
from controlmq import Limits, Step
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.controllers import OpenLoop, random_levels
from controlmq.controllers.resolve import build
from controlmq.loop import Sample, Transition
from controlmq.model import ArxModel
from simulator.studies.tournament import METRICS, Phase, cost, peers
from simulator.studies.tournament.entries import fitted, tuned
from simulator.studies.tournament.trials import judge
from tests.testbed.proxy import ROUND_TRIP

WORKS = (WORK, 2 * WORK, WORK)
"""Seconds of work a message, one after the other."""

INTERVAL, PHASE_SAMPLES = 0.5, 16
"""Seconds a sample, and samples of each work."""

RATE, BUFFER_TIME = 400.0, 0.05
"""Messages/second to hold or to stay below; seconds in the buffer."""

LIMITS = Limits(0.1, 1000.0)
EXPERIMENT_SAMPLES, EXPERIMENT_PREFETCHES = 30, (0.5, 9.0)
"""Of the experiment that the model of the published PI comes from."""

FIXED = ("fixed 1", "fixed 10", "fixed 250")

TABLES = {
    "rate": (
        "goal",
        "spark (least 1)",
        "pi, published poles (settling 2)",
        "pid, published poles (settling 2)",
        *FIXED,
    ),
    "at_most": (
        "at most",
        "spark",
        "pi, published poles (settling 4)",
        "pid, published poles",
        "sleep in the handler",
        *FIXED,
    ),
    "buffer_time": ("buffer time", "codel", "hpa (tolerance 0.02)", *FIXED),
    "least": (
        "least",
        "envoy (headroom 1.1)",
        "gradient2 (tolerance 2)",
        "vegas (alpha 1)",
        *FIXED,
    ),
}
"""The laws of each table, ours first. For a time in the buffer the tournament has two peers,
and after them what users do."""

GOALS = {"rate": RATE, "at_most": RATE, "buffer_time": BUFFER_TIME, "least": 1.0}


@dataclass(frozen=True)
class Law:
    """What a consumer is wrapped with. ``spreads`` its acks: where a rate is to be held."""

    given: Mapping[str, Any] = field(default_factory=dict)
    spreads: bool = True
    sleeps: bool = False


class Played(NamedTuple):
    """The samples of a law by phase, and the percentage of processor time that the host took."""

    phases: list[list[Sample]]
    stolen_percent: float


def laws(model: Callable[[], ArxModel]) -> dict[str, Callable[[], Law]]:
    """Every law by its name; peers as light tuning made them, where that is better."""

    def rate(controller: Any) -> Law:
        return Law({"goal": RATE, "controller": controller, "limits": LIMITS})

    def other(controller: Any, goal: float) -> Law:
        return Law({"goal": goal, "controller": controller, "limits": LIMITS}, spreads=False)

    def placed(kind: str, settling: float = 0.0) -> Law:
        return rate(build(tuned(kind, model(), settling), LIMITS))

    return {
        "goal": lambda: Law({"goal": RATE}),
        "at most": lambda: Law({"at_most": RATE}),
        "buffer time": lambda: Law({"buffer_time": BUFFER_TIME}),
        "least": lambda: Law({"prefetch": None}),
        "pi, published poles (settling 2)": lambda: placed("pi", 2.0),
        "pi, published poles (settling 4)": lambda: placed("pi", 4.0),
        "pid, published poles": lambda: placed("pid"),
        "pid, published poles (settling 2)": lambda: placed("pid", 2.0),
        "spark": lambda: rate(peers.spark_rate()),
        "spark (least 1)": lambda: rate(peers.spark_rate(least=1.0)),
        "sleep in the handler": lambda: Law({"prefetch": 10.0}, sleeps=True),
        "codel": lambda: other(peers.codel(), BUFFER_TIME),
        "hpa (tolerance 0.02)": lambda: other(peers.hpa_on_time(0.02), BUFFER_TIME),
        "envoy (headroom 1.1)": lambda: other(peers.envoy(1.1), 1.0),
        "gradient2 (tolerance 2)": lambda: other(peers.gradient2(2.0), 1.0),
        "vegas (alpha 1)": lambda: other(peers.vegas(1.0), 1.0),
        **{name: _fixed(float(name.split()[1])) for name in FIXED},
    }


def _fixed(prefetch: float) -> Callable[[], Law]:
    return lambda: Law({"prefetch": prefetch})


def experiment(bed: Bed) -> ArxModel:
    """A model of the consumer with its first work, from random levels."""
    levels = random_levels(*EXPERIMENT_PREFETCHES, EXPERIMENT_SAMPLES)
    rows: list[tuple[float, float, float]] = []

    def record(row: Transition) -> None:
        rows.append((row.y, row.u, row.y_next))

    with bed.filled_queue("classic", round(EXPERIMENT_SAMPLES * INTERVAL / WORK)) as queue:
        wrapped(
            bed.proxy.parameters,
            queue,
            EXPERIMENT_SAMPLES + 1,
            interval=INTERVAL,
            controller=OpenLoop(levels),
            prefetch=levels[0],
            limits=LIMITS,
            record=record,
        )
    return fitted(rows, INTERVAL, EXPERIMENT_PREFETCHES)


def played(bed: Bed, name: str, law: Law) -> Played:
    """The samples of a law with each work, and what the host took meanwhile."""
    works = [max(work, 1 / RATE) for work in WORKS] if law.sleeps else WORKS
    doing = Work()
    changes = changing_work(works, PHASE_SAMPLES, doing)
    stolen = Stolen()

    def after(consumer: ControlledConsumer, number: int) -> None:
        stolen.note()
        doing.seconds = changes.get(number, doing.seconds)
        consumer.plant.spreads = consumer.plant.spreads and law.spreads

    messages = round(PHASE_SAMPLES * INTERVAL * sum(1 / work for work in works))
    with bed.filled_queue("classic", messages) as queue:
        steps: list[Step] = wrapped(
            bed.proxy.parameters,
            queue,
            PHASE_SAMPLES * len(works),
            doing=doing,
            after=after,
            **{"interval": INTERVAL} | dict(law.given),
        )
    samples = [step.sample for step in steps]
    phases = [samples[at : at + PHASE_SAMPLES] for at in range(0, len(samples), PHASE_SAMPLES)]
    rates = ", ".join(f"{settled_rate(phase):.0f}/s" for phase in phases)
    print(f"  {name}: {rates}", file=sys.stderr)
    return Played(phases, statistics.fmean(stolen.percent()))


def settled_rate(samples: Sequence[Sample]) -> float:
    """Messages/second in the second half."""
    return statistics.fmean(sample.rate for sample in samples[len(samples) // 2 :])


def judged(table: str, found: Mapping[str, Played]) -> list[dict[str, Any]]:
    """The rows of a table, the lowest cost first."""
    goal = GOALS[table]
    phases = [Phase(PHASE_SAMPLES, ROUND_TRIP, work) for work in WORKS]
    full = [settled_rate(samples) for samples in found["fixed 250"].phases]
    rows = []
    for name in TABLES[table]:
        with_goals = [replace(phase, goal=goal) for phase in phases]
        metrics = judge(table, list(zip(with_goals, found[name].phases, strict=True)), full)
        rows.append(
            {
                "law": name,
                "ours": name == TABLES[table][0],
                "cost": cost(table, metrics),
                "stolen_percent": found[name].stolen_percent,
            }
            | metrics
        )
    return sorted(rows, key=lambda row: float(row["cost"]))


def before_ours(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The laws whose cost is below that of ours, and by how much."""
    ours = next(float(row["cost"]) for row in rows if row["ours"])
    return {row["law"]: ours - row["cost"] for row in rows if row["cost"] < ours}


def run(*parts: str) -> dict[str, Any]:
    tables = chosen(TABLES, parts)
    with bed() as here:
        known = laws(cache(lambda: experiment(here)))
        names = dict.fromkeys(name for table in tables for name in TABLES[table])
        found = {name: played(here, name, known[name]()) for name in names}
    return {table: _table(table, judged(table, found)) for table in tables}


def _table(table: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    before = before_ours(rows)
    return {
        "columns": METRICS[table],
        "rows": rows,
        "before_ours": before,
        **verdict(at_most("laws before ours", len(before), 0)),
    }
