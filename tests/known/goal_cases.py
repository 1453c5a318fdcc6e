"""What goals without a model must do in simulation, at any size: for tests and benchmarks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Literal

from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.loop import Controller, Loop, Sample
from simulator import (
    Consumer,
    Duration,
    Publishers,
    Queue,
    Resource,
    Scenario,
    SimulatedConsumer,
)
from simulator.metrics import Latency
from simulator.studies.tournament.entries import RATE
from simulator.studies.tournament.peers import fixed
from simulator.studies.tournament.plants import Phase, TrialConsumer, drive
from simulator.studies.tournament.trials import buffered, lost, second_half

LIMITS = Limits(0.1, 1000.0)

MOST_LOST_PERCENT = 1.0
"""What the best fixed prefetch may lose: as much as the law lets handlers be idle."""

MAY_BUFFER_FACTOR, MAY_BUFFER_MORE = 1.15, 0.5
"""Of what the best fixed prefetch buffers, and messages beyond it: the larger one is allowed."""

RECOVERY_SAMPLES = 15
RECOVERED_SHARE = 0.03

SOON = slice(RECOVERY_SAMPLES, RECOVERY_SAMPLES + 10)
"""The samples in which a phase must have recovered."""

COUNTED_PHASE_SAMPLES = 60
"""Of each phase in runs that count messages to see whether it has recovered."""

COUNTED_MESSAGES, LEAST_COUNTED_SEEDS = 4e5, 5
"""Messages in the ten samples that are counted, over all seeds of a plant: so many scatter by less
than 0.3 %, also with work that spreads by 1.5 of its mean. And seeds, at least."""


def by_phase(plant: TrialConsumer, controller: Controller, seed: int) -> list[list[Sample]]:
    """The samples of each phase."""
    steps = drive(plant, controller, seed)
    return [[step.sample for _, step in found] for _, found in groupby(steps, lambda at: at[0])]


def mean_rate(samples: Sequence[Sample]) -> float:
    """Messages/second."""
    return statistics.fmean(sample.rate for sample in samples)


def mean_busy(samples: Sequence[Sample]) -> float:
    """Share of time for which handlers ran."""
    return statistics.fmean(sample.busy for sample in samples)


# Least prefetch


@dataclass(frozen=True)
class PhaseFound:
    """One phase under the law, and under the best fixed prefetch chosen with hindsight."""

    plant: str
    lost_percent: float
    buffered: float
    prefetch: float
    best_prefetch: float
    best_buffered: float
    messages: int
    """That the law handled."""
    recovered: bool
    """Whether from sample 15 on the throughput was within 3 % of the settled one, both as work
    done: the share of time for which handlers ran. In one run the number of messages in ten
    samples scatters by more than that where work is random: see :func:`counted_soon`."""

    @property
    def may_buffer(self) -> float:
        """The most that may wait here, by the measure for means over phases."""
        return may_wait(self.best_buffered)


def may_wait(best: float) -> float:
    """1.15 times what waits with the best fixed prefetch, or half a message more."""
    return max(MAY_BUFFER_FACTOR * best, best + MAY_BUFFER_MORE)


def mean_waiting(found: Sequence[PhaseFound]) -> tuple[float, float]:
    """Messages that wait under the law and with the best fixed prefetches, means over phases."""
    return (
        statistics.fmean(phase.buffered for phase in found),
        statistics.fmean(phase.best_buffered for phase in found),
    )


def least_found(plant: TrialConsumer, seed: int) -> list[PhaseFound]:
    """The law on a plant, phase by phase."""
    ours = by_phase(plant, Selector(Goals(), LIMITS), seed)
    full = by_phase(plant, fixed(1000.0), seed)
    found = []
    for phase, samples, without_loss in zip(plant.phases, ours, full, strict=True):
        settled = second_half(samples)
        rate = mean_rate(second_half(without_loss))
        # The jitter of the link stays what it was in the first phase.
        jitter = plant.jitter * plant.phases[0].round_trip / phase.round_trip
        best, waiting = best_fixed(replace(plant, phases=[phase], jitter=jitter), seed)
        found.append(
            PhaseFound(
                plant.name,
                lost(settled, rate),
                buffered(settled),
                statistics.fmean(sample.prefetch for sample in settled),
                best,
                waiting,
                sum(sample.arrivals for sample in samples),
                mean_busy(samples[SOON]) > (1 - RECOVERED_SHARE) * mean_busy(settled),
            )
        )
    return found


def counted_soon(plant: TrialConsumer, messages: float = COUNTED_MESSAGES) -> list[float]:
    """Messages/second in samples 16 to 25 of each phase, per those it settles at.

    Both are means over as many seeds as it takes to count this number of ``messages``.
    """
    phases = [replace(phase, samples=COUNTED_PHASE_SAMPLES) for phase in plant.phases]
    short = replace(plant, phases=phases)
    in_ten_samples = 10 * min(phase.capacity for phase in phases)
    seeds = max(LEAST_COUNTED_SEEDS, math.ceil(messages / in_ten_samples))
    runs = [by_phase(short, Selector(Goals(), LIMITS), seed) for seed in range(1, seeds + 1)]
    return [
        statistics.fmean(mean_rate(samples[SOON]) for samples in of_phase)
        / statistics.fmean(mean_rate(second_half(samples)) for samples in of_phase)
        for of_phase in zip(*runs, strict=True)
    ]


def have_recovered(shares: Sequence[float]) -> int:
    """In how many phases these shares are within 3 % of 1."""
    return sum(abs(share - 1) <= RECOVERED_SHARE for share in shares)


def pool(messages: float) -> TrialConsumer:
    """2, 8 and again 2 handlers; each phase is long enough to handle more than ``messages``.

    It is a twentieth longer than busy handlers need.
    """
    work = 0.005
    phases = [
        Phase(math.ceil(1.05 * messages * work / handlers), 0.02, work, handlers)
        for handlers in (2, 8, 2)
    ]
    return TrialConsumer("pool", phases, "exponential")


def best_fixed(plant: TrialConsumer, seed: int) -> tuple[float, float]:
    """The least whole prefetch that loses at most 1 %, by bisection, and how many it buffers.

    It is compared with a prefetch that loses nothing on the same plant with the same seed, so that
    random work is no loss: by chance the throughput of another run differs by as much.
    """

    def settled(prefetch: float) -> Sequence[Sample]:
        return second_half(by_phase(replace(plant, prefetch=prefetch), fixed(prefetch), seed)[0])

    full = mean_rate(settled(1000.0))

    @cache
    def tried(prefetch: int) -> tuple[float, float]:
        samples = settled(float(prefetch))
        return lost(samples, full), buffered(samples)

    low, high = 0, 1
    while tried(high)[0] > MOST_LOST_PERCENT:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tried(middle)[0] > MOST_LOST_PERCENT else (low, middle)
    return float(high), tried(high)[1]


# A rate


def rate_found(plant: TrialConsumer, seed: int) -> dict[str, tuple[float, float]]:
    """Mean size of the error and settled spread, percent of the goal, by the name of the law: ours,
    and the published PI with the model of the plant."""
    found = {}
    for entry in RATE[:3]:
        errors: list[float] = []
        spreads: list[float] = []
        for phase, samples in zip(
            plant.phases, by_phase(plant, entry.make(plant), seed), strict=True
        ):
            relative = [100 * (sample.rate / phase.goal - 1) for sample in samples]
            errors += map(abs, relative)
            spreads.append(statistics.pstdev(relative[len(relative) // 2 :]))
        found[entry.name] = (
            statistics.fmean(errors),
            statistics.fmean(spreads),
        )
    return found


def quiet_settling(round_trip: float, work: float, share: float, law: Controller) -> int:
    """Samples from prefetch 1 until the rate stays within 2 % of a share of the capacity."""
    goal = share / work
    plant = TrialConsumer("quiet", [Phase(40, round_trip, work, goal=goal)])
    rates = [sample.rate for sample in by_phase(plant, law, 1)[0]]
    off = [k for k, rate in enumerate(rates) if abs(rate / goal - 1) > 0.02]
    return off[-1] + 1 if off else 0


SLOW_GOAL, SLOW_RATE_WORK = 0.5, 1.0
"""Messages/second, and seconds of work: a rate below that of one message at a time."""


def slow_rate(samples: int, distribution: str, seeds: int) -> float:
    """Messages handed over in this number of seconds, per those of a slow goal; mean of seeds."""
    phases = [Phase(samples, 0.011, SLOW_RATE_WORK, goal=SLOW_GOAL)]
    plant = TrialConsumer("slow", phases, distribution)
    return statistics.fmean(
        mean_rate(by_phase(plant, Selector(Goals(goal=SLOW_GOAL), LIMITS), seed)[0]) / SLOW_GOAL
        for seed in range(1, seeds + 1)
    )


# A time in the buffer

PUBLISHED_ROUND_TRIP, PUBLISHED_WORK, SLOW_WORK = 0.1, 0.004, 0.04
"""Seconds. RabbitMQ's "Some queuing theory": 50 ms each way, 4 ms of work that becomes 40 ms."""


