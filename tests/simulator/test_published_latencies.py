"""What the sources measured on real brokers, beside what is made of it here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.known import schmid_latency, specjms_prediction, specjms_tandem
from tests.known.sachs_measured import CASES, Case


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
    for case, found in zip(CASES, specjms_prediction.assumed(1e-9), strict=True):
        assert list(found.values()) == pytest.approx(list(case.measured_low.values()), rel=0.05)


def test_predictions_grow_with_the_load_that_is_assumed() -> None:
    for less, more in zip(*map(specjms_prediction.assumed, (0.5, 0.7)), strict=True):
        assert all(less[number] < more[number] for number in less)


def test_the_loads_a_scenario_shows_give_back_what_was_measured_there() -> None:
    for case in CASES:
        shown = {
            group: sum(loads) / len(loads)
            for group, loads in specjms_prediction.loads_of(case).items()
        }
        found = specjms_prediction.predicted(case, shown)
        alone = [number for number in found if number > 2]
        assert [found[number] for number in alone] == pytest.approx(
            [case.measured_high[number] for number in alone], rel=0.12
        )


@pytest.mark.parametrize("index", range(len(CASES)))
def test_nothing_measured_at_the_higher_base_is_used_to_predict_it(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predicted(case: Case) -> dict[int, float]:
        return specjms_prediction.predicted(case, specjms_prediction.others_loads(case))

    case = CASES[index]
    before = predicted(case)
    longer = {number: 9.9 * time for number, time in case.measured_high.items()}
    changed = replace(case, measured_high=longer)
    others = (*CASES[:index], changed, *CASES[index + 1 :])
    monkeypatch.setattr(specjms_prediction, "CASES", others)
    assert predicted(changed) == before


@pytest.mark.slow
def test_completion_times_are_predicted_no_worse_than_by_the_author() -> None:
    found = specjms_prediction.run()
    assert found["author_median_error_percent"] == pytest.approx(9.53, abs=0.01)
    assert found["met"]


def test_a_line_of_eight_cores_makes_service_longer_as_erlang_says() -> None:
    assert specjms_tandem.stretched(0.0) == 1.0
    # All eight are busy with a probability of 0.35698, by the sum written out.
    assert specjms_tandem.stretched(0.75) == pytest.approx(1 + 0.35698 / 2, abs=1e-5)


@pytest.mark.slow
def test_no_published_base_overloads_the_fitted_resources() -> None:
    demands = specjms_tandem.fitted()
    for case in CASES:
        for base in (case.low, case.high):
            busy = specjms_tandem.loads(demands, case, base)
            assert max(busy.cpu, busy.disk) < specjms_tandem.MOST_LOAD + 0.01
