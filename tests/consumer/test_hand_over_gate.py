"""The gate asks for a message a little before it may go, because timers are late."""

from __future__ import annotations

from itertools import pairwise

import pytest

from controlmq.consumer.bucket import Bucket
from controlmq.consumer.hand_over_gate import Arrived, Gate

RATE = 10.0


def gate_with(messages: int) -> Gate:
    gate = Gate()
    gate.bucket = Bucket(RATE, 1.0)
    for tag in range(messages):
        gate.waiting.append(Arrived(tag, None, 0.0, None))  # type: ignore[arg-type]
    return gate


def taken(gate: Gate, late: float) -> list[float]:
    """When messages are handed over if every timer is late by ``late`` seconds."""
    times, now, asked = [], 0.0, 0
    while gate.waiting:
        asked += 1
        now = max(now, gate.ask_at) + late
        while gate.take(now) is not None:
            times.append(now)
    assert asked < 3 * len(times)
    return times


@pytest.mark.parametrize("late", [0.0, 0.0003, 0.001, 0.004])
def test_timers_that_are_late_cost_no_tokens(late: float) -> None:
    times = taken(gate_with(400), late)
    assert (len(times) - 100) / (times[-1] - times[99]) == pytest.approx(RATE, rel=0.001)


def test_a_gate_never_opens_early() -> None:
    gate, now = gate_with(300), 0.0
    times = []
    for number in range(2000):
        now = max(now, gate.ask_at) + 0.001 * (number % 3)
        if gate.take(now) is not None:
            times.append(now)
        if not gate.waiting:
            break
    assert len(times) == 300
    assert min(b - a for a, b in pairwise(times)) >= 1 / RATE - 1e-9


def test_an_early_timer_is_followed_by_one_for_the_very_instant() -> None:
    gate = gate_with(100)
    taken_before = 0
    now = 0.0
    while taken_before < 50:
        now = max(now, gate.ask_at) + 0.002
        taken_before += gate.take(now) is not None
    opens_at = gate.opens_at
    assert gate.ask_at < opens_at
    assert gate.take(gate.ask_at) is None
    assert gate.ask_at == opens_at


def test_a_handler_that_is_busy_for_long_is_hardly_taken_for_a_late_timer() -> None:
    gate, now = gate_with(3), 0.0
    assert gate.take(now) is not None
    assert gate.take(gate.ask_at + 5.0) is not None
    assert gate.opens_at - gate.ask_at < 0.001


def test_asking_whether_a_gate_is_open_changes_nothing() -> None:
    gate = gate_with(3)
    gate.until = 2.0
    before = vars(gate) | {"waiting": list(gate.waiting)}
    assert [gate.is_open(now) for now in (1.0, 2.0, 1.0)] == [True, False, True]
    assert vars(gate) | {"waiting": list(gate.waiting)} == before
