"""Raw samples in, transitions out: every good one there, every bad one accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from controlmq.cli.main import main
from controlmq.errors import InputError
from controlmq.traces import read_transitions
from identification import identify
from identification.ingest import QUARANTINE, SUMMARY, ingest
from identification.raw import Columns
from tests.known.raw_samples import MALFORMED, SPOILT, Written, write_samples

pytestmark = pytest.mark.spark

CONSUMER = Columns({"group": "consumer"})


@pytest.fixture(scope="module")
def spoilt(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Written, Path, dict[str, object]]:
    """Ten thousand samples, one in ten of them bad, ingested."""
    folder = tmp_path_factory.mktemp("ingest")
    written = write_samples(folder / "raw.csv", 10, 1000, 0.1, seed=1)
    done = ingest(spark, [folder / "raw.csv"], folder / "out", columns=CONSUMER)
    return written, folder / "out", vars(done)


def test_the_counts_are_those_of_what_was_written(
    spoilt: tuple[Written, Path, dict[str, object]],
) -> None:
    written, out, done = spoilt
    assert done == {name: getattr(written, name) for name in done}
    assert json.loads((out / SUMMARY).read_text()) == done
    assert len(written.quarantined) >= 8
    assert written.samples == (
        sum(written.quarantined.values()) + written.transitions + written.traces + written.gaps
    )


def test_every_good_transition_is_there_and_no_other(
    spoilt: tuple[Written, Path, dict[str, object]],
) -> None:
    written, out, _ = spoilt
    table = read_transitions(out)
    group = np.array([int(name[1:]) for name in table["group"].to_pylist()])
    k = table["sample"].to_numpy()
    seen = np.zeros_like(written.good[:, :-1])
    seen[group, k] = True
    assert len(group) == seen.sum()
    assert (seen == (written.good[:, :-1] & written.good[:, 1:])).all()
    assert (table["u"].to_numpy() == written.prefetch[group, k + 1]).all()
    assert (table["y"].to_numpy() == written.rate[group, k]).all()
    assert (table["y_next"].to_numpy() == written.rate[group, k + 1]).all()
    assert set(table["interval"].to_pylist()) == {2.0}


def test_files_are_clustered_by_group(spoilt: tuple[Written, Path, dict[str, object]]) -> None:
    _, out, _ = spoilt
    homes: dict[str, set[str]] = {}
    for file in out.glob("*.parquet"):
        names = pq.read_table(file, columns=["group"])["group"].to_pylist()
        assert names == sorted(names)
        for name in names:
            homes.setdefault(name, set()).add(file.name)
    assert all(len(files) == 1 for files in homes.values())


def test_quarantine_holds_every_bad_row_as_it_was(
    spoilt: tuple[Written, Path, dict[str, object]],
) -> None:
    written, out, _ = spoilt
    rows = pq.read_table(out / QUARANTINE).to_pylist()
    assert len(rows) == sum(written.quarantined.values())
    for row in rows:
        assert row["file"].endswith("raw.csv")
        if row["reason"] == "malformed line":
            assert row["raw"] in MALFORMED
        elif row["reason"] in SPOILT:
            name, value = SPOILT[row["reason"]]
            assert row["column"] == name
            assert json.loads(row["raw"]).get(name, "") == value


def test_running_again_gives_the_same_and_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, out = tmp_path / "raw.csv", tmp_path / "out"
    write_samples(raw, 3, 200, 0.1, seed=2)
    first = ingest(spark, [raw], out, columns=CONSUMER)
    before = sorted(map(str, read_transitions(out).to_pylist()))
    capsys.readouterr()
    command = ["ingest", str(raw), "--out", str(out), "--column", "group=consumer", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == {**vars(first), "written": str(out)}
    assert sorted(map(str, read_transitions(out).to_pylist())) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "raw.csv"]
    fits = identify(spark, out)
    assert [fit.group for fit in fits] == ["c0", "c1", "c2"]


def test_a_place_that_only_spark_writes_to_is_replaced_as_a_whole_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    raw, out = tmp_path / "raw.csv", tmp_path / "deep" / "out"
    write_samples(raw, 3, 200, 0.1, seed=2)
    first = ingest(spark, [raw], out.as_uri(), columns=CONSUMER)
    # A run that died between its two renames, and one that died before them.
    lost = out.with_name(f".out.{'0' * 12}.tmp")
    lost.mkdir()
    out.rename(lost / "before")
    out.with_name(f".out.{'1' * 12}.tmp").mkdir()
    (tmp_path / "empty.csv").write_text(raw.read_text().splitlines()[0])
    with pytest.raises(InputError, match="has no column group"):
        ingest(spark, [tmp_path / "empty.csv"], out.as_uri())
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert json.loads((out / SUMMARY).read_text()) == vars(first)
    assert ingest(spark, [raw], out.as_uri(), columns=CONSUMER) == first
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert read_transitions(out).num_rows == first.transitions
    assert [fit.group for fit in identify(spark, out.as_uri())] == ["c0", "c1", "c2"]
    (out / SUMMARY).unlink()
    with pytest.raises(InputError, match="did not write"):
        ingest(spark, [raw], out.as_uri(), columns=CONSUMER)


def json_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_times_alone_tell_neighbours_from_gaps(spark: SparkSession, tmp_path: Path) -> None:
    moments = [0, 10, 20.5, 30, 75, 85, 86, 96]
    rows: list[dict[str, object]] = [
        {
            "group": "g",
            "time": f"2026-11-16 10:{int(t // 60):02d}:{t % 60:04.1f}",
            "prefetch": i,
            "rate": 10 * i,
            "window_limited": i != 1,
            "queue": "q",
            "file": "kept under its name, though ours is called so too",
        }
        for i, t in enumerate(moments)
    ]
    raw = json_lines(tmp_path / "raw.jsonl", rows)
    with raw.open("a") as file:
        file.write('{"group": "g", "time": \n')
    out = tmp_path / "out [1] {a,b}*"
    done = ingest(spark, [raw], out, columns=Columns(keep=["queue", "file", "queue"]))
    assert (done.transitions, done.traces, done.gaps) == (5, 1, 2)
    assert done.quarantined == {"malformed line": 1}
    table = pq.read_table(out).sort_by("sample")
    assert table["u"].to_pylist() == [1, 2, 3, 5, 7]
    assert table["interval"].to_pylist() == pytest.approx([10, 10.5, 9.5, 10, 10])
    # A transition is limited by the window if both of its samples are.
    assert table["window_limited"].to_pylist() == [False, False, True, True, True]
    assert set(table["queue"].to_pylist()) == {"q"}
    assert {text.split()[0] for text in table["file"].to_pylist()} == {"kept"}


def test_parquet_and_sample_numbers_with_a_given_interval(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.table(
        {
            "group": ["a", "a", "a", "b"],
            "sample": pa.array([0, 1, 3, 0], pa.int32()),
            "prefetch": [1, 2, 3, 4],
            "rate": pa.array([10.5, 20.25, 30, 40], pa.float32()),
        }
    )
    pq.write_table(table, tmp_path / "raw.parquet")
    with pytest.raises(InputError, match="neither time nor interval"):
        ingest(spark, [tmp_path / "raw.parquet"], tmp_path / "out")
    done = ingest(spark, [tmp_path / "raw.parquet"], tmp_path / "out", interval=2.0)
    assert (done.samples, done.transitions, done.traces, done.gaps) == (4, 1, 2, 1)
    (row,) = read_transitions(tmp_path / "out").to_pylist()
    assert (row["u"], row["y"], row["y_next"], row["interval"]) == (2, 10.5, 20.25, 2)
    assert row["time"] == 2


def test_what_cannot_be_ingested_is_refused_in_a_sentence(
    spark: SparkSession, tmp_path: Path
) -> None:
    def refused(name: str, columns: Columns | None = None, out: str = "out") -> str:
        with pytest.raises(InputError) as error:
            ingest(spark, [tmp_path / name], tmp_path / out, columns=columns)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "out").exists()
        return str(error.value)

    (tmp_path / "raw.csv").write_text("who,sample,prefetch,rate\na,1,2,3\n")
    assert "there is no file at" in refused("none.csv")
    (tmp_path / "raw.txt").write_text("")
    assert "ends in none of .csv" in refused("raw.txt")
    assert "has no column group; it has who" in refused("raw.csv")
    assert "has no column 'whom'" in refused("raw.csv", Columns({"group": "whom"}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("precious")
    assert "did not write" in refused("raw.csv", Columns({"group": "who"}), "other")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "a.csv").write_text("group,sample,interval,prefetch,rate\na,1,1,2,3\n")
    (tmp_path / "two" / "b.csv").write_text("group,sample,interval,rate,prefetch\na,2,1,2,3\n")
    assert f"{tmp_path / 'two'} holds files whose columns differ" in refused("two")
    (tmp_path / "raw.parquet").write_text("no Parquet at all, though called so")
    assert f"{tmp_path / 'raw.parquet'} holds a damaged Parquet file" in refused("raw.parquet")
    with pytest.raises(InputError, match="knows no file system"):
        ingest(spark, [tmp_path / "raw.csv"], "nosuch://somewhere/out")
    with pytest.raises(InputError, match="'speed' is no part of a sample"):
        Columns({"speed": "rate"})
