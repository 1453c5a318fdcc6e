"""A fleet whose truth is known: how often intervals hold it, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from controlmq.experiments.fleet.files import REPORT, TABLE, write_fleet
from controlmq.model import ArxModel
from identification import Fit, identify
from tests.known.fleet import CAUSES, generate, judged
from tests.testbed.reports import explorable, series_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def judgement(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("fleet")
    truth = generate(folder, groups=400, unidentifiable=5, seed=1)
    return folder, judged(spark, folder, truth)


@pytest.mark.parametrize("range_is", ["found", "given"])
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_intervals_hold_the_truth_as_often_as_they_say(
    judgement: tuple[Path, dict[str, Any]], range_is: str, name: str
) -> None:
    # Of 400 groups 95 % are 380, give or take 4.4: three of those to either side.
    assert 0.917 <= judgement[1][f"coverage_range_{range_is}"][name] <= 0.983


def test_knees_are_found_where_they_are(judgement: tuple[Path, dict[str, Any]]) -> None:
    assert judgement[1]["knee_within_10_percent"] >= 0.95


@pytest.mark.parametrize("kind", CAUSES)
def test_what_tells_nothing_is_refused_for_the_right_reason(
    judgement: tuple[Path, dict[str, Any]], kind: str
) -> None:
    assert judgement[1]["refused"][kind] == {"groups": 5, "for_this_reason": 5}


@pytest.fixture(scope="module")
def fits(spark: SparkSession, judgement: tuple[Path, dict[str, Any]]) -> list[Fit]:
    return [fit for fit in identify(spark, judgement[0]) if fit.group.endswith("00001")]


def test_a_folder_holds_models_a_report_and_a_table(fits: list[Fit], tmp_path: Path) -> None:
    write_fleet(fits, [], tmp_path)
    table = pq.read_table(tmp_path / TABLE).to_pylist()
    assert [row["group"] for row in table] == [fit.group for fit in fits]
    row = next(row for row in table if row["group"] == "good-00001")
    model = ArxModel.load(tmp_path / row["file"])
    assert (row["identified"], row["cause"]) == (True, None)
    assert (row["a"], row["interval"]) == (model.a, model.interval)
    assert model.confidence_intervals is not None
    assert (row["b_low"], row["b_high"]) == model.confidence_intervals.b
    assert model.standard_errors is not None
    assert row["c_error"] == model.standard_errors.c
    dead = next(row for row in table if row["group"] == "dead-00001")
    assert (dead["identified"], dead["cause"], dead["a"]) == (False, "dead consumer", None)
    report = (tmp_path / REPORT).read_text()
    assert "1 of 5 groups have a model" in report
    assert "good-00001" in report
    assert "dead consumer" in report
    assert len(report) < 300_000
    (panels,) = explorable(report)
    for panel in panels:
        bars = series_of(panel, "groups")
        assert sum(bars["y"]) == 1
        assert "good-00001" in bars["labels"][bars["y"].index(1)]


def test_models_of_groups_that_are_gone_do_not_stay(fits: list[Fit], tmp_path: Path) -> None:
    write_fleet(fits, [], tmp_path)
    mine = tmp_path / "mine.json"
    mine.write_text("{}")
    write_fleet([fit for fit in fits if fit.model is None], [], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.json", TABLE, REPORT]
