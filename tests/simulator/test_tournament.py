"""The tournament: every law plays, peers are tuned, and the page says who won."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controlmq.cli.main import main
from controlmq.loop import Sample
from simulator.studies.tournament import METRICS, TABLES, Trial, run_trial
from simulator.studies.tournament.peers import (
    envoy,
    gain_scheduled,
    gradient2,
    hpa,
    incremental,
    on_off,
    spark_rate,
    vegas,
)
from simulator.studies.tournament.plan import Plan, best_variants, table_of
from simulator.studies.tournament.vector import LAWS, SERVICES, in_flight

PLAN = Plan(tuning=1, held_out=2, seeds=1, messages=500)


@pytest.mark.parametrize("table", TABLES)
def test_every_law_plays(table: str) -> None:
    (drawn,) = PLAN.plants(table, 1, 5)
    plant = replace(drawn, phases=tuple(replace(each, samples=15) for each in drawn.phases))
    for entry in TABLES[table]:
        found = run_trial(Trial(table, entry.name, plant, 1))
        assert found.keys() == METRICS[table].keys(), entry.name


def test_ours_leads_where_it_is_tried() -> None:
    trials = [trial for trial in PLAN.trials("least", {}) if trial.entry in ("least", "fixed 10")]
    rows = table_of("least", trials, [run_trial(trial) for trial in trials])
    assert [row.entry.name for row in rows] == ["least", "fixed 10"]


def test_seeds_of_one_plant_are_one_observation() -> None:
    """Intervals by Student's t over plants: 1 and 3, whose half-width is 12.71 times 1."""
    plan = Plan(tuning=1, held_out=2, seeds=2, messages=500)
    trials = [trial for trial in plan.trials("least", {}) if trial.entry == "least"]
    found = [{"lost": lost, "buffered": 0.0} for lost in (0.5, 1.5, 2.0, 4.0)]
    (row,) = table_of("least", trials, found)
    assert [metrics["lost"] for metrics in row.by_plant.values()] == [1.0, 3.0]
    assert row.cost == row.means["lost"]
    assert row.cost.mean == 2.0
    assert row.cost.high - row.cost.mean == pytest.approx(12.7062, abs=1e-4)


def test_light_tuning_takes_the_variant_with_the_lowest_cost() -> None:
    trials = list(PLAN.tuning_trials("buffer_time"))
    found = [{"error": float(k), "lost": 0.0} for k in range(len(trials), 0, -1)]
    best = best_variants(trials, found)
    assert best == {"codel": {"interval_samples": 0.3}, "hpa": {"tolerance": 0.02}}


def sample(prefetch: float, rate: int, time: float) -> Sample:
    return Sample(1, 1.0, 1.0, prefetch, rate, handler_time=time)


def test_peers_are_their_formulas() -> None:
    assert hpa()(sample(10, 200, 0.1), 400) == 20
    assert on_off()(sample(10, 200, 0.1), 400) == 100
    # Envoy: the gradient is 1.25 at first, so 12.5 and the root of that.
    assert envoy()(sample(10, 200, 0.1), 1) == round(12.5 + 12.5**0.5)
    # Gradient2 grows by 0.8 of a slot while nothing waits.
    assert gradient2()(sample(10, 200, 0.1), 1) == round(10.8)
    law = vegas()
    assert law(sample(100, 200, 0.1), 1) == 102
    assert law(sample(100, 200, 0.2), 1) == 98


def test_incremental_laws_keep_the_fraction_that_rounding_takes_from_the_prefetch() -> None:
    law = incremental()
    # 10 - 0.0016 * 50 + 0.006 * 50 = 10.22, then 0.3 more with each sample that stays there.
    assert [law(sample(10, 350, 0.1), 400) for _ in range(3)] == [10, 11, 11]
    assert law(sample(11, 400, 0.1), 400) == 11  # 10.82 + 0.0016 * 50 = 10.9


