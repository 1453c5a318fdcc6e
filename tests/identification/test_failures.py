"""What goes wrong around Spark: a sentence each, and nothing that looks complete and is not."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import identification.ingest
from controlmq.errors import ControlmqError, InputError
from controlmq.traces import read_transitions, write_transitions
from identification import identify
from identification.failures import in_a_sentence
from identification.ingest import ingest
from identification.raw import Columns
from identification.session import session
from tests.identification.rows import arx_rows, random_levels
from tests.known.raw_samples import write_samples

COLUMNS = Columns({"group": "consumer"})


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("java.io.IOException: No space left on device", "the disk is full"),
        ("AccessControlException: Permission denied: user=x", "may not be read or written"),
        ("[FAILED_READ_FILE.NO_HINT] Encountered error", "damaged Parquet file"),
        ("[PATH_NOT_FOUND] Path does not exist: hdfs://x", "there is no trace at"),
        ("UnsupportedFileSystemException: No FileSystem for scheme", "knows no file system"),
        ("Call From a to b failed on connection exception: Connection refused", "no file system"),
        ("Job aborted: All masters are unresponsive! Giving up.", "no longer answers"),
        ("java.lang.IllegalArgumentException: CSV header does not conform", "columns differ"),
    ],
)
def test_a_page_of_sparks_becomes_a_sentence(said: str, sentence: str) -> None:
    with pytest.raises(ControlmqError, match=sentence) as error, in_a_sentence("traces"):
        raise PySparkException(f"{said}\n\tat org.apache.spark.Thing\n" * 20)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


def test_a_full_disk_is_reported_and_what_is_no_users_fault_is_not_hidden() -> None:
    with pytest.raises(ControlmqError, match="the disk is full"), in_a_sentence("traces"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(PySparkException, match="a bug"), in_a_sentence("traces"):
        raise PySparkException("a bug")


def test_a_master_that_does_not_answer_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("identification.session._running", lambda: None)
    with (
        pytest.raises(InputError, match=r"no Spark master answers at 127\.0\.0\.1:1 "),
        session("spark://127.0.0.1:1"),
    ):
        pass
    with pytest.raises(InputError, match="give sc://HOST"), session(remote="http://somewhere"):
        pass


@pytest.mark.spark
def test_files_may_differ_in_types_that_can_be_cast(spark: SparkSession, tmp_path: Path) -> None:
    rows = arx_rows("g", random_levels(200, 1), a=0.3, b=60, c=20, noise=10, seed=2)
    write_transitions(tmp_path / "all.parquet", rows)
    (whole,) = identify(spark, tmp_path)
    table = pq.read_table(tmp_path / "all.parquet")
    (tmp_path / "all.parquet").unlink()
    narrow = table.slice(0, 100)
    for name, kind in (
        ("group", pa.large_string()),
        ("sample", pa.int32()),
        ("u", pa.int64()),
        ("interval", pa.float32()),
    ):
        place = narrow.column_names.index(name)
        narrow = narrow.set_column(place, name, narrow[name].cast(kind))
    pq.write_table(narrow, tmp_path / "narrow.parquet")
    pq.write_table(table.slice(100), tmp_path / "wide.parquet")
    (mixed,) = identify(spark, tmp_path)
    assert mixed.rows == 200
    assert mixed.estimates is not None
    assert whole.estimates is not None
    assert mixed.estimates.b == pytest.approx(whole.estimates.b, rel=1e-12)
    assert read_transitions(tmp_path).num_rows == 200

    pq.write_table(table.drop_columns(["y"]), tmp_path / "late.parquet")
    with pytest.raises(InputError, match=r"late\.parquet has no column y"):
        identify(spark, tmp_path)


@pytest.mark.spark
def test_an_ingest_that_is_cut_short_leaves_the_folder_as_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, out = tmp_path / "raw.csv", tmp_path / "out"
    write_samples(raw, 2, 100, 0.1, seed=1)
    before = ingest(spark, [raw], out, columns=COLUMNS)
    failures: list[tuple[BaseException, type[BaseException], str]] = [
        (KeyboardInterrupt(), KeyboardInterrupt, "out"),
        (OSError(errno.ENOSPC, "No space left on device"), ControlmqError, "new"),
    ]
    for failure, raised, name in failures:

        def fail(*_: object, failure: BaseException = failure) -> None:
            raise failure

        monkeypatch.setattr(identification.ingest, "_numbered", fail)
        with pytest.raises(raised):
            ingest(spark, [raw], tmp_path / name, columns=COLUMNS)
    assert read_transitions(out).num_rows == before.transitions
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "raw.csv"]
