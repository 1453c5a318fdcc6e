"""The core and the compiled simulator are one window (all plants: benchmark simulated_window)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controlmq.consumer import consumer, core, gate, window
from controlmq.consumer.consumer import DEFAULT_MAX_HELD, Shape
from simulator.engine import bucket
from simulator.engine import window as compiled
from tests.worlds.steady import Plant, grid, instants_differ_at, rates

UNEVEN_SECONDS = 0.1037
"""Of a sample: no multiple of the work, so that no sample ends in the instant of an ack."""

PLANTS = random.Random(3).sample(list(grid()), 96)


@pytest.mark.parametrize("plant", PLANTS[:12], ids=str)
def test_both_worlds_have_the_same_rate(plant: Plant) -> None:
    plant = replace(plant, interval=60 / plant.expected_rate)
    around_core, simulated = rates(plant, samples=20)
    assert around_core == pytest.approx(simulated, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_slots_open_at_the_same_instants(plant: Plant) -> None:
    assert instants_differ_at(replace(plant, interval=UNEVEN_SECONDS), seconds=0.6) is None


@pytest.mark.slow
@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.spread][:40], ids=str)
def test_spreading_gives_the_rate_of_theory(plant: Plant) -> None:
    plant = replace(plant, interval=200 / plant.expected_rate)
    around_core, simulated = rates(plant)
    assert around_core == pytest.approx(plant.expected_rate, rel=0.03)
    assert simulated == pytest.approx(around_core, rel=0.01)


PACED = [
    Plant(prefetch, work, 0.011, handlers, spread, pace=pace)
    for prefetch, work, handlers, spread, pace in (
        (5.0, 0.001, 1, False, 387.3),
        (20.0, 0.001, 1, False, 387.3),
        (20.0, 0.003, 4, True, 387.3),
        (6.5, 0.001, 4, False, 299.1),
        (40.0, 0.0005, 1, True, 693.7),
        (3.0, 0.001, 1, False, 693.7),
        (60.0, 0.003, 4, False, 12.9),
    )
]
"""No rate divides a sample or a period of the gate, where rounding would decide."""


@pytest.mark.parametrize("plant", PACED, ids=str)
def test_both_worlds_keep_a_bound(plant: Plant) -> None:
    around_core, simulated = rates(plant, samples=20)
    assert around_core == pytest.approx(plant.expected_rate, abs=0.2)
    assert simulated == pytest.approx(around_core, abs=0.2)


@pytest.mark.parametrize("plant", PACED, ids=str)
def test_slots_open_at_the_same_instants_under_a_bound(plant: Plant) -> None:
    assert instants_differ_at(replace(plant, interval=UNEVEN_SECONDS), seconds=0.6) is None


def test_the_compiled_window_has_the_numbers_of_the_core() -> None:
    for name in ("STANDING_AFTER_SECONDS", "CUSHION_MESSAGES"):
        assert getattr(bucket, name) == getattr(gate, name)
    assert bucket.LEAST_OPENING_BURST == consumer.LEAST_OPENING_BURST
    for name in (
        "MADE_UP_ACKS",
        "MADE_UP_SECONDS",
        "MOST_ERROR_SLOT_SECONDS",
        "ROUNDING_SLOT_SECONDS",
    ):
        assert getattr(compiled, name) == getattr(window, name)
    assert compiled.IDLE_AFTER_SECONDS == core.IDLE_AFTER_SECONDS
    assert compiled.MAX_HELD == DEFAULT_MAX_HELD
    assert Shape().max_hold == compiled.MAX_HOLD_SECONDS
