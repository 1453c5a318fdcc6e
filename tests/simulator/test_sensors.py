"""A simulated consumer measures what a live one does, with the same meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simulator import Duration, SimulatedConsumer
from tests.simulator.scenarios import one_queue

ROUND_TRIP = 0.1
OFTEN = Duration(0.001)


@pytest.mark.parametrize(
    ("prefetch", "work", "handlers", "busy", "waits"),
    [
        (1, 0.004, 1, 0.004 / 0.104, 0.0),
        (13, 0.004, 1, 0.5, 0.0),
        (26, 0.004, 1, 1.0, 0.0),
        # The published example: u S - R - S.
        (26, 0.040, 1, 1.0, 0.900),
        (51, 0.040, 1, 1.0, 1.900),
        (26, 0.040, 4, 1.0, 26 * 0.040 / 4 - 0.140),
    ],
)
def test_busy_share_turnaround_and_buffer_time_are_those_of_theory(
    prefetch: int, work: float, handlers: int, busy: float, waits: float
) -> None:
    scenario = one_queue(
        OFTEN,
        Duration(work),
        prefetch=prefetch,
        handlers=handlers,
        round_trip=ROUND_TRIP,
        max_length=1000,
    )
    plant = SimulatedConsumer(replace(scenario, sample_interval=10.0))
    sample = [plant.observe() for _ in range(3)][-1]
    assert sample.handlers == handlers
    assert sample.busy == pytest.approx(busy, rel=0.02)
    assert sample.turnaround == pytest.approx(ROUND_TRIP)
    assert sample.buffer_time == pytest.approx(waits, abs=0.001)
    slots = sample.rate * (sample.turnaround + sample.buffer_time + sample.handler_time)
    assert slots == pytest.approx(prefetch, rel=0.05)


def test_the_turnaround_has_no_time_in_it_that_a_slot_waits_for_the_queue() -> None:
    scenario = one_queue(Duration(0.5), Duration(0.004), prefetch=10, round_trip=ROUND_TRIP)
    plant = SimulatedConsumer(scenario)
    assert plant.observe().turnaround == 0.0  # not known yet
    plant.set_publish_rate(100)
    for _ in range(3):
        plant.observe()
    plant.set_publish_rate(1)
    for _ in range(60):
        sample = plant.observe()
    assert sample.starved > 0.9
    assert sample.turnaround == pytest.approx(ROUND_TRIP)


def acknowledging(**how: Any) -> SimulatedConsumer:
    scenario = one_queue(
        OFTEN, Duration(0.004), prefetch=20, round_trip=ROUND_TRIP, max_length=1000
    )
    consumer = replace(scenario.consumers[0], **how)
    return SimulatedConsumer(replace(scenario, sample_interval=10.0, consumers=[consumer]))


def test_a_message_is_in_flight_and_with_its_handler_until_it_is_acknowledged() -> None:
    """In batches of 5: the first of them waits until four more are done, the last for none."""
    plant = acknowledging(ack_batch=5)
    sample = [plant.observe() for _ in range(3)][-1]
    assert sample.handler_time == pytest.approx(0.004 * (1 + 2), rel=0.01)
    here = sample.buffer_time + sample.handler_time
    assert sample.in_flight == pytest.approx(sample.rate * here, rel=0.01)
    assert sample.in_flight + sample.rate * ROUND_TRIP == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize("acknowledge", ["on-receipt", "automatic"])
def test_what_is_acknowledged_as_it_comes_is_not_in_flight(acknowledge: str) -> None:
    plant = acknowledging(acknowledge=acknowledge)
    samples = [plant.observe() for _ in range(3)]
    assert samples[-1].busy > 0.1
    assert [sample.in_flight for sample in samples] == [0.0] * 3
