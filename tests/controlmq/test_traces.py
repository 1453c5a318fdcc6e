"""Traces in Parquet: what is written is read, what is malformed is refused."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlmq import InputError, TraceWriter, Transition, read_transitions
from controlmq.traces import COLUMNS, schema, write_transitions


def row(sample: int = 0, **change: object) -> Transition:
    values: dict[str, object] = {
        "group": "g",
        "trace": "t",
        "sample": sample,
        "time": 1.5 * sample,
        "interval": 1.0,
        "u": 3.0,
        "y": 240.0,
        "y_next": 241.0,
        "window_limited": True,
    }
    return Transition(**(values | change))  # type: ignore[arg-type]


def test_what_is_written_is_read_in_files_of_the_chosen_size(tmp_path: Path) -> None:
    rows = [row(number) for number in range(25)]
    with TraceWriter(tmp_path / "trace", rows_per_file=10) as writer:
        for transition in rows:
            writer(transition)
    assert len(list((tmp_path / "trace").glob("*.parquet"))) == 3
    table = read_transitions(tmp_path / "trace")
    assert [Transition(**values) for values in table.to_pylist()] == rows


def test_the_schema_documents_every_column() -> None:
    assert schema().names == list(COLUMNS)
    assert all(field.metadata[b"meaning"] for field in schema())


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    for _ in range(2):
        with TraceWriter(tmp_path) as writer:
            writer(row())
    assert read_transitions(tmp_path).num_rows == 2


def test_a_file_that_was_not_completed_is_never_read(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as writer:
        writer(row())
    (tmp_path / ".half.parquet.tmp").write_bytes(b"PAR1half")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "part.parquet").write_bytes(b"PAR1half")
    assert read_transitions(tmp_path).num_rows == 1


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space"):
        write_transitions(tmp_path / "rows.parquet", [row()])
    assert list(tmp_path.iterdir()) == []


def test_rows_survive_a_failed_write_and_come_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TraceWriter(tmp_path, rows_per_file=100)
    writer(row())
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            writer.flush()
    writer.close()
    assert read_transitions(tmp_path).num_rows == 1


def test_every_row_is_on_disk_at_once_when_asked_for(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, rows_per_file=10, every_row=True)
    for number in range(25):
        writer(row(number))
        assert read_transitions(tmp_path)["sample"].to_pylist() == list(range(number + 1))
    assert len(list(tmp_path.iterdir())) == 3


def test_rows_that_cannot_be_written_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TraceWriter(tmp_path, rows_per_file=10, every_row=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        for number in range(100):
            with pytest.raises(OSError, match="full"):
                writer(row(number))
    writer(row(100))
    writer.close()
    assert read_transitions(tmp_path)["sample"].to_pylist() == list(range(91, 101))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": math.nan}, "NaN"),
        ({"y_next": math.inf}, "NaN or infinite"),
        ({"u": -0.5}, "below 0"),
        ({"interval": 0.0}, "interval"),
        ({"time": math.nan}, "time"),
    ],
)
def test_impossible_values_are_refused(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    write_transitions(tmp_path / "rows.parquet", [row(), row(1, **change)])
    with pytest.raises(InputError, match=says):
        read_transitions(tmp_path)


@settings(max_examples=30)
@given(column=st.sampled_from(list(COLUMNS)), drop=st.booleans())
def test_a_missing_or_wrongly_typed_column_is_named(
    tmp_path_factory: pytest.TempPathFactory, column: str, drop: bool
) -> None:
    path = tmp_path_factory.mktemp("trace") / "rows.parquet"
    write_transitions(path, [row()])
    table = pq.read_table(path)
    index = table.schema.get_field_index(column)
    table = table.remove_column(index)
    if not drop:
        table = table.append_column(column, pa.array([b"bytes"]))
    pq.write_table(table, path)
    with pytest.raises(InputError, match=column):
        read_transitions(path)


def test_an_empty_folder_a_missing_one_and_a_text_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no Parquet file"):
        read_transitions(tmp_path)
    with pytest.raises(InputError, match="no trace at"):
        read_transitions(tmp_path / "none")
    (tmp_path / "text.parquet").write_text("not parquet")
    with pytest.raises(InputError, match="not a readable Parquet"):
        read_transitions(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make"):
        TraceWriter(tmp_path / "file" / "trace")
