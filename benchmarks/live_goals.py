"""How exactly a live consumer holds its goals, beside the published gains on whole prefetches.

The model is identified from a trace collected just before, on the same broker. The peer runs the
published PI gains and rounds the prefetch, as a prefetch count demands; it is actuated through
the same window, which spares it the requeues and overshoots of resubscribing.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.live_consumer import Bed, bed, consume, identified, model_data
from controlmq import PI, Limits, Step
from controlmq.controllers import controller_from
from controlmq.loop import Controller, Sample
from controlmq.published import PI_GAINS
from tests.testbed.publishing import QueueKind, fill

REPETITIONS = 3
SETTLE_SAMPLES, MEASURED_SAMPLES = 20, 60
STAIRCASE = (100.0, 400.0, 200.0, 650.0)
STAIR_SAMPLES, STAIR_SETTLE_SAMPLES = 40, 15
LIMITS = Limits(0.1, 14.0)
QUORUM_SETTLE_SAMPLES = 60
"""Samples. After a large fill of a quorum queue rates scatter for about half a minute: the broker
seems to be busy storing the messages, which slows the consumer on a small machine."""

UNDISTURBED_PERCENT = 1.0
"""Percent of the processor that the host may take from a run, or a sample, that counts as
undisturbed."""

ATTEMPTS = 2
"""Runs of one goal at most, until one is undisturbed."""

REFILL_SAMPLE = 65
"""Sample at which the dried queue is filled again."""

REFILL_PORTIONS, PORTION_PAUSE_SECONDS = 20, 0.5
"""In which it is filled, and seconds between them: four times as fast as it is emptied. All at once
would take the processor from the consumer, which a publisher elsewhere does not."""


class WholePrefetch:
    """A controller whose decisions are rounded to whole messages, at least 1."""

    def __init__(self, law: PI) -> None:
        self.law = law
        self._real: float | None = None

    def __call__(self, sample: Sample, goal: float) -> float:
        """The law's decision, rounded."""
        # The law's memory stays a real number; only what is put in force is rounded.
        real = sample.prefetch if self._real is None else self._real
        self._real = self.law(
            Sample(
                sample.number,
                sample.time,
                sample.interval,
                real,
                sample.arrivals,
                starved=sample.starved,
            ),
            goal,
        )
        return float(max(1, round(self._real)))


class Stolen:
    """Processor time that the host of a virtual machine gave to others, as Linux counts it.

    Reported beside a run, because no controller can make up for it: while it is taken, broker,
    network and consumer all stand still.
    """

    def __init__(self) -> None:
        self._ticks: list[tuple[int, int]] = []

    def note(self) -> None:
        """A sample begins or ends."""
        try:
            ticks = [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]
        except OSError:
            ticks = [0] * 8
        self._ticks.append((ticks[7], sum(ticks)))

    def percent(self) -> list[float]:
        """For each sample, the part of what all processors could have done."""
        return [
            100 * (stolen - before) / max(every - then, 1)
            for (before, then), (stolen, every) in pairwise(self._ticks)
        ]


def judged(steps: Sequence[Step], goal: float) -> dict[str, float]:
    rates = [step.sample.rate for step in steps]
    mean, sd = statistics.fmean(rates), statistics.stdev(rates)
    return {
        "goal": goal,
        "mean": mean,
        "sd": sd,
        "mean_off_percent": 100 * (mean - goal) / goal,
        "sd_percent": 100 * sd / goal,
        "prefetch_mean": statistics.fmean(step.sample.prefetch for step in steps),
        "samples": len(rates),
        "starved_samples": sum(not step.sample.window_limited for step in steps),
    }


def held(
    bed: Bed, kind: QueueKind, controller: Callable[[], Controller], goal: float, measured: int
) -> dict[str, Any]:
    """One goal held; again, a few times at most, where the host took much of the processor.

    Which run counts is decided by what was stolen, never by what came out; all are reported.
    """
    runs = [held_once(bed, kind, controller, goal, measured)]
    while runs[-1]["stolen_percent"] > UNDISTURBED_PERCENT and len(runs) < ATTEMPTS:
        runs.append(held_once(bed, kind, controller, goal, measured))
    runs.sort(key=lambda run: float(run["stolen_percent"]))
    return runs[0] | {"disturbed_runs": runs[1:]}


