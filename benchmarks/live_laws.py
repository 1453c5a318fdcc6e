"""Goals without a model on a real broker, through 11 ms and directly: rate, least prefetch, time
in the buffer.

Parts: ``rate`` (400/s through 11 ms, and the least fixed prefetch that reaches it), ``loopback``
(1,000 and 3,000/s directly), ``least`` (in turns with a fixed prefetch of 250), ``buffer_time``
(50 ms while the work changes). A run from which the host took processor time is repeated once for
each part; which runs count is decided by that alone, and all are reported.

A rate is judged over 60 samples of a second, by the median of three runs; the least prefetch by the
medians of five pairs in turns. The time in the buffer is judged by what the sensors say, which
the law goes by, and by what Little's law makes of prefetch, rate and round trip.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from benchmarks.live_consumer import WORK, Bed, Work, bed, wrapped
from benchmarks.live_goals import UNDISTURBED_PERCENT, Stolen, judged
from benchmarks.measure import at_least, at_most, chosen, spread, verdict
from controlmq import Step
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.loop import Sample
from tests.testbed.proxy import ROUND_TRIP

GOAL, LOOPBACK_GOALS = 400.0, (1000.0, 3000.0)
"""Messages/second."""

RUNS, SPARE_RUNS = 3, 1
"""Runs of a goal that count, and further ones where the host took processor time."""

SETTLE_SAMPLES, MEASURED_SAMPLES = 15, 60
LOOPBACK_SETTLE_SAMPLES = 8
FIXED_SETTLE_SAMPLES, FIXED_SAMPLES = 2, 6
FIRST_FIXED = 3
"""Messages: the prefetch from which the least one that reaches the goal is looked for."""

REACHED_SHARE = 0.998
"""Share of the goal from which on a fixed prefetch reaches it."""

PAIRS, LARGE_PREFETCH = 5, 250.0
PAIR_SETTLE_SAMPLES, PAIR_SAMPLES = 12, 10

BUFFER_TIME = 0.05
"""Seconds."""

WORKS = (WORK, 3 * WORK, WORK)
"""Seconds of work a message, one after the other."""

WORK_SAMPLES, WORK_SETTLE_SAMPLES = 25, 8


class Noted:
    """Notes what the host takes while the samples from ``settle`` on are measured."""

    def __init__(self, settle: int) -> None:
        self._settle = settle
        self._stolen = Stolen()

    def __call__(self, consumer: ControlledConsumer, number: int) -> None:
        """So many samples are over."""
        if number >= self._settle:
            self._stolen.note()

    @property
    def percent(self) -> float:
        """Of what all processors could have done."""
        return statistics.fmean(self._stolen.percent())


def goal_held(
    bed: Bed, parameters: Any, goal: float, settle: int, measured: int, seconds: float
) -> dict[str, Any]:
    """One run of a goal with ``seconds`` of work a message."""
    noted = Noted(settle)
    with bed.filled_queue("classic", round(1.1 * goal * (settle + measured)) + 2000) as queue:
        steps = wrapped(
            parameters, queue, settle + measured, doing=Work(seconds), after=noted, goal=goal
        )
    found: dict[str, Any] = judged(steps[settle:], goal)
    found["stolen_percent"] = noted.percent
    off, sd, u, part = (
        found[name]
        for name in ("mean_off_percent", "sd_percent", "prefetch_mean", "stolen_percent")
    )
    said = f"  {goal:g}: {off:+.2f} %, sd {sd:.2f} %, prefetch {u:.1f}, stolen {part:.1f} %"
    print(said, file=sys.stderr)
    return found


def repeated(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Median and spread of several runs, those from which the host took least."""
    runs = [measure() for _ in range(RUNS)]
    for _ in range(SPARE_RUNS):
        if max(run["stolen_percent"] for run in runs) > UNDISTURBED_PERCENT:
            runs.append(measure())
    runs.sort(key=lambda run: float(run["stolen_percent"]))
    counted = runs[:RUNS]
    return {
        "mean_off_percent": spread([run["mean_off_percent"] for run in counted]),
        "sd_percent": spread([run["sd_percent"] for run in counted]),
        "prefetch": spread([run["prefetch_mean"] for run in counted]),
        "runs": runs,
    }