def waiting(prefetch: float, work: float) -> Sample:
    """The published consumer with a fixed prefetch, after 30 s."""
    plant = TrialConsumer(
        "published", [Phase(60, PUBLISHED_ROUND_TRIP, work)], prefetch=prefetch, spread_acks=False
    )
    return by_phase(plant, fixed(prefetch), 1)[0][-1]


def buffer_time_found(goal: float, samples: int, seed: int = 1) -> list[list[Sample]]:
    """Work of 4, 40 and again 4 ms under the law, by phase."""
    phases = [
        Phase(samples, PUBLISHED_ROUND_TRIP, work)
        for work in (PUBLISHED_WORK, SLOW_WORK, PUBLISHED_WORK)
    ]
    return by_phase(
        TrialConsumer("published", phases), Selector(Goals(buffer_time=goal), LIMITS), seed
    )


# Protecting what is behind the handlers

SERVERS, SERVICE = 8, 0.01
HANDLERS = 64


def shared(other_share: Sequence[float], phase_seconds: float) -> Scenario:
    """Eight servers behind 64 handlers, others taking these shares of them in turn, at random."""
    from simulator import Change

    most = max(other_share)
    return Scenario(
        "shared",
        1.0,
        [
            Publishers("ours", "ours", Duration(SERVICE / SERVERS / 1.5)),
            Publishers(
                "others",
                "others",
                Duration(SERVICE / SERVERS / most, "exponential"),
                schedule=[
                    Change(k * phase_seconds, share / most) for k, share in enumerate(other_share)
                ],
            ),
        ],
        [Queue("ours", max_length=5000), Queue("others")],
        [
            Consumer(
                "ours",
                "ours",
                Duration(SERVICE, "lognormal", 0.3 * SERVICE),
                handlers=HANDLERS,
                prefetch=4,
                resource="servers",
            ),
            Consumer(
                "others",
                "others",
                Duration(SERVICE, "lognormal", 0.3 * SERVICE),
                handlers=2000,
                prefetch=60_000,
                resource="servers",
            ),
        ],
        resources=[Resource("servers", SERVERS)],
    )


