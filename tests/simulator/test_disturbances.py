"""What a user can do to a running scenario."""

from __future__ import annotations

import math

import pytest

from controlmq.errors import InputError
from simulator import Duration, SimulatedConsumer, Simulation
from tests.simulator.scenarios import ROSA, one_queue, with_prefetch


def test_paused_publishers_starve_the_consumer_until_they_resume() -> None:
    plant = SimulatedConsumer(with_prefetch(ROSA, 20))
    assert plant.observe().window_limited
    plant.pause_publishers()
    published = plant.counts.published
    draining = plant.observe()
    assert 0 < draining.starved < 1
    assert not draining.window_limited
    dry = plant.observe()
    assert (dry.arrivals, dry.starved) == (0, 1.0)
    assert plant.counts.published == published
    plant.resume_publishers()
    assert plant.observe().window_limited


def test_pausing_keeps_each_publisher_at_its_point_of_the_cycle() -> None:
    plain, paused = (
        Simulation(one_queue(Duration(0.7), Duration(0.0), prefetch=1)) for _ in range(2)
    )
    paused.run_until(2.0)
    paused.pause_publishers()
    paused.run_until(5.0)
    paused.resume_publishers()
    for time in (3.0, 4.0, 7.3):
        plain.run_until(time)
        paused.run_until(time + 3.0)
        assert plain.counts == paused.counts


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_the_publish_rate_follows_its_factor(factor: float) -> None:
    plant = SimulatedConsumer(ROSA)
    plant.observe()
    before = plant.counts.published
    plant.set_publish_rate(factor)
    plant.observe()
    assert plant.counts.published - before == pytest.approx(25_000 * factor, rel=0.002)


def test_a_rate_set_during_a_pause_waits_for_its_end() -> None:
    plant = SimulatedConsumer(ROSA)
    plant.pause_publishers()
    plant.set_publish_rate(2.0)
    plant.observe()
    assert plant.counts.published == 0
    plant.resume_publishers()
    plant.observe()
    assert plant.counts.published == pytest.approx(50_000, rel=0.002)


def test_slower_work_is_felt_in_rate_and_handler_time() -> None:
    plant = SimulatedConsumer(with_prefetch(ROSA, 20))
    plant.observe()
    plant.set_service_time(0.002)
    plant.observe()
    sample = plant.observe()
    assert sample.handler_time == pytest.approx(0.002)
    assert sample.rate == pytest.approx(2 / 0.002127, rel=0.002)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1e9, "fast", None])
def test_impossible_changes_are_refused(value: object) -> None:
    plant = SimulatedConsumer(ROSA)
    with pytest.raises(InputError, match="publish rate factor is"):
        plant.set_publish_rate(value)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="service time is"):
        plant.set_service_time(value)  # type: ignore[arg-type]


def test_work_without_time_cannot_be_stretched() -> None:
    plant = SimulatedConsumer(one_queue(Duration(0.01), Duration(0.0), prefetch=1))
    with pytest.raises(InputError, match="above 0"):
        plant.set_service_time(0.001)