def fixed_rate(bed: Bed, prefetch: float) -> float:
    """Messages/second of a fixed prefetch through 11 ms."""
    samples = FIXED_SETTLE_SAMPLES + FIXED_SAMPLES
    with bed.filled_queue("classic", 1000 * samples) as queue:
        steps = wrapped(bed.proxy.parameters, queue, samples, prefetch=prefetch)
    return statistics.fmean(step.sample.rate for step in steps[FIXED_SETTLE_SAMPLES:])


def rate(bed: Bed) -> dict[str, Any]:
    """400/s through 11 ms with 1 ms of work."""
    held = repeated(
        partial(goal_held, bed, bed.proxy.parameters, GOAL, SETTLE_SAMPLES, MEASURED_SAMPLES, WORK)
    )
    least_fixed, rates = FIRST_FIXED, {}
    while True:
        rates[least_fixed] = fixed_rate(bed, least_fixed)
        if rates[least_fixed] >= REACHED_SHARE * GOAL:
            break
        least_fixed += 1
    what = f"{GOAL:g}/s through 11 ms"
    return {
        **held,
        "fixed_rates": rates,
        "least_fixed_prefetch": least_fixed,
        **verdict(
            *_held(what, held, 0.2, 1.0),
            at_most(
                f"{what}: prefetch per the least fixed one that reaches it, median",
                held["prefetch"]["median"] / least_fixed,
                1.6,
            ),
        ),
    }


def _held(
    what: str, held: Mapping[str, Any], most_off: float, most_sd: float
) -> list[dict[str, Any]]:
    """What is asked of a rate: medians of the runs that count."""
    off, sd = (held[name]["median"] for name in ("mean_off_percent", "sd_percent"))
    return [
        at_most(f"{what}: mean off the goal, %, median of runs", abs(off), most_off),
        at_most(f"{what}: spread of a second, %, median of runs", sd, most_sd),
    ]


def loopback(bed: Bed) -> dict[str, Any]:
    """1,000 and 3,000/s directly, with handlers that only acknowledge."""
    found = {
        f"{goal:g}": repeated(
            partial(
                goal_held,
                bed,
                bed.broker.parameters,
                goal,
                LOOPBACK_SETTLE_SAMPLES,
                MEASURED_SAMPLES,
                0.0,
            )
        )
        for goal in LOOPBACK_GOALS
    }
    figures = [_held(f"{goal}/s on loopback", held, 0.3, 4.0) for goal, held in found.items()]
    return {**found, **verdict(*chain(*figures))}


def throughput(bed: Bed, prefetch: float | None) -> dict[str, float]:
    """Rate and time in the buffer with a fixed prefetch, or with the least one that is found."""
    samples = PAIR_SETTLE_SAMPLES + PAIR_SAMPLES
    noted = Noted(PAIR_SETTLE_SAMPLES)
    with bed.filled_queue("classic", round(samples / WORK)) as queue:
        steps = wrapped(bed.proxy.parameters, queue, samples, after=noted, prefetch=prefetch)
    settled = [step.sample for step in steps[PAIR_SETTLE_SAMPLES:]]
    found = {
        "rate": statistics.fmean(sample.rate for sample in settled),
        "buffer_time": statistics.fmean(sample.buffer_time for sample in settled),
        "prefetch": statistics.fmean(sample.prefetch for sample in settled),
        "idle_share": 1 - statistics.fmean(sample.busy for sample in settled),
        "stolen_percent": noted.percent,
    }
    said = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
    print(f"  {said}", file=sys.stderr)
    return found


