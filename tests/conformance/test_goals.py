"""What of a trial says whether a goal is held."""

from __future__ import annotations

import pytest

from tests.conformance.drivers import DRIVERS, Driver
from tests.conformance.goals import (
    BUFFER_SECONDS,
    GOALS,
    RATE,
    SETTLE_SAMPLES,
    Notes,
    judged,
    number_in,
)
from tests.faults.record import Line

BY_NAME = {goal.name: goal for goal in GOALS}

SAMPLES = [
    {"at": float(second), "rate": RATE, "buffer_time": BUFFER_SECONDS}
    for second in range(1, SETTLE_SAMPLES + 4)
]
"""Of a consumer that says that it holds its goal; the last one is after the end."""

BEGIN, END = float(SETTLE_SAMPLES), float(SETTLE_SAMPLES + 2)


def evenly(rate: float, until: float = END) -> list[float]:
    """Times of so many messages a second, from 0 on."""
    return [number / rate for number in range(1, int(until * rate) + 1)]


def test_neither_the_begin_nor_the_end_of_a_trial_counts() -> None:
    rates = [0.0] * SETTLE_SAMPLES + [99.0, 101.0] + [50.0]
    notes = Notes([{"rate": rate, "at": at} for at, rate in enumerate(rates)], measured=2)
    assert notes.mean("rate") == 100.0
    notes = Notes(SAMPLES, [*evenly(RATE), END + 0.1, END + 0.2], measured=2)
    assert notes.span == (BEGIN, END)
    assert notes.rate() == RATE


def test_a_rate_is_judged_by_its_hand_overs_and_not_by_the_consumer() -> None:
    times = evenly(90.0)
    notes = Notes(SAMPLES, times, begun=dict(enumerate(times)), measured=2)
    found = judged(BY_NAME["rate"], notes, [], [])
    assert found["deviation"] == pytest.approx(-0.1)
    assert found["deviation_sensed"] == 0.0
    assert found["failures"] == ["off by -0.1, at most 0.01 is allowed"]


def test_a_time_in_the_buffer_is_judged_by_receipt_and_handler() -> None:
    received = dict(enumerate(evenly(RATE)))
    begun = {number: at + 0.3 for number, at in received.items()}
    found = judged(BY_NAME["buffer time"], Notes(SAMPLES, (), received, begun, 2), [], [])
    assert found["deviation"] == pytest.approx(0.5)
    assert found["deviation_sensed"] == 0.0
    assert len(found["failures"]) == 1


@pytest.mark.parametrize("name", ["rate", "ceiling"])
def test_messages_that_were_handed_over_unnoted_fail_a_goal(name: str) -> None:
    times = evenly(0.9999 * RATE)
    begun = dict(enumerate(times))
    good = judged(BY_NAME[name], Notes(SAMPLES, times, begun=begun, measured=2), [], [])
    assert good["failures"] == []
    begun[len(begun)] = END
    missed = judged(BY_NAME[name], Notes(SAMPLES, times, begun=begun, measured=2), [], [])
    assert missed["failures"] == [
        f"{len(times) + 1} handlers began, and {len(times)} hand-overs were noted"
    ]


def test_a_ceiling_without_hand_overs_is_not_held() -> None:
    found = judged(BY_NAME["ceiling"], Notes(SAMPLES, measured=2), [], [])
    assert found["failures"] == ["0 handlers began, and 0 hand-overs were noted"]


def test_slots_above_the_bound_fail_a_goal() -> None:
    times = evenly(RATE)
    notes = Notes(SAMPLES, times, begun=dict(enumerate(times)), measured=2)
    found = judged(BY_NAME["rate"], notes, [Line(1.0, "above", 9, 4)], [])
    assert len(found["failures"]) == 1


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_the_number_of_a_message_can_be_read_on_the_network(driver: Driver) -> None:
    body, _ = driver.make(4711)
    assert number_in(body) == 4711