def test_gain_scheduling_has_one_last_error_for_both_gains() -> None:
    law = gain_scheduled()
    # 250/s is above a quarter of the goal: 10 + 2 * (-0.0016 * 250 + 0.006 * 250) = 12.2.
    assert law(sample(10, 150, 0.1), 400) == 12
    # 50/s is not, and the error fell by 200/s: 12.2 + 0.0016 * 200 + 0.006 * 50 = 12.82. With a
    # last error of its own it would be 12.2 - 0.0016 * 50 + 0.006 * 50 = 12.42.
    assert law(sample(12, 350, 0.1), 400) == 13
    # 200/s is, and the error grew by 150/s: 12.82 + 2 * (-0.0016 * 150 + 0.006 * 200) = 14.74.
    assert law(sample(13, 200, 0.1), 400) == 15


SPARK_VARIANTS = {
    # The batches: 400/s processed, then 300/s processed after 0.5 s of waiting, so the error is
    # 100/s and what waits 150/s: 400 - 100 - 0.2 * 150 = 270/s.
    (): 15 * 270 / 300,
    # 400 - 0.5 * 100 - 0.2 * 150 = 320/s, above the goal.
    (("proportional", 0.5),): 15.0,
    # 400 - 100 - 150 = 150/s.
    (("integral", 1.0),): 7.5,
    # The error has grown by 100/s in a second: 400 - 100 - 30 - 0.1 * 100 = 260/s.
    (("derivative", 0.1),): 13.0,
    (("least", 280.0),): 14.0,
}


@pytest.mark.parametrize("chosen", SPARK_VARIANTS)
def test_spark_takes_the_lower_of_its_estimate_and_the_goal(
    chosen: tuple[tuple[str, float], ...],
) -> None:
    law = spark_rate(**dict(chosen))
    first = Sample(1, 1.0, 1.0, 10.0, 200, busy=0.5)
    assert law(first, 300.0) == 15.0  # no estimate yet: 10 * 300 / 200
    second = Sample(2, 2.0, 1.0, 15.0, 300, busy=1.0, buffer_time=0.5)
    assert law(second, 300.0) == pytest.approx(SPARK_VARIANTS[chosen])


def test_spark_waits_for_a_batch_that_has_messages() -> None:
    law = spark_rate()
    assert law(Sample(1, 1.0, 1.0, 10.0, 0, busy=0.0), 300.0) == 10.0
    assert law(Sample(2, 2.0, 1.0, 10.0, 200, busy=0.5), 300.0) == 15.0


def test_the_service_of_vector_slows_down_as_its_tests_say() -> None:
    """Their formula: 1 + scale (n - 1) + knee_exp^(n - knee_start) - 1 times the delay."""
    found = {service.name: service.factor(12) for service in SERVICES}
    assert found["shallow-knee"] == pytest.approx(1.1**2)
    assert found["slow-link"] == pytest.approx(12.0)
    assert found["constant-link"] == 1.0


@pytest.mark.parametrize("name", ["shallow-knee", "slow-link", "jittery-link-small"])
def test_protection_is_within_the_bands_of_vector(name: str) -> None:
    (service,) = [each for each in SERVICES if each.name == name]
    low, high = service.band
    assert low <= in_flight(service, LAWS["protect"]()) <= high


@pytest.mark.spark
@pytest.mark.slow
def test_the_page_comes_from_one_command(tmp_path: Path) -> None:
    words = ["--plants", "2", "--tuning", "1", "--seeds", "1", "--messages", "200"]
    assert main(["tournament", *words, "--out", str(tmp_path / "out"), "--json"]) == 0
    page = (tmp_path / "out" / "tournament.md").read_text()
    for table in TABLES:
        assert f"tournament-{table}.svg" in page
        assert (tmp_path / "out" / f"tournament-{table}.svg").stat().st_size > 1000
    verdicts = ("Ours wins", "Ours is first", "Ours is not first")
    assert sum(map(page.count, verdicts)) == len(TABLES)
