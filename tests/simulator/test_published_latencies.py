"""What the sources measured on real brokers, beside what is made of it here."""

from __future__ import annotations

import pytest

from benchmarks import schmid_latency, specjms_prediction


def test_the_authors_line_gives_the_authors_latencies() -> None:
    found = schmid_latency.run_interaction_1()
    assert found["met"]
    assert found["median_error_percent"] == pytest.approx(12.70, abs=0.01)


def test_a_cost_for_every_copy_explains_what_fan_out_takes() -> None:
    found = schmid_latency.run_interaction_3()["ours_ms"]
    assert found["10 subscribers, link alone"] == pytest.approx(1.404, rel=1e-3)
    assert found["10 subscribers, with copies"] == pytest.approx(2.39, rel=0.05)
    assert found["1 subscribers, with copies"] == pytest.approx(1.45, rel=0.05)


def test_a_prediction_at_no_load_is_what_was_measured() -> None:
    for case in specjms_prediction.CASES:
        found = specjms_prediction.predicted(case, 1e-9)
        assert list(found.values()) == pytest.approx(list(case.measured_low.values()), rel=0.05)


def test_predictions_grow_with_the_load_that_is_assumed() -> None:
    for case in specjms_prediction.CASES:
        less, more = (specjms_prediction.predicted(case, load) for load in (0.5, 0.7))
        assert all(less[number] < more[number] for number in less)
    assert specjms_prediction.run()["author_median_error_percent"] == pytest.approx(9.53, abs=0.01)
