"""What is refused: a group with its reason, a file or an option with one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from controlmq.errors import InputError
from controlmq.loop import Transition
from controlmq.traces import write_transitions
from identification import Fit, identify
from tests.identification.conftest import Record
from tests.identification.rows import arx_rows, random_levels

pytestmark = pytest.mark.spark


def good(group: str, rows: int = 120) -> list[Transition]:
    return arx_rows(group, random_levels(rows, 1), a=0.2, b=80, c=-20, noise=30, seed=2)


def spoilt(group: str, **values: float) -> list[Transition]:
    rows = good(group)
    rows[7] = replace(rows[7], **values)  # type: ignore[arg-type]
    return rows


def saturating_ramp(group: str) -> list[Transition]:
    """Ten samples a level up to twice the knee, with noise as large as a step."""
    levels = [float(u) for u in range(1, 31) for _ in range(10)]
    heard = [min(u, 16.0) for u in levels]
    rows = arx_rows(group, heard, a=0.2, b=60, c=20, noise=60, seed=4)
    return [replace(row, u=u) for row, u in zip(rows, levels, strict=True)]


def bad_groups() -> dict[str, tuple[list[Transition], str]]:
    rng = np.random.default_rng(3)

    def answering(group: str, a: float, b: float, noise: float = 1.0) -> list[Transition]:
        """Rows whose y is drawn freely, so that any a can be shown without running away."""
        rows = [replace(row, y=float(rng.normal(900, 300))) for row in good(group)]
        return [
            replace(row, y_next=a * row.y + b * row.u + float(rng.normal(0, noise))) for row in rows
        ]

    slow = [replace(row, interval=3.5) for row in good("intervals")[60:]]
    return {
        "nan": (spoilt("nan", y=math.nan), "1 rows hold missing, NaN or infinite"),
        "nan u": (spoilt("nan u", u=math.nan), "NaN or infinite"),
        "infinite": (spoilt("infinite", y_next=math.inf), "NaN or infinite"),
        "infinite u": (spoilt("infinite u", u=math.inf), "NaN or infinite"),
        "negative": (spoilt("negative", u=-1.0), "1 rows have a prefetch below 0"),
        "short": (good("short", 9), "9 rows to fit"),
        "starved": ([replace(r, window_limited=False) for r in good("starved")], "120 starved"),
        "constant": ([replace(r, u=5.0) for r in good("constant")], "prefetch is 5 in every row"),
        "intervals": (good("intervals")[:60] + slow, "range from 2 to 3.5 s"),
        "too large": ([replace(r, u=1e300) for r in good("too large")], "beyond any real one"),
        "too fast": ([replace(r, y=1e200) for r in good("too fast")], "beyond any real one"),
        "no interval": ([replace(r, interval=0.0) for r in good("no interval")], "interval is 0 s"),
        "falling": (answering("falling", 0.2, -50), "more prefetch must mean a higher rate"),
        "unstable": (answering("unstable", 1.2, 80), "a is 1.2"),
        "alternating": (answering("alternating", -1.1, 80), "a is -1.1"),
        "ramp": (saturating_ramp("ramp"), "as on a ramp; use levels in random order"),
        "noisy": (answering("noisy", 0.2, 80, 2000), "0.8 is needed"),
    }


@pytest.fixture(scope="module")
def fits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fit]:
    """One job over every bad group and two good ones."""
    folder = tmp_path_factory.mktemp("fleet")
    rows = [row for group, _ in bad_groups().values() for row in group]
    write_transitions(folder / "bad.parquet", rows)
    write_transitions(folder / "good.parquet", good("good") + good("good too"))
    return {fit.group: fit for fit in identify(spark, folder)}


@pytest.mark.parametrize("group", bad_groups())
def test_a_bad_group_is_refused_with_its_reason(fits: dict[str, Fit], group: str) -> None:
    fit = fits[group]
    assert fit.model is None
    assert fit.reason is not None
    assert bad_groups()[group][1] in fit.reason
    assert fit.reason.endswith(".")
    assert fit.reason.count(". ") == 0


def test_bad_groups_leave_the_good_ones_alone(fits: dict[str, Fit]) -> None:
    assert list(fits) == sorted([*bad_groups(), "good", "good too"])
    assert fits["good"].model is not None
    assert fits["good"].reason is None
    assert fits["good too"].model == fits["good"].model


def test_a_range_with_too_few_rows_is_refused(spark: SparkSession, record: Record) -> None:
    (fit,) = identify(spark, record(good("g")), linear_range=(100, 200))
    assert fit.reason is not None
    assert "0 rows to fit between prefetch 100 and 200" in fit.reason


def refused(spark: SparkSession, path: Path, **options: object) -> str:
    with pytest.raises(InputError) as error:
        identify(spark, path, **options)  # type: ignore[arg-type]
    message = str(error.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def without(path: Path, column: str) -> None:
    file = path / "part.parquet"
    pq.write_table(pq.read_table(file).drop_columns([column]), file)


def retyped(path: Path, column: str, values: Sequence[object]) -> None:
    file = path / "part.parquet"
    table = pq.read_table(file)
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array(values)), file)


def test_a_missing_column_is_refused(spark: SparkSession, record: Record) -> None:
    path = record(good("g"))
    without(path, "y_next")
    assert "has no column y_next" in refused(spark, path)


def test_a_column_of_the_wrong_type_is_refused(spark: SparkSession, record: Record) -> None:
    path = record(good("g"))
    retyped(path, "u", ["ten"] * 120)
    assert "column u is of type string" in refused(spark, path)


def test_an_empty_value_refuses_its_group(spark: SparkSession, record: Record) -> None:
    path = record(good("g"))
    retyped(path, "y", [None, *(row.y for row in good("g")[1:])])
    (fit,) = identify(spark, path)
    assert fit.reason is not None
    assert "1 rows hold missing" in fit.reason


def test_rows_without_a_group_are_refused(spark: SparkSession, record: Record) -> None:
    path = record(good("g"))
    retyped(path, "group", [None, *["g"] * 119])
    assert "rows without a group" in refused(spark, path)


def test_no_folder_an_empty_one_and_no_rows_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert "there is no trace at" in refused(spark, tmp_path / "nowhere")
    assert "holds no Parquet file" in refused(spark, tmp_path)
    write_transitions(tmp_path / "part.parquet", [])
    assert "holds no rows" in refused(spark, tmp_path)


def test_a_text_file_named_parquet_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_text("group,u,y\n")
    assert "not a readable Parquet file" in refused(spark, tmp_path)


def test_a_damaged_file_is_refused(spark: SparkSession, record: Record) -> None:
    path = record(good("g"))
    file = path / "part.parquet"
    content = bytearray(file.read_bytes())
    content[100:1500] = b"\xff" * 1400
    file.write_bytes(bytes(content))
    assert "damaged Parquet file" in refused(spark, path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"held_out": 1.0}, "held_out is 1"),
        ({"held_out": -0.1}, "held_out is -0.1"),
        ({"bin_width": 0}, "bin_width is 0"),
        ({"linear_range": (22, 1)}, "linear_range is 22 to 1"),
        ({"linear_range": "some"}, "linear_range is 'some'"),
        ({"linear_range": (1, math.nan)}, "linear_range high is nan"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, object], says: str
) -> None:
    assert says in refused(spark, tmp_path, **options)


def test_a_folder_name_with_glob_marks_is_read_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "run[1] {a,b}*"
    folder.mkdir()
    write_transitions(folder / "part.parquet", good("g"))
    assert len(identify(spark, folder)) == 1