def held_once(
    bed: Bed, kind: QueueKind, controller: Callable[[], Controller], goal: float, measured: int
) -> dict[str, Any]:
    settle = QUORUM_SETTLE_SAMPLES if kind == "quorum" else SETTLE_SAMPLES
    samples = settle + measured
    stolen = Stolen()
    with bed.filled_queue(kind, round(1.3 * goal * samples) + 2000) as queue:
        steps = consume(
            bed,
            queue,
            controller(),
            lambda _: goal,
            samples,
            limits=LIMITS,
            events=dict.fromkeys(range(settle, samples + 1), stolen.note),
        )
    result: dict[str, Any] = judged(steps[settle:], goal)
    taken = stolen.percent()
    undisturbed = [
        s for s, part in zip(steps[settle:], taken, strict=True) if part <= UNDISTURBED_PERCENT
    ]
    result["stolen_percent"] = statistics.fmean(taken)
    result["undisturbed_samples"] = judged(undisturbed, goal) if len(undisturbed) > 1 else None
    off, sd, part = (result[name] for name in ("mean_off_percent", "sd_percent", "stolen_percent"))
    line = f"  {kind}, goal {goal:g}: {off:+.2f} %, sd {sd:.1f} %, stolen {part:.1f} %"
    print(line, file=sys.stderr)
    return result


def staircase(bed: Bed, controller: Controller) -> list[dict[str, float]]:
    print("  staircase", file=sys.stderr)
    samples = STAIR_SAMPLES * len(STAIRCASE)

    def goal(sample: int) -> float:
        return STAIRCASE[min(sample // STAIR_SAMPLES, len(STAIRCASE) - 1)]

    with bed.filled_queue("classic", round(1.2 * STAIR_SAMPLES * sum(STAIRCASE)) + 4000) as queue:
        steps = consume(bed, queue, controller, goal, samples, limits=LIMITS)
    return [
        judged(
            steps[number * STAIR_SAMPLES + STAIR_SETTLE_SAMPLES : (number + 1) * STAIR_SAMPLES],
            stair,
        )
        for number, stair in enumerate(STAIRCASE)
    ]


def refill(now: Any, parameters: Any, queue: str, messages: int) -> None:
    """Publish ``messages`` messages once ``now`` is set."""
    now.wait()
    for _ in range(REFILL_PORTIONS):
        fill(parameters, queue, messages // REFILL_PORTIONS)
        time.sleep(PORTION_PAUSE_SECONDS)


def dry_spell(bed: Bed, controller: Controller, goal: float = 400.0) -> dict[str, float]:
    """The queue runs dry for about 30 s and is filled again."""
    print("  dry spell", file=sys.stderr)
    spawn = multiprocessing.get_context("spawn")
    with bed.filled_queue("classic", round(30 * goal)) as queue:
        now = spawn.Event()
        order = (now, bed.broker.parameters, queue, round(40 * goal))
        more = spawn.Process(target=refill, args=order, daemon=True)
        more.start()
        events = {REFILL_SAMPLE: now.set}
        steps = consume(
            bed, queue, controller, lambda _: goal, REFILL_SAMPLE + 30, limits=LIMITS, events=events
        )
        more.join()
    dry = [step.sample for step in steps[:REFILL_SAMPLE] if step.sample.starved > 0.9]
    # The first sample with messages again is in part a dry one.
    rates = [step.sample.rate for step in steps[REFILL_SAMPLE + 2 :]]
    return {
        "dry_samples": len(dry),
        "held_while_dry": max((sample.held for sample in dry[1:]), default=0.0),
        "prefetch_before": statistics.fmean(s.sample.prefetch for s in steps[15:25]),
        "prefetch_at_refill": steps[REFILL_SAMPLE].prefetch,
        "overshoot_percent": 100 * (max(rates) - goal) / goal,
        "mean_after": statistics.fmean(rates),
    }


def run() -> dict[str, Any]:
    with bed() as here:
        print("  collecting a trace, fitting a model", file=sys.stderr)
        model = identified(here, 0.5, 9.0, 60)

        def ours() -> Controller:
            return controller_from("pi", model=model, limits=LIMITS)

        def published() -> Controller:
            return WholePrefetch(PI(PI_GAINS, LIMITS))

        pairs = [
            (
                held(here, "classic", ours, 400, MEASURED_SAMPLES),
                held(here, "classic", published, 400, 60),
            )
            for _ in range(REPETITIONS)
        ]
        return {
            "peer": "published PI gains, whole prefetch",
            "model": model_data(model),
            "goal_400": {
                "controlmq": [mine for mine, _ in pairs],
                "peer": [other for _, other in pairs],
                "sd_ratio": statistics.median(other["sd"] / mine["sd"] for mine, other in pairs),
                "allowed": "mean within 0.5 %, sd within 3 %, ratio at least 3",
            },
            "quorum_300": held(here, "quorum", ours, 300, MEASURED_SAMPLES),
            "goal_250": held(here, "classic", ours, 250, MEASURED_SAMPLES),
            "goal_600": held(here, "classic", ours, 600, MEASURED_SAMPLES),
            "goal_30": held(here, "classic", ours, 30, 120),
            "staircase": staircase(here, ours()),
            "dry_spell": dry_spell(here, ours()),
        }