def least(bed: Bed) -> dict[str, Any]:
    """The least prefetch and one of 250, in turns, through 11 ms with 1 ms of work."""
    pairs = []
    for number in range(PAIRS):
        order = (None, LARGE_PREFETCH) if number % 2 == 0 else (LARGE_PREFETCH, None)
        found = {prefetch: throughput(bed, prefetch) for prefetch in order}
        pairs.append((found[None], found[LARGE_PREFETCH]))
    rates = spread([ours["rate"] / large["rate"] for ours, large in pairs])
    times = spread([ours["buffer_time"] / large["buffer_time"] for ours, large in pairs])
    return {
        "throughput_ratio": rates,
        "buffer_time_ratio": times,
        "pairs": [{"least": ours, "fixed_250": large} for ours, large in pairs],
        **verdict(
            at_least(
                "least prefetch: throughput, % of that of a prefetch of 250, median of pairs",
                100 * rates["median"],
                97,
            ),
            at_most(
                "least prefetch: time in the buffer, % of that of a prefetch of 250, median",
                100 * times["median"],
                10,
            ),
        ),
    }


def waited(samples: Sequence[Sample], seconds: float) -> dict[str, float]:
    """The time in the buffer by the sensors, and by what a slot does not spend elsewhere."""
    return {
        "work": seconds,
        "mean": statistics.fmean(sample.buffer_time for sample in samples),
        "mean_by_littles_law": statistics.fmean(
            sample.prefetch / sample.rate - ROUND_TRIP - sample.handler_time for sample in samples
        ),
        "prefetch": statistics.fmean(sample.prefetch for sample in samples),
        "rate": statistics.fmean(sample.rate for sample in samples),
    }


def changing_work(works: Sequence[float], samples: int, doing: Work) -> dict[int, float]:
    """Gives ``doing`` its first work, and says after which sample which one follows."""
    doing.seconds = works[0]
    return {number * samples: seconds for number, seconds in enumerate(works)}


def buffer_time(bed: Bed) -> dict[str, Any]:
    """50 ms in the buffer through 11 ms, while the work changes from 1 to 3 and back to 1 ms."""
    doing = Work()
    changes = changing_work(WORKS, WORK_SAMPLES, doing)

    def after(consumer: ControlledConsumer, number: int) -> None:
        doing.seconds = changes.get(number, doing.seconds)

    samples = WORK_SAMPLES * len(WORKS)
    with bed.filled_queue(
        "classic", round(WORK_SAMPLES * sum(1 / work for work in WORKS))
    ) as queue:
        steps: list[Step] = wrapped(
            bed.proxy.parameters,
            queue,
            samples,
            doing=doing,
            after=after,
            buffer_time=BUFFER_TIME,
        )
    phases = [
        waited(
            [
                step.sample
                for step in steps[
                    number * WORK_SAMPLES + WORK_SETTLE_SAMPLES : (number + 1) * WORK_SAMPLES
                ]
            ],
            seconds,
        )
        for number, seconds in enumerate(WORKS)
    ]
    what = f"50 ms in the buffer: mean after the first {WORK_SETTLE_SAMPLES} s of each work,"
    return {
        "goal": BUFFER_TIME,
        "mean_off_percent": [100 * (phase["mean"] / BUFFER_TIME - 1) for phase in phases],
        "phases": phases,
        **verdict(
            at_most(
                f"{what} of the worst phase by the sensors, off by %",
                _worst_off(phases, "mean"),
                10,
            ),
            at_most(
                "the same by Little's law, off by %",
                _worst_off(phases, "mean_by_littles_law"),
                10,
            ),
        ),
    }


def _worst_off(phases: Sequence[Mapping[str, float]], name: str) -> float:
    return max(100 * abs(phase[name] / BUFFER_TIME - 1) for phase in phases)


PARTS: dict[str, Callable[[Bed], dict[str, Any]]] = {
    "rate": rate,
    "least": least,
    "buffer_time": buffer_time,
    "loopback": loopback,
}


def run(*parts: str) -> dict[str, Any]:
    with bed() as here:
        return {name: part(here) for name, part in chosen(PARTS, parts).items()}
