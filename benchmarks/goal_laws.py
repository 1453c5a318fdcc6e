"""Goals without a model on simulated consumers, beside fixed prefetches and other laws.

The least prefetch is compared with the best fixed one, chosen with hindsight for each phase; a rate
with the published PI and its model; protection with Vegas, Gradient2 and fixed concurrencies. The
plants are drawn at random with a seed, ``DRAW``.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from statistics import fmean as mean
from typing import Any, Literal

from benchmarks.measure import at_least, at_most, beside, chosen, spread, verdict
from controlmq import design_controller
from controlmq.controllers.controller_file import KINDS
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from simulator.studies.tournament import peers
from simulator.studies.tournament.plants import drawn, with_rates
from tests.known.goal_cases import (
    LIMITS,
    MOST_SETTLING_SAMPLES,
    PhaseFound,
    best_within,
    buffer_time_found,
    counted_soon,
    day,
    have_recovered,
    least_found,
    may_wait,
    mean_waiting,
    pool,
    protected,
    quiet_settling,
    rate_found,
    slow_rate,
    waiting,
)
from tests.known.identified import (
    LEAST_OVERSHOOT_PERCENT,
    drawn_from,
    exceeded,
    identified_plants,
    law_run,
)

PLANTS = 8

DRAW = 16180
"""Seed of the plants, and of the traces and models of ``robust``. No law was tried on them before
docs/goals.md was made; after a change of a law, take another one."""

MESSAGES, RATE_MESSAGES = 1e5, 2e4
"""Messages that each phase of a plant handles: without a goal at least, and with a rate to hold."""

MORE_THAN_BUSY = 1.05
"""Drawn phases last as long as busy handlers need for the messages that are wanted. Handlers are
idle for a moment, and random work is longer than its mean, so without a goal a twentieth more are
wanted."""

SEEDS = (1, 2, 3)
"""Of the runs whose number of handlers changes, with a rate, and with a shared resource."""

TIME_SETTLE_SAMPLES = 5
"""Seconds within which a time in the buffer must be there."""

PROTECTED_SAMPLES = 400
"""Of each phase of a shared resource."""

PUBLISHED = "pi, published poles"

QUIET = ((0.001, 0.011, 0.1), (0.0005, 0.001, 0.005), (0.3, 0.6, 0.9))
"""Of quiet plants: round trips and work in seconds, and the goal as a share of the capacity."""

SLOW_RATES = (
    (200, "work", "deterministic", 1),
    (200, "exponential work", "exponential", 8),
    (2000, "exponential work", "exponential", 8),
)
"""Seconds, the work in words and as a distribution, and the number of seeds."""

MODELS, IDENTIFIED = 1000, 40
"""Models drawn, and traces that they come from."""


def least() -> dict[str, Any]:
    found, soon = [], []
    for plant in drawn(PLANTS, DRAW, MORE_THAN_BUSY * MESSAGES):
        print(f"  {plant.name}", file=sys.stderr)
        found += least_found(plant, 1)
        soon += counted_soon(plant)
    return {
        "phases": [asdict(each) for each in found],
        "soon": soon,
        **verdict(
            *_lost_and_waiting("least prefetch", found),
            *_recovered("least prefetch", soon),
            beside(
                "the same by the work done in a single run of each",
                sum(each.recovered for each in found),
            ),
        ),
    }


def handlers() -> dict[str, Any]:
    plant = pool(MESSAGES)
    found = [each for seed in SEEDS for each in least_found(plant, seed)]
    soon = counted_soon(plant)
    what = "least prefetch with 2, 8 and again 2 handlers"
    return {
        "phases": [asdict(each) for each in found],
        "soon": soon,
        **verdict(
            *_lost_and_waiting(what, found),
            *_recovered(what, soon),
        ),
    }


def _lost_and_waiting(what: str, found: Sequence[PhaseFound]) -> list[dict[str, Any]]:
    """The figures of the least prefetch over phases, and seeds where there are several."""
    losses = [each.lost_percent for each in found]
    waits, best_waits = mean_waiting(found)
    worst = max(found, key=lambda each: each.buffered - each.may_buffer)
    return [
        at_most(f"{what}: throughput lost, mean, %", mean(losses), 1.2),
        at_most(f"{what}: throughput lost, worst phase, %", max(losses), 2.0),
        at_most(
            f"{what}: messages that wait, mean, at most 1.15 times those of the best fixed "
            "prefetches, each chosen for its phase with hindsight, or half a message more",
            waits,
            may_wait(best_waits),
        ),
        beside("messages that wait with the best fixed prefetches, mean", best_waits),
        beside(
            f"phases of {len(found)} in which more messages wait than that by their own best fixed "
            "prefetch",
            sum(each.buffered > each.may_buffer for each in found),
        ),
        beside(
            "messages that wait in the worst phase by this measure; with the best fixed one",
            f"{worst.buffered:.2f}; {worst.best_buffered:.2f}",
        ),
        at_least(
            f"{what}: messages handled in each phase, least",
            min(each.messages for each in found),
            MESSAGES,
        ),
    ]


def _recovered(what: str, soon: Sequence[float]) -> list[dict[str, Any]]:
    return [
        at_least(
            f"{what}: phases of {len(soon)} in which messages/second in samples 16 to 25, mean of "
            "seeds, are within 3 % of what they settle at",
            have_recovered(soon),
            len(soon),
        ),
        beside("messages/second in these samples, least % of the settled rate", 100 * min(soon)),
    ]


def rate() -> dict[str, Any]:
    plants = with_rates(drawn(PLANTS, DRAW, RATE_MESSAGES))
    by_seed = [[rate_found(plant, seed) for plant in plants] for seed in SEEDS]
    found = [each for of_seed in by_seed for each in of_seed]
    errors, spreads = (_means(found, metric) for metric in (0, 1))
    worst_error, worst_spread = (
        max(of["goal"] / of[PUBLISHED] for of in (_means(each, metric) for each in by_seed))
        for metric in (0, 1)
    )
    return {
        "error_percent": errors,
        "sd_percent": spreads,
        **verdict(
            at_most(
                "rate: mean size of the error, per that of the published PI with its model",
                errors["goal"] / errors[PUBLISHED],
                0.6,
            ),
            beside(f"the same, worst of {len(SEEDS)} seeds", worst_error),
            beside("the same in % of the goal", _by_law(errors)),
            at_most(
                "rate: spread of a second, per that of the published PI",
                spreads["goal"] / spreads[PUBLISHED],
                1.0,
            ),
            beside(f"the same, worst of {len(SEEDS)} seeds", worst_spread),
            beside("the same in % of the goal", _by_law(spreads)),
            at_most(
                "rate, nothing random: samples until it stays within 2 %, worst of "
                f"{len(QUIET[0]) * len(QUIET[1]) * len(QUIET[2])} consumers",
                max(
                    quiet_settling(*plant, Selector(Goals(goal=1.0), LIMITS))
                    for plant in product(*QUIET)
                ),
                5,
            ),
            *(
                at_most(
                    f"rate of 0.5/s with {work} of 1 s: messages in {seconds} s, mean of "
                    f"{seeds} seeds, off what is asked for by %",
                    100 * abs(slow_rate(seconds, distribution, seeds) - 1),
                    5,
                )
                for seconds, work, distribution, seeds in SLOW_RATES
            ),
        ),
    }


def _means(
    found: Sequence[Mapping[str, tuple[float, float]]], metric: Literal[0, 1]
) -> dict[str, float]:
    return {law: mean(each[law][metric] for each in found) for law in found[0]}


def _by_law(found: Mapping[str, float]) -> str:
    return "; ".join(f"{law}: {value:.2f}" for law, value in found.items())


def buffer_time() -> dict[str, Any]:
    phases = buffer_time_found(0.05, 400)
    waits = [waiting(prefetch, 0.04).buffer_time for prefetch in (26, 51)]
    means = [mean(s.buffer_time for s in samples[TIME_SETTLE_SAMPLES:]) for samples in phases]
    within_20_percent_from = [
        max((k + 1 for k, s in enumerate(each) if abs(s.buffer_time / 0.05 - 1) > 0.2), default=0)
        for each in phases
    ]
    what = "50 ms in the buffer, with 4, 40 and again 4 ms of work"
    return {
        "mean": means,
        "within_20_percent_from_sample": within_20_percent_from,
        **verdict(
            at_least(
                "RabbitMQ's example: % of its time for which a prefetch of 26 keeps a handler of "
                "4 ms busy",
                100 * waiting(26, 0.004).busy,
                99.9,
            ),
            at_most(
                "the same with 40 ms of work: time in the buffer with 26 and 51, off 0.9 and 1.9 s "
                "by at most %",
                max(100 * abs(found / 0.9 - 1) for found in (waits[0], waits[1] - 1.0)),
                1.0,
            ),
            at_most(
                f"{what}: mean of the worst phase, from second {TIME_SETTLE_SAMPLES} on, off by %",
                max(100 * abs(each / 0.05 - 1) for each in means),
                3.0,
            ),
            at_most(
                f"{what}: seconds until it stays within 20 %, worst phase",
                max(within_20_percent_from),
                TIME_SETTLE_SAMPLES,
            ),
        ),
    }


def protect() -> dict[str, Any]:
    runs = [_protected(seed) for seed in SEEDS]
    worst = max(runs, key=lambda run: run["p99"] / run["p99_bound"])
    settled, whole = (
        [100 * run[part]["protect"] / run[part]["best fixed"] for run in runs]
        for part in ("settled_rates", "whole_rates")
    )
    of_best = "throughput, % of that of the best fixed concurrency"
    half = "protection, second half of each phase"
    return {
        "seeds": runs,
        **verdict(
            at_least(
                f"{half}: {of_best} whose p99 is within the bound, mean of {len(SEEDS)} seeds",
                mean(settled),
                95,
            ),
            beside("the same, worst of the seeds", min(settled)),
            beside("the same in messages/second", _means_of(runs, "settled_rates")),
            at_most(
                f"{half}: worst p99 of the handler time, ms, at most twice that without "
                "congestion, of the seed that is nearest to it",
                1000 * worst["p99"],
                1000 * worst["p99_bound"],
            ),
            beside("the same of all laws, ms, mean of the seeds", _means_of(runs, "settled_p99s")),
            beside(f"protection, whole phases: {of_best}, mean of the seeds", mean(whole)),
            beside("the same, worst of the seeds", min(whole)),
            beside("the same in messages/second", _means_of(runs, "whole_rates")),
            beside(
                "protection, whole phases: worst p99, ms, mean of the seeds",
                _means_of(runs, "whole_p99s"),
            ),
        ),
    }


def _means_of(runs: Sequence[Mapping[str, Any]], what: str) -> str:
    """The mean of the seeds by the name of the law."""
    return "; ".join(f"{law}: {mean(run[what][law] for run in runs):.0f}" for law in runs[0][what])


def _protected(seed: int) -> dict[str, Any]:
    """Rates (messages/second) and p99s (milliseconds) of laws and of the best fixed concurrency."""
    tried = {u: protected(peers.fixed(float(u)), PROTECTED_SAMPLES, seed) for u in range(4, 17)}
    bound = 2 * tried[4].settled.p99s[0]
    laws = {
        "protect": Selector(Goals(protect=True), LIMITS),
        "vegas": peers.vegas(),
        "gradient2": peers.gradient2(),
    }
    found = {name: protected(law, PROTECTED_SAMPLES, seed) for name, law in laws.items()}
    best, best_rate = best_within(tried, bound, "settled")
    best_whole, best_whole_rate = best_within(tried, bound, "whole")
    return {
        "seed": seed,
        "p99": found["protect"].settled.p99,
        "p99_bound": bound,
        "best_fixed": {"settled": best, "whole": best_whole},
        "settled_rates": {
            **{name: law.settled.rate for name, law in found.items()},
            "best fixed": best_rate,
        },
        "whole_rates": {
            **{name: law.whole.rate for name, law in found.items()},
            "best fixed": best_whole_rate,
        },
        "settled_p99s": {name: 1000 * law.settled.p99 for name, law in found.items()},
        "whole_p99s": {name: 1000 * law.whole.p99 for name, law in found.items()},
        "laws": {name: asdict(law) for name, law in found.items()},
    }


def selector() -> dict[str, Any]:
    """A ceiling and a time in the buffer over a day, with and without tracking."""
    tracking, untracked = day(24), day(4, tracking=False)
    what = "a ceiling and a time in the buffer over a day"
    without = "the same without tracking"
    return {
        "laws_in_force": sorted(tracking.laws_in_force),
        **verdict(
            at_least(f"{what}: laws that were in force", len(tracking.laws_in_force), 2),
            at_most(
                f"{what}: the prefetch after a change of hands, beyond what it was before and what "
                "it settles at by at most, %",
                tracking.prefetch_overshoot,
                5,
            ),
            beside(f"{without}, %", untracked.prefetch_overshoot),
            at_most(
                f"{what}: samples after a change of hands until the prefetch stays within 10 % of "
                "what it settles at",
                tracking.prefetch_settles_after,
                MOST_SETTLING_SAMPLES,
            ),
            beside(without, untracked.prefetch_settles_after),
            at_most(f"{what}: overshoot of the time, %", tracking.time_overshoot, 5),
            beside(f"{without}, %", untracked.time_overshoot),
            beside(
                f"{what}: overshoot of the ceiling, which the bucket keeps whatever laws do, %",
                tracking.rate_overshoot,
            ),
        ),
    }


def robust() -> dict[str, Any]:
    """Models drawn from the 95 % sets of some that were identified from simulated traces.

    A robust P, PI and PID are designed for each set, and judged on every model drawn from it: the
    law itself runs there, and only the margin is computed.
    """
    draw = random.Random(DRAW)
    found = list(identified_plants(IDENTIFIED, DRAW))
    models = [each.fit.model for each in found if each.fit.model is not None]
    widths: dict[str, list[float]] = {"a": [], "b_percent": []}
    worse = dict.fromkeys(("settling", "margin", "overshoot"), -math.inf)
    unstable = drawn_models = 0
    for number, model in enumerate(models):
        intervals = model.confidence_intervals
        assert intervals is not None
        widths["a"].append((intervals.a[1] - intervals.a[0]) / 2)
        widths["b_percent"].append(50 * (intervals.b[1] - intervals.b[0]) / model.b)
        share = MODELS * (number + 1) // len(models) - MODELS * number // len(models)
        set_of_models = [drawn_from(model, draw) for _ in range(share)]
        drawn_models += share
        for kind in KINDS:
            design = design_controller(model, kind, robust=True)
            assert design.worst is not None
            for each in set_of_models:
                done = law_run(design.tuning, each)
                unstable += not done.stable
                for name, share_worse in exceeded(done, design.worst).items():
                    worse[name] = max(worse[name], share_worse)
    return {
        "traces": len(found),
        "identified": len(models),
        "half_width_a": spread(widths["a"]),
        "half_width_b_percent": spread(widths["b_percent"]),
        "models": drawn_models,
        **verdict(
            at_most(
                f"robust P, PI and PID on {drawn_models} models of {len(models)} identified sets: "
                f"unstable loops of {drawn_models * len(KINDS)}",
                unstable,
                0,
            ),
            *(
                at_most(
                    f"the same: the stated {name} is exceeded by at most, % of it" + where,
                    100 * worse[name],
                    5,
                )
                for name, where in (
                    ("settling", ""),
                    ("margin", ""),
                    (
                        "overshoot",
                        f" (of {LEAST_OVERSHOOT_PERCENT:g} % of the step where it is less)",
                    ),
                )
            ),
        ),
    }


PARTS: dict[str, Callable[[], Any]] = {
    part.__name__: part for part in (least, handlers, rate, buffer_time, protect, selector, robust)
}


def run(*parts: str) -> dict[str, Any]:
    found = {}
    for name, part in chosen(PARTS, parts).items():
        print(f" {name}", file=sys.stderr)
        found[name] = part()
    return found
