"""Tuning on Spark: how much two cores bring, and what the chosen controller is worth.

Throughput: 2,000 closed loops of 300 samples of 1 s in five rounds of 400, on one core and on
two in turn, each in a Spark session and a process of its own. The choice: a search on two
scenarios, then the best candidate beside the published PI on three scenarios that it has not
seen, with other seeds, in the metrics of the ranking and in the paper's own terms.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import spread
from controlmq.controllers.controller_file import Tuning
from controlmq.experiments.tuning_search.search import Outcome, Search, published_pi, run_search
from controlmq.published import GOAL
from controlmq.student import mean_interval
from simulator import Change, Duration, Scenario, load_scenario
from simulator.studies.tuning_candidates import METRICS, Point, Trial, run_point
from simulator.studies.tuning_candidates.point import steps
from simulator.studies.tuning_candidates.ranking import per_seed

DURATION = 300.0
LOOPS = 2000
ROUNDS = 5
LEAST_SPEEDUP = 1.5
"""Times the throughput of one core that two must reach."""


def run() -> dict[str, Any]:
    return {"throughput": throughput(), "choice": choice()}


# Throughput


def throughput() -> dict[str, Any]:
    """Loops a second on one core and on two, round by round in turn."""
    one, two = (_worker(cores) for cores in (1, 2))
    rates: dict[int, list[float]] = {1: [], 2: []}
    try:
        for turn in range(ROUNDS):
            for cores, worker in ((1, one), (2, two)):
                rates[cores].append(LOOPS / ROUNDS / _round(worker))
            seen_so_far = f"{rates[1][-1]:.1f} and {rates[2][-1]:.1f} loops/s"
            print(f"  round {turn + 1} of {ROUNDS}: {seen_so_far}", file=sys.stderr)
    finally:
        for worker in (one, two):
            worker.communicate("", timeout=60)
    ratio = statistics.median(rates[2]) / statistics.median(rates[1])
    return {
        "unit": "closed loops of 300 samples of 1 s per second",
        "loops_each": LOOPS,
        "one_core": spread(rates[1]),
        "two_cores": spread(rates[2]),
        "ratio": ratio,
        "needed": LEAST_SPEEDUP,
        "met": ratio >= LEAST_SPEEDUP,
    }


def _worker(cores: int) -> subprocess.Popen[str]:
    program = f"from benchmarks.tuning import serve; serve({cores})"
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _round(worker: subprocess.Popen[str]) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def serve(cores: int) -> None:
    """Run a round for every line on standard input, and say how many seconds it took."""
    from identification.parallel import over
    from identification.session import session

    trial = Trial(seen()[0], (GOAL,), DURATION)
    with session(f"local[{cores}]") as spark:
        warm_up = [
            Point(published_pi(1.0), replace(trial, duration=10.0), seed) for seed in range(8)
        ]
        list(over(spark, run_point, warm_up))
        for turn, _ in enumerate(sys.stdin):
            seeds = range(turn * LOOPS // ROUNDS, (turn + 1) * LOOPS // ROUNDS)
            points = [Point(published_pi(1.0), trial, seed) for seed in seeds]
            began = time.perf_counter()
            done = sum(1 for _ in over(spark, run_point, points))
            assert done == len(points)
            print(time.perf_counter() - began, flush=True)


# The choice


def choice() -> dict[str, Any]:
    """A search, and its best beside the published PI where neither has been."""
    from identification.session import session

    search = Search(
        trials=[Trial(scenario, (GOAL,), DURATION) for scenario in seen()],
        unseen=[Trial(scenario, (GOAL,), DURATION) for scenario in unseen()],
        seeds=range(1, 11),
        by="iae",
        kinds=("pi", "pid"),
        placements={},
        intervals=(1.0,),
        draws=None,
        model=None,
        levels=(1.0, 40.0),
    )
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        outcome = run_search(spark, search, Path(folder), lambda *_: None)
    assert outcome.unseen is not None
    best = outcome.best.candidate
    return {
        "peer": "the published PI (Rosa & Cavalcanti 2022), at samples of 1 s",
        "candidates": len(outcome.ranked),
        "chosen": {
            "controller": best.tuning.kind,
            "asked": best.asked,
            **asdict(best.tuning.gains),
        },
        "tuned_on": [trial.scenario.name for trial in search.trials],
        "unseen": {
            metric: {
                "chosen": statistics.fmean(per_seed(outcome.unseen.best, metric)),
                "published": statistics.fmean(per_seed(outcome.unseen.published, metric)),
                "difference": asdict(outcome.unseen.difference[metric]),
            }
            for metric in METRICS
        },
        "report_terms": report_terms(outcome, best.tuning),
        "beats_published_by_iae": outcome.unseen.difference["iae"].high < 0,
    }


def report_terms(outcome: Outcome, best: Tuning) -> dict[str, Any]:
    """Mean and sd of the rate at the goal, as the paper has them, start and all, by scenario."""
    seeds = range(21, 31)
    peer = published_pi(best.model.interval)
    return {
        trial.scenario.name: {
            "chosen": _mean_and_sd(best, trial, seeds),
            "published_pi": _mean_and_sd(peer, trial, seeds),
        }
        for trial in outcome.search.unseen
    }


def _mean_and_sd(tuning: Tuning, trial: Trial, seeds: Sequence[int]) -> dict[str, Any]:
    means, sds = [], []
    for seed in seeds:
        rates = [step.sample.rate for step in steps(Point(tuning, trial, seed))]
        means.append(statistics.fmean(rates))
        sds.append(statistics.stdev(rates))
    return {"mean": asdict(mean_interval(means)), "sd": asdict(mean_interval(sds))}


# The scenarios


def seen() -> list[Scenario]:
    """What is tuned on: work that doubles for a while, and a load that stops and comes back."""
    usual = _usual("doubling-work")
    doubling = [Change(at=100.0, factor=2.0), Change(at=200.0, factor=1.0)]
    near = replace(usual.links[0], round_trip=0.008)
    pausing = [Change(at=120.0, factor=0.0), Change(at=135.0, factor=1.5)]
    return [
        replace(usual, consumers=[replace(usual.consumers[0], work_schedule=doubling)]),
        replace(
            usual,
            name="pausing-load",
            links=[near],
            publishers=[replace(usual.publishers[0], schedule=pausing)],
        ),
    ]


def unseen() -> list[Scenario]:
    """What is not: slower work by ramps, a broker farther away, work with a heavy tail."""
    usual = _usual("ramping-work")
    consumer, network = usual.consumers[0], usual.links[0]
    ramps = [Change(at=60.0, factor=3.0, over=30.0), Change(at=180.0, factor=1.0, over=60.0)]
    jumps = [Change(at=75.0, factor=1.5), Change(at=150.0, factor=0.5), Change(at=225.0, factor=1)]
    far = replace(network, round_trip=0.015, jitter=Duration(0.001, "exponential"))
    heavy = Duration(0.001, "lognormal", sd=0.002)
    return [
        replace(usual, consumers=[replace(consumer, work_schedule=ramps)]),
        replace(
            usual,
            name="farther-broker",
            links=[far],
            consumers=[replace(consumer, work_schedule=jumps)],
        ),
        replace(
            usual,
            name="heavy-tail",
            consumers=[replace(consumer, work=heavy, work_schedule=jumps)],
        ),
    ]


def _usual(name: str) -> Scenario:
    """The shipped noisy consumer with a load a quarter above its goal instead of six times."""
    scenario = load_scenario("rosa-noisy")
    load = replace(scenario.publishers[0], every=Duration(0.05, "normal", sd=0.005))
    queue = replace(scenario.queues[0], max_length=2000)
    return replace(scenario, name=name, sample_interval=1.0, publishers=[load], queues=[queue])
