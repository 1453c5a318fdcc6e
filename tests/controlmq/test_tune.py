"""``controlmq tune``: a search from its arguments to its files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlmq import ArxModel, Tuning
from controlmq.cli.main import main, parsed
from controlmq.cli.tune import _search
from controlmq.controllers import controller_from
from identification.session import session
from tests.testbed.reports import explorable, series_of

FEW = ["--controller", "pi", "--settling", "2", "6", "--seeds", "2", "--duration", "20"]
MODEL = ArxModel(a=0.0, b=78.0, c=0.0, interval=1.0, linear_range=(1.0, 17.0))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("local[2]") as running:
        yield running


@pytest.mark.spark
def test_a_search_leaves_points_ranking_front_and_a_controller(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "tuned"
    command = ["tune", "rosa-noisy", "--goal", "400", *FEW, "--overshoot", "0", "--unseen", "rosa"]
    assert main([*command, "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert sorted(file.name for file in out.iterdir()) == [
        "controller.json",
        "front.svg",
        "points.parquet",
        "ranking.json",
        "report.html",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["tuned"]
    ranking = json.loads((out / "ranking.json").read_text())
    assert printed == ranking | {"written": str(out)}
    assert ranking["models"][0]["b"] == pytest.approx(73, rel=0.06)

    first, second = ranking["ranking"]
    assert first["iae"]["mean"] < second["iae"]["mean"]
    assert first["asked"] == "settle in 2, overshoot 0 %"
    assert first["iae"]["low"] < first["iae"]["mean"] < first["iae"]["high"]
    assert ranking["chosen"] == first["candidate"]
    rows = pq.read_table(out / "points.parquet").to_pylist()
    assert len(rows) == 2 * 2
    mine = [row["iae"] for row in rows if row["candidate"] == first["candidate"]]
    assert sum(mine) / 2 == pytest.approx(first["iae"]["mean"])

    chosen = Tuning.load(out / "controller.json")
    assert chosen.gains.ki == first["ki"]
    assert controller_from(out / "controller.json")
    assert (out / "front.svg").read_text().startswith("<svg")
    ((panel,),) = explorable((out / "report.html").read_text())
    assert series_of(panel, "chosen")["y"] == [pytest.approx(first["iae"]["mean"], rel=1e-6)]
    assert len(series_of(panel, "PI")["x"]) == 2
    unseen = ranking["unseen"]
    assert unseen["scenarios"] == ["rosa"]
    assert unseen["published_pi"]["ki"] == pytest.approx(0.0060271, rel=1e-4)
    assert unseen["chosen_less_published_pi"]["iae"]["mean"] == pytest.approx(
        unseen["chosen"]["iae"]["mean"] - unseen["published_pi"]["iae"]["mean"]
    )


@pytest.mark.spark
def test_a_random_search_for_a_given_model_is_shown_as_a_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    MODEL.save(tmp_path / "model.json")
    command = ["tune", "rosa", "--goal", "400", *FEW, "--random", "3", "--by", "settling"]
    command += ["--model", str(tmp_path / "model.json"), "--out", str(tmp_path / "tuned")]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "The best of 3 candidates by settling" in shown
    assert "closing loops" in shown
    assert f"written to {tmp_path / 'tuned'}" in shown


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--by", "luck"], "--by is 'luck'; give one of iae"),
        (["--seeds", "1"], "give at least 2"),
        (["--duration", "3"], "3 seconds are 3 samples of 1 s"),
        (["--interval", "0"], "sample_interval is 0"),
        (["--goal", "-1"], "--goal is -1"),
        (["--goal", "400", "fast"], "--goal is 'fast'; give a number"),
        (["--goal", "5/parsec"], "as in '5/minute'"),
        (["--unseen", "rosa"], "two scenarios are called 'rosa'"),
        (["--unseen", "nowhere.toml"], "there is no scenario 'nowhere.toml'"),
        (["--poles", "0.5", "0.1", "--settling", "2"], "give --poles, or --settling"),
        (["--model", "nowhere.json"], "cannot read the model file"),
    ],
)
def test_a_mistake_gets_a_sentence_and_leaves_nothing(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["tune", "rosa", "--goal", "400", "--out", str(tmp_path / "out"), *options])
    said = capsys.readouterr().err
    assert code == 2
    assert reason in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("dear")
    assert main(["tune", "rosa", "--goal", "400", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "dear"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ctrl_c_stops_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model.json")
    out = tmp_path / "out"
    command = ["tune", "rosa", "--goal", "400", "--model", str(tmp_path / "model.json")]
    command += ["--random", "2000", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-m", "controlmq.cli.main", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for line in running.stdout:
            if "closing loops" in line:
                break
        # A terminal sends the signal to the whole group, Java and the workers included.
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(timeout=240) == 130
        assert running.stderr.read() == "controlmq: stopped.\n"
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


def test_goals_may_have_units() -> None:
    words = ["tune", "rosa", "--goal", "400/s", "36000/minute", "--out", "tuned"]
    (trial,) = _search(parsed(words)).trials
    assert trial.goals == (400.0, 600.0)
