"""Which samples of a trial say whether a goal is held."""

from __future__ import annotations

from tests.conformance.goals import SETTLE_SAMPLES, Notes


def test_neither_the_begin_nor_the_end_of_a_trial_counts() -> None:
    rates = [0.0] * SETTLE_SAMPLES + [99.0, 101.0] + [50.0]
    notes = Notes([{"rate": rate} for rate in rates], [], measured=2)
    assert notes.mean("rate") == 100.0
