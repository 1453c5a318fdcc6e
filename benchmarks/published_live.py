"""The published experiment on a real broker: P, PI and PID beside Rosa & Cavalcanti 2022.

25 publishers send 256 bytes every 10 ms (sd 1 ms) each, work takes 1 ms, the broker is 11 ms
away, the goal is 400 msg/s. Writes a picture beside the JSON: published_live.svg.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pika

from benchmarks.live_consumer import bed, consume, identified, model_data
from controlmq import Limits, Step, published
from controlmq.controllers import build
from controlmq.design import design_controller
from tests.testbed.publishing import connected

SETTLE_SAMPLES, MEASURED_SAMPLES = 20, 60
QUEUE = "published-experiment"
LONGEST_QUEUE_MESSAGES = 20_000
"""Messages. The publishers send six times what the goal takes; the oldest are dropped."""

PICTURE = Path("published_live.svg")


def run() -> dict[str, Any]:
    runs: dict[str, list[Step]] = {}
    with bed() as here:
        limits = Limits(0.1, 14.0)
        url = here.broker.url
        with connected(here.broker.parameters) as connection:
            declare(connection)
        load = [sys.executable, "-m", "controlmq.cli.main", "load", "--queue", QUEUE]
        publishers = subprocess.Popen(
            [*load, "--experiment", "rosa", "--duration", "3600", "--json", "--url", url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            # With the publishers at work, as they are in what follows: they slow the broker down.
            model = identified(here, 0.5, 9.0, 60)
            for kind in ("p", "pi", "pid"):
                print(f"  {kind}", file=sys.stderr)
                design = design_controller(model, kind)
                controller = build(design.tuning, limits)
                runs[kind] = consume(
                    here,
                    QUEUE,
                    controller,
                    lambda _: published.GOAL,
                    SETTLE_SAMPLES + MEASURED_SAMPLES,
                    limits=limits,
                )
        finally:
            publishers.kill()
            publishers.wait()
    draw(runs)
    table = {}
    for kind, steps in runs.items():
        rates = [step.sample.rate for step in steps[SETTLE_SAMPLES:]]
        table[kind] = {
            "mean": statistics.fmean(rates),
            "sd": statistics.stdev(rates),
            "published": published.CLOSED_LOOPS[kind],
        }
    return {
        "peer": f"{published.SOURCE}, goal {published.GOAL:g} msg/s",
        "model": model_data(model),
        "goal": published.GOAL,
        "controllers": table,
        "picture": str(PICTURE),
    }


def declare(connection: pika.BlockingConnection) -> None:
    arguments = {"x-max-length": LONGEST_QUEUE_MESSAGES, "x-expires": 600_000}
    connection.channel().queue_declare(QUEUE, durable=True, arguments=arguments)


def draw(runs: dict[str, list[Step]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 6.0), layout="constrained")
    grid = figure.subplots(len(runs), 1, sharex=True)
    for axes, (kind, steps) in zip(grid, runs.items(), strict=True):
        mean, sd = published.CLOSED_LOOPS[kind].values()
        axes.axhspan(mean - sd, mean + sd, color="#d55e00", alpha=0.12, linewidth=0)
        axes.axhline(mean, color="#d55e00", linewidth=1, label="published mean and sd")
        axes.axhline(published.GOAL, color="#009e73", linewidth=1, label="goal")
        rates = [step.sample.rate for step in steps]
        axes.plot(range(len(rates)), rates, color="#0072b2", label=f"{kind.upper()} here")
        axes.set_ylim(0, 700)
        axes.set_ylabel("rate (msg/s)")
        axes.legend(loc="lower right", fontsize=8, frameon=False, ncols=3)
    grid[-1].set_xlabel("sample (1 s each)")
    figure.savefig(PICTURE, metadata={"Date": None})
