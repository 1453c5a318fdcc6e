"""The core and the compiled simulator are one window (all plants: benchmark simulated_window)."""

from __future__ import annotations

import random
from dataclasses import asdict, replace

import pytest

from controlmq.consumer import consumer, core, hand_over_gate, held_acks, sensors
from controlmq.consumer.consumer import DEFAULT_MAX_HELD, Shape
from simulator.engine import bucket
from simulator.engine import window as compiled
from tests.worlds.steady import Plant, SimulatorWorld, grid, instants_differ_at, rates, samples_of

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
PACED += [
    replace(PACED[0], burst=7.0),
    replace(PACED[3], burst=1.0, later_pace=97.3),
    replace(PACED[0], pace=97.3, later_pace=299.1),
]
"""No rate divides a sample or a period of the gate, where rounding would decide."""

LONG = [pytest.param(plant, marks=pytest.mark.slow, id=str(plant)) for plant in PACED[1:5]]


@pytest.mark.parametrize("plant", [PACED[0], *LONG, *PACED[5:]], ids=str)
def test_both_worlds_keep_a_bound(plant: Plant) -> None:
    around_core, simulated = rates(plant, samples=20)
    assert around_core == pytest.approx(plant.expected_rate, abs=0.2)
    assert simulated == pytest.approx(around_core, abs=0.2)


@pytest.mark.parametrize("plant", PACED, ids=str)
def test_slots_open_at_the_same_instants_under_a_bound(plant: Plant) -> None:
    assert instants_differ_at(replace(plant, interval=UNEVEN_SECONDS), seconds=0.6) is None


@pytest.mark.parametrize("shift", [-0.00012, 0.00012])
def test_a_shift_of_little_more_than_a_tenth_of_a_millisecond_is_seen(
    monkeypatch: pytest.MonkeyPatch, shift: float
) -> None:
    acknowledged_at = SimulatorWorld.acknowledged_at

    def shifted(world: SimulatorWorld, seconds: float) -> int:
        return acknowledged_at(world, seconds - shift)

    monkeypatch.setattr(SimulatorWorld, "acknowledged_at", shifted)
    assert instants_differ_at(replace(PACED[5], interval=UNEVEN_SECONDS), seconds=0.6) is not None


SENSED = [
    Plant(prefetch, work, round_trip, handlers, spread, 300.0 / rate, pace, offered)
    for prefetch, work, round_trip, handlers, spread, pace, offered, rate in (
        (3.0, 0.001, 0.011, 1, False, 0.0, 0.0, 250.0),  # the network is the limit
        (10.5, 0.0005, 0.011, 4, True, 0.0, 0.0, 717.0),  # and acks are held and spread
        (25.5, 0.001, 0.011, 1, True, 0.0, 0.0, 1003.0),  # a handler is, and messages wait for it
        (23.5, 0.001, 0.0113, 4, False, 0.0, 0.0, 1903.0),
        (27.0, 0.003, 0.0003, 1, False, 0.0, 0.0, 331.0),  # on a network below a millisecond
        (20.0, 0.001, 0.011, 1, False, 387.3, 0.0, 391.0),  # a bound is
        (6.5, 0.001, 0.011, 4, False, 299.1, 0.0, 301.0),
        (20.0, 0.001, 0.011, 1, False, 0.0, 97.3, 97.0),  # the queue is dry
        (20.0, 0.001, 0.011, 4, True, 0.0, 197.3, 197.0),
    )
]
"""Samples have about 300 messages, so that one more or less is a third of a percent."""

SENSED += [
    Plant(6.0, 0.01, 0.011, handlers, False, pace=pace)
    for handlers, pace in ((1, 0.0831), (1, 0.391), (4, 0.391))
]
"""And a few whose samples have hardly any: messages wait at the gate for longer than a sample."""

SENSED += [
    Plant(prefetch, work, 0.011, handlers, False, interval=0.9, threads=True)
    for prefetch, work, handlers in ((3.0, 5.0, 1), (8.0, 10.0, 4), (8.0, 1.5, 4), (6.0, 0.4, 1))
]
SENSED += [Plant(3.0, work, 0.011, 1, False, interval=0.9) for work in (1.5, 5.0)]
"""Work longer than a sample or half as long, in a pool; and longer, in the client's own thread."""

SENSED += [Plant(20.0, 0.01, 0.011, 1, False, interval=10.3, pace=0.83)]
"""And one whose acks would wait for their tokens for longer than any ack is held."""

LEAST_KNOWN_TURNAROUND = sensors.WAITING_AFTER_SECONDS

TOLERANCES = {
    "time": (0.0, 1e-6),
    "interval": (0.0, 1e-6),
    "prefetch": (0.0, 0.0),
    "arrivals": (0.0, 1.0),
    "starved": (0.0, 0.02),
    "in_flight": (0.01, 0.02),
    "handler_time": (0.01, 0.0),
    "buffer_time": (0.01, 0.00002),
    "held": (0.01, 0.02),
    "handlers": (0.0, 0.0),
    "busy": (0.0, 0.005),
    "turnaround": (0.03, 0.0),  # while a queue runs dry, the core takes some of that for it
    "gated": (0.01, 0.01),
    "unused": (0.0, 0.01),
}
"""How far a field of a sample may be off: a share, or in its own unit, whichever is more."""


@pytest.mark.parametrize("plant", SENSED, ids=str)
def test_both_worlds_sense_the_same(plant: Plant) -> None:
    around_core, simulated = (asdict(sample) for sample in samples_of(plant, 12))
    del around_core["number"], simulated["number"]  # one counts from 0, the other from 1
    if plant.handlers == 1:  # no message is looked for while the client's thread runs the handler
        simulated["starved"] *= 1 - simulated["busy"]
    if plant.round_trip < LEAST_KNOWN_TURNAROUND:
        # The core does not know it, and takes it for time in the buffer: as documented.
        assert around_core.pop("turnaround") == 0.0
        around_core["buffer_time"] -= simulated.pop("turnaround")
    for name, value in around_core.items():
        share, amount = TOLERANCES[name]
        assert value == pytest.approx(simulated[name], rel=share, abs=amount), name


def test_the_compiled_window_has_the_numbers_of_the_core() -> None:
    for name in ("STANDING_AFTER_SECONDS", "CUSHION_MESSAGES"):
        assert getattr(bucket, name) == getattr(hand_over_gate, name)
    assert bucket.LEAST_OPENING_BURST == consumer.LEAST_OPENING_BURST
    for name in (
        "MADE_UP_ACKS",
        "MADE_UP_SECONDS",
        "MOST_ERROR_SLOT_SECONDS",
        "ROUNDING_SLOT_SECONDS",
    ):
        assert getattr(compiled, name) == getattr(held_acks, name)
    assert compiled.IDLE_AFTER_SECONDS == core.IDLE_AFTER_SECONDS
    assert compiled.MAX_HELD == DEFAULT_MAX_HELD
    assert Shape().max_hold == compiled.MAX_HOLD_SECONDS
