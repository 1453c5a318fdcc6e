"""Goals without a model on simulated consumers, at a size that takes seconds."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Sequence

import pytest

from controlmq.controllers.buffer_time import BufferTime
from controlmq.controllers.limits import Limits
from controlmq.controllers.scale import Scale
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.loop import Controller
from simulator.studies.tournament import peers
from simulator.studies.tournament.plants import Phase, TrialConsumer, drawn, with_rates
from tests.known.goal_cases import (
    LIMITS,
    MOST_SETTLING_SAMPLES,
    PUBLISHED_WORK,
    SLOW_WORK,
    PhaseFound,
    best_within,
    buffer_time_found,
    by_phase,
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


@pytest.mark.parametrize("plants", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_least_prefetch_loses_little_and_buffers_little(plants: int) -> None:
    """Counted over 10,000 messages a phase, where chance is worth a percent."""
    found = [phase for plant in drawn(plants, 7, 1e4) for phase in least_found(plant, 1)]
    assert statistics.fmean(phase.lost_percent for phase in found) < 1.5
    assert max(phase.lost_percent for phase in found) < 3.0
    assert_that_few_wait(found)
    assert all(phase.recovered for phase in found)


def assert_that_few_wait(found: Sequence[PhaseFound]) -> None:
    """1.15 times as many as with the best fixed prefetches, or half a message more."""
    waits, best_waits = mean_waiting(found)
    assert waits <= may_wait(best_waits)


@pytest.mark.slow
@pytest.mark.parametrize("plants", [drawn(3, 7, 1e5), [pool(1e5)]], ids=["drawn", "pool"])
def test_the_least_prefetch_costs_as_little_as_is_promised(plants: Sequence[TrialConsumer]) -> None:
    """1.2 % in the mean and 2 % at worst, counted over 100,000 messages a phase."""
    found = [phase for plant in plants for phase in least_found(plant, 1)]
    assert statistics.fmean(phase.lost_percent for phase in found) <= 1.2
    assert max(phase.lost_percent for phase in found) <= 2.0
    assert_that_few_wait(found)


def test_regular_work_does_not_cost_more_because_its_idleness_comes_in_lumps() -> None:
    """A slot too few leaves the handler idle for a tenth of its time, and a slot more for none."""
    phases = [Phase(300, 0.00382, 0.001546)]
    (found,) = least_found(TrialConsumer("regular", phases), 1)
    assert found.lost_percent < 1.5


def test_the_margin_of_the_least_prefetch_does_not_wind_up_at_the_upper_limit() -> None:
    """Ten times the work after a round trip that the limit was too low for."""
    phases = [Phase(30, 0.02, 0.002), Phase(60, 0.2, 0.002), Phase(15, 0.2, 0.02)]
    limited = Selector(Goals(), Limits(0.1, 50.0))
    _, at_limit, samples = by_phase(TrialConsumer("limited", phases), limited, 1)
    assert at_limit[-1].prefetch == 50.0
    assert samples[-1].prefetch < 20.0


def test_the_promise_of_few_that_wait_is_a_share_or_half_a_message() -> None:
    assert may_wait(1.0) == 1.5
    assert may_wait(10.0) == pytest.approx(11.5)


@pytest.mark.parametrize(
    ("plant", "messages"),
    [
        (drawn(1, 7)[0], 4e4),
        pytest.param(pool(1e5), 4e5, marks=pytest.mark.slow),
        *(pytest.param(plant, 4e5, marks=pytest.mark.slow) for plant in drawn(3, 7)),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_throughput_is_back_within_15_samples(plant: TrialConsumer, messages: float) -> None:
    """When the round trip triples or work doubles, or other handlers are there: in messages."""
    soon = counted_soon(plant, messages)
    assert have_recovered(soon) == len(plant.phases), soon


@pytest.mark.slow
def test_a_rate_is_nearer_to_its_goal_than_under_the_published_pi_with_its_model() -> None:
    found = [rate_found(plant, 1) for plant in with_rates(drawn(4, 7, 1e4))]
    (error, sd), (published_error, published_sd) = (
        [statistics.fmean(each[law][metric] for each in found) for metric in (0, 1)]
        for law in ("goal", "pi, published poles")
    )
    assert error <= 0.6 * published_error
    assert sd <= published_sd


def test_the_least_prefetch_follows_the_number_of_handlers() -> None:
    phases = [Phase(60, 0.02, 0.005, handlers) for handlers in (2, 8, 2)]
    plant = TrialConsumer("pool", phases, "exponential")
    for phase, samples in zip(phases, by_phase(plant, Selector(Goals(), LIMITS), 1), strict=True):
        rate = statistics.fmean(sample.rate for sample in samples[30:])
        assert rate > 0.97 * phase.capacity
        assert statistics.fmean(sample.prefetch for sample in samples[30:]) < 20 * phase.handlers


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("law", [Scale(LIMITS), Selector(Goals(goal=1.0), LIMITS)])
def test_a_rate_without_a_model_is_there_within_five_samples(share: float, law: Controller) -> None:
    assert quiet_settling(0.011, 0.001, share, copy.deepcopy(law)) <= 5


@pytest.mark.parametrize(
    ("samples", "distribution", "seeds"),
    [(200, "deterministic", 1), (200, "exponential", 4), (2000, "exponential", 2)],
)
def test_a_rate_below_that_of_one_message_at_a_time(
    samples: int, distribution: str, seeds: int
) -> None:
    """One message in two seconds, with one second of work."""
    assert slow_rate(samples, distribution, seeds) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("handlers", "work", "share"), [(1, 0.05, 0.5), (1, 0.05, 0.8), (4, 0.2, 0.7)]
)
def test_a_slow_rate_is_held_although_work_is_random(
    handlers: int, work: float, share: float
) -> None:
    goal = share * handlers / work
    plant = TrialConsumer("slow", [Phase(600, 0.011, work, handlers, goal)], "exponential")
    (samples,) = by_phase(plant, Selector(Goals(goal=goal), LIMITS), 1)
    assert statistics.fmean(sample.rate for sample in samples) == pytest.approx(goal, rel=0.04)


def test_a_rate_is_held_with_little_more_than_it_needs() -> None:
    plant = TrialConsumer("near", [Phase(80, 0.011, 0.001, goal=400.0)], "exponential", jitter=0.2)
    (samples,) = by_phase(plant, Selector(Goals(goal=400.0), LIMITS), 1)
    rates = [sample.rate for sample in samples[20:]]
    assert statistics.fmean(rates) == pytest.approx(400, rel=0.002)
    assert statistics.pstdev(rates) < 0.01 * 400
    assert statistics.fmean(s.prefetch for s in samples[20:]) < 1.6 * 400 * 0.0142


def test_the_published_example_of_a_buffer() -> None:
    """26 keep a consumer of 4 ms busy; at 40 ms 26 and 51 wait for u S - R - S."""
    assert waiting(26, PUBLISHED_WORK).busy > 0.999
    assert waiting(25, PUBLISHED_WORK).busy < 0.97
    assert waiting(26, SLOW_WORK).buffer_time == pytest.approx(0.9, rel=0.01)
    assert waiting(51, SLOW_WORK).buffer_time == pytest.approx(1.9, rel=0.01)


def test_messages_wait_as_long_as_wanted_whatever_the_work() -> None:
    for samples in buffer_time_found(0.05, 60):
        assert all(abs(s.buffer_time / 0.05 - 1) < 0.2 for s in samples[5:])
        mean = statistics.fmean(sample.buffer_time for sample in samples[10:])
        assert mean == pytest.approx(0.05, rel=0.03)


def test_what_is_behind_handlers_is_protected() -> None:
    alone = protected(lambda sample, goal: 4.0, 40, 1)
    ours = protected(Selector(Goals(protect=True), LIMITS), 100, 1)
    assert ours.settled.p99 < 2 * alone.settled.p99s[0]
    assert min(ours.settled.rates[0], ours.settled.rates[2]) > 0.9 * 800
    assert ours.settled.rates[1] > 0.4 * 800


@pytest.mark.parametrize("seed", [2, 49, 50])
def test_what_others_take_is_not_taken_for_slower_work(seed: int) -> None:
    """With these seeds the first samples after a cut have long handler times."""
    alone = protected(lambda sample, goal: 4.0, 40, seed)
    ours = protected(Selector(Goals(protect=True), LIMITS), 400, seed)
    assert ours.settled.p99 < 2 * alone.settled.p99s[0]


@pytest.mark.slow
def test_protection_keeps_the_throughput_of_the_best_fixed_concurrency() -> None:
    """The best of those whose p99 stays within twice the one without congestion."""
    tried = {u: protected(peers.fixed(float(u)), 200, 1) for u in range(4, 17)}
    bound = 2 * tried[4].settled.p99s[0]
    ours = protected(Selector(Goals(protect=True), LIMITS), 200, 1).settled
    assert ours.rate >= 0.95 * best_within(tried, bound, "settled")[1]
    assert ours.p99 <= bound


@pytest.mark.parametrize("samples", [600, pytest.param(3600, marks=pytest.mark.slow)])
def test_goals_take_turns_without_winding_up(samples: int) -> None:
    found = day(4, samples=samples)
    assert found.laws_in_force == {"least", "buffer_time"}
    assert found.time_overshoot < 5
    assert found.prefetch_overshoot < 5
    assert found.prefetch_settles_after <= MOST_SETTLING_SAMPLES


@pytest.mark.parametrize("samples", [600, pytest.param(3600, marks=pytest.mark.slow)])
def test_without_tracking_they_wind_up(samples: int) -> None:
    found = day(4, tracking=False, samples=samples)
    assert found.time_overshoot > 5
    assert found.prefetch_overshoot > 5
    assert found.prefetch_settles_after > MOST_SETTLING_SAMPLES


@pytest.mark.parametrize("distribution", ["deterministic", "exponential"])
@pytest.mark.parametrize("handlers", [2, 4])
def test_tasks_that_outlast_a_sample_wait_as_long_as_wanted(
    distribution: str, handlers: int
) -> None:
    """The filling of a window that grows would look like a higher rate where a sample has few."""
    plant = TrialConsumer(
        "tasks", [Phase(120, 0.001, 1.5, handlers)], distribution, prefetch=handlers
    )
    (samples,) = by_phase(plant, BufferTime(Limits(float(handlers), 100.0), 0.1), 1)
    waited = sum(sample.buffer_time * sample.arrivals for sample in samples)
    assert waited / sum(sample.arrivals for sample in samples) == pytest.approx(0.1, rel=0.2)
    assert max(sample.prefetch for sample in samples) < 1.3 * handlers