@dataclass(frozen=True)
class Protected:
    """Throughput (messages/second) and p99 of the handler time (seconds), of each phase."""

    rates: list[float]
    p99s: list[float]

    @property
    def rate(self) -> float:
        """Over all phases."""
        return statistics.fmean(self.rates)

    @property
    def p99(self) -> float:
        """Of the worst phase."""
        return max(self.p99s)


@dataclass(frozen=True)
class Protection:
    """What a law does with the second half of each phase, and with all of it."""

    settled: Protected
    whole: Protected


def protected(controller: Controller, phase_samples: int, seed: int) -> Protection:
    """Others take nothing, half of the servers, and nothing again."""
    scenario = shared((0.0, 0.5, 0.0), phase_samples)
    plant = SimulatedConsumer(scenario, seed=seed, consumer="ours")
    loop = Loop(plant, controller, None)
    settled, whole = Protected([], []), Protected([], [])

    def p99(since: Latency, until: Latency) -> float:
        counts = until.counts - since.counts
        return Latency(until.count - since.count, math.nan, counts).percentile(99.0)

    for _ in range(3):
        begin = plant.simulation.handler_times("ours")
        samples = [loop.step().sample for _ in range(phase_samples // 2)]
        half = plant.simulation.handler_times("ours")
        samples += [loop.step().sample for _ in range(phase_samples - phase_samples // 2)]
        end = plant.simulation.handler_times("ours")
        settled.rates.append(mean_rate(samples[phase_samples // 2 :]))
        settled.p99s.append(p99(half, end))
        whole.rates.append(mean_rate(samples))
        whole.p99s.append(p99(begin, end))
    return Protection(settled, whole)


def best_within(
    tried: Mapping[int, Protection], bound: float, part: Literal["settled", "whole"]
) -> tuple[int, float]:
    """The fixed prefetch with the most throughput whose p99 is within the bound, and its rate."""
    found = {prefetch: getattr(each, part) for prefetch, each in tried.items()}
    within = {prefetch: each.rate for prefetch, each in found.items() if each.p99 <= bound}
    best = max(within, key=lambda prefetch: within[prefetch])
    return best, within[best]


# Several goals at once


class Untracked:
    """A selector whose laws go on from what they asked for themselves, whatever is in force."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self._asked: dict[str, float] = {}

    def __call__(self, sample: Sample, goal: float) -> float:
        """The least that any law asks for."""
        for word, law in self.selector.laws.items():
            own = replace(sample, prefetch=self._asked.get(word, sample.prefetch))
            self._asked[word] = law(own, goal)
        return min(self._asked.values())


@dataclass(frozen=True)
class Day:
    """A simulated day at 100/s at most and 0.5 s in the buffer, while the work changes.

    Overshoots are percent of the worst sample: above the ceiling, which the bucket keeps whatever
    laws do; above the time in the buffer; and of the prefetch, as :func:`wound_up` has it.
    ``prefetch_settles_after`` is the number of samples until the prefetch has settled after a
    change of hands, of the slowest one.
    """

    rate_overshoot: float
    time_overshoot: float
    prefetch_overshoot: float
    prefetch_settles_after: int
    laws_in_force: set[str]


NEAR_SHARE = 0.1
"""A prefetch has settled once it stays within this share of what it settles at."""

MOST_SETTLING_SAMPLES = COUNTED_PHASE_SAMPLES // 2
"""After a change of hands: the second half of a phase counts as settled everywhere here, and no
phase is shorter."""


def wound_up(prefetches: Sequence[float]) -> float:
    """Percent by which a prefetch goes beyond where it was before a change and where it settles.

    They are those of one phase: the first is still the one before the change, and the mean of the
    second half is where it settles.
    """
    settled = statistics.fmean(prefetches[len(prefetches) // 2 :])
    return 100 * (max(prefetches) / max(prefetches[0], settled) - 1)


def settles_after(prefetches: Sequence[float]) -> int:
    """Samples after which the prefetch stays near what it settles at."""
    settled = statistics.fmean(prefetches[len(prefetches) // 2 :])
    off = [k for k, each in enumerate(prefetches) if abs(each / settled - 1) > NEAR_SHARE]
    return off[-1] + 1 if off else 0


def day(hours: int, tracking: bool = True, seed: int = 1, samples: int = 3600) -> Day:
    """Work is quick in one hour, so that the ceiling binds, and slow in the next.

    ``samples`` are those of an hour, which may be a short one.
    """
    at_most, buffer_time = 100.0, 0.5
    selector = Selector(Goals(at_most=at_most, buffer_time=buffer_time), LIMITS)
    law: Controller = selector if tracking else Untracked(selector)
    work = [0.002 if hour % 2 == 0 else 0.025 for hour in range(hours)]
    phases = [Phase(samples, 0.05, each) for each in work]
    consumer = SimulatedConsumer(TrialConsumer("day", phases).scenario(), seed=seed)
    consumer.pace(*selector.goals.pace(controlled=False))
    loop = Loop(consumer, law, None)
    rates, times, in_force = [0.0], [0.0], set()
    beyond, settled_after = [0.0], [0]
    for number, each in enumerate(work):
        consumer.set_service_time(each)
        seen = [loop.step().sample for _ in range(samples)]
        in_force.add(selector.in_force)
        rates += [100 * (sample.rate / at_most - 1) for sample in seen]
        times += [100 * (sample.buffer_time / buffer_time - 1) for sample in seen]
        if number > 0:  # at first the laws begin, and nothing changes hands
            prefetches = [sample.prefetch for sample in seen]
            beyond.append(wound_up(prefetches))
            settled_after.append(settles_after(prefetches))
    return Day(max(rates), max(times), max(beyond), max(settled_after), in_force)
