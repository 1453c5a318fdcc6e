"""The "rosa" scenario has the shape that its source publishes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from controlmq.controllers import PI, Gains, Limits
from controlmq.loop import Loop, Sample
from simulator import SimulatedConsumer
from tests.simulator.scenarios import IN_FLIGHT_TIME, NOISY, ROSA, with_prefetch

SATURATION = 2 / 0.001127


def settled(prefetch: float, interval: float = 10.0, samples: int = 1) -> list[Sample]:
    scenario = replace(with_prefetch(ROSA, prefetch), sample_interval=interval)
    plant = SimulatedConsumer(scenario)
    plant.observe()
    return [plant.observe() for _ in range(samples)]


@pytest.mark.parametrize("prefetch", range(1, 21))
def test_a_whole_prefetch_gives_its_messages_per_time_in_flight(prefetch: int) -> None:
    assert settled(prefetch)[0].rate == pytest.approx(prefetch / IN_FLIGHT_TIME, rel=0.005)


def test_one_more_message_of_prefetch_adds_80_messages_a_second() -> None:
    prefetches = np.arange(1, 21)
    rates = [settled(float(prefetch))[0].rate for prefetch in prefetches]
    assert np.polyfit(prefetches, rates, 1)[0] == pytest.approx(80.0, rel=0.005)


@pytest.mark.parametrize("prefetch", [25, 60, 360])
def test_the_rate_saturates_at_what_two_handlers_can_do(prefetch: int) -> None:
    assert settled(prefetch)[0].rate == pytest.approx(SATURATION, rel=0.001)


def test_the_knee_is_where_the_line_meets_saturation() -> None:
    assert pytest.approx(22.2, abs=0.05) == SATURATION * IN_FLIGHT_TIME
    assert settled(22)[0].rate == pytest.approx(22 / IN_FLIGHT_TIME, rel=0.005)
    assert settled(23)[0].rate == pytest.approx(SATURATION, rel=0.005)


@pytest.mark.parametrize("interval", [1.0, 10.0])
@pytest.mark.parametrize(("prefetch", "rate"), [(5.625, 450.0), (0.375, 30.0), (12.1, 968.0)])
def test_a_fractional_prefetch_is_exact_on_average(
    prefetch: float, rate: float, interval: float
) -> None:
    samples = settled(prefetch, interval, samples=5)
    assert np.mean([sample.rate for sample in samples]) == pytest.approx(rate, rel=0.005)
    for sample in samples:
        assert sample.arrivals == pytest.approx(rate * interval, rel=0.005, abs=1)


def test_a_sample_tells_what_the_consumer_measured() -> None:
    sample = settled(5.0)[0]
    assert sample.number == 2
    assert sample.time == 20.0
    assert sample.interval == 10.0
    assert sample.prefetch == 5.0
    assert sample.in_flight == pytest.approx(2 * sample.rate / SATURATION)  # others are under way
    assert sample.handler_time == pytest.approx(0.001)
    assert sample.buffer_time == pytest.approx(0.0, abs=1e-4)
    assert sample.window_limited


def test_beyond_the_knee_messages_wait_in_the_consumer_instead() -> None:
    # Little's law: 100 in flight at the saturated rate, less what each spends elsewhere.
    sample = settled(100.0)[0]
    assert sample.buffer_time == pytest.approx(100 / SATURATION - IN_FLIGHT_TIME, rel=0.001)


def test_noise_costs_rate_and_more_so_near_the_knee() -> None:
    def efficiency(prefetch: float) -> float:
        plant = SimulatedConsumer(with_prefetch(NOISY, prefetch))
        return [plant.observe().rate for _ in range(3)][-1] / (prefetch / IN_FLIGHT_TIME)

    assert 0.95 < efficiency(2.0) < 1.05
    assert efficiency(22.0) < efficiency(10.0) < 1.0


def test_a_pi_controller_brings_the_consumer_to_its_goal() -> None:
    plant = SimulatedConsumer(ROSA)
    controller = PI(Gains(kp=-0.0045, ki=0.0045), Limits(0.1, 22))
    steps = list(Loop(plant, controller, goal=400.0).run(30))
    rates = [step.sample.rate for step in steps[-10:]]
    assert np.mean(rates) == pytest.approx(400.0, rel=0.002)
    assert np.std(rates) < 2.0
    assert steps[-1].prefetch == pytest.approx(5.0, abs=0.05)
