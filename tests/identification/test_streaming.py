"""The streaming job: its statistics are those of one batch over all rows, whatever happens."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from controlmq.errors import ControlmqError, InputError
from controlmq.loop import Transition
from controlmq.model import ArxModel
from controlmq.traces import TraceWriter, write_transitions
from identification.aggregation import Sorting, cells_of
from identification.continuous import Options, Progress, RunningStatistics, follow
from identification.continuous.absorbing import Counts
from identification.reading import read_traces
from identification.statistics import Forgetting
from tests.identification.rows import arx_rows, random_levels
from tests.identification.test_continuous import same

pytestmark = pytest.mark.spark

OPTIONS = Options(half_life=120.0)
START = 1.7e9
DEADLINE = 280.0


def recorded(
    group: str, rows: int, *, b: float = 80.0, start: float = START, seed: int = 1
) -> list[Transition]:
    """A consumer that records a sample every 2 s."""
    made = arx_rows(group, random_levels(rows, seed), a=0.2, b=b, c=-20, noise=30, seed=seed)
    return [replace(row, time=start + row.time, trace=f"{group}-{start:.0f}") for row in made]


def counted(checkpoint: Path) -> RunningStatistics:
    return RunningStatistics.load(checkpoint / "statistics.zip")


def check_against_batch(spark: SparkSession, traces: Path, state: RunningStatistics) -> None:
    """The batch job over everything that is in the folder, each row once, with the same weights."""
    rows = read_traces(spark, traces).dropDuplicates(["group", "trace", "sample"])
    forgetting = Forgetting(state.options.half_life, state.reference)
    same(state.statistics(), cells_of(rows, Sorting(forgetting=forgetting)))
    assert state.seen.samples() == rows.count()


class Folder:
    """Traces, models and a checkpoint, and what a run over them brings."""

    def __init__(self, root: Path) -> None:
        self.traces, self.models = root / "traces", root / "models"
        self.checkpoint = self.models / ".follow"
        self.traces.mkdir()

    def drop(self, name: str, rows: Sequence[Transition]) -> None:
        write_transitions(self.traces / f"{name}.parquet", rows)

    def once(self, spark: SparkSession) -> Progress:
        """Count what is there, and say what was told last."""
        told: list[Progress] = []
        follow(spark, self.traces, self.models, OPTIONS, once=True, on_progress=told.append)
        return told[-1]

    def until(self, spark: SparkSession, samples: int, then: Callable[[], None]) -> None:
        """Go on until a batch ends with ``samples`` samples counted, then call ``then`` once."""
        started = done = False

        def tell(_progress: Progress) -> None:
            nonlocal started, done
            if started and not done and self.samples() == samples:
                done = True
                then()
            started = True

        follow(spark, self.traces, self.models, OPTIONS, every=0.1, on_progress=tell)

    def samples(self) -> int:
        """How many have been counted so far."""
        try:
            return counted(self.checkpoint).seen.samples()
        except InputError:
            return 0


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_rows_count_once_with_their_own_time_however_they_come(
    spark: SparkSession, folder: Folder
) -> None:
    one, two = recorded("one", 300), recorded("two", 300, b=50, seed=2)
    folder.drop("early", one[100:200])
    folder.drop("twice", [*two[:150], *two[100:150]])
    first = folder.once(spark)
    assert (first.counts.new, first.counts.repeated) == (250, 50)

    # A file that grows under its name, one that is late, one that overlaps; rows that are too
    # old and rows from the future; files that are no trace.
    folder.drop("early", one[100:300])
    folder.drop("late", one[:100])
    folder.drop("overlapping", two[120:])
    bad = ("ancient", "drifted", "damaged")
    ancient = [replace(row, trace="old", time=row.time - 40 * 120) for row in one[:7]]
    future = [replace(row, trace="new", time=1e12) for row in one[:5]]
    folder.drop("ancient", [*ancient, *future])
    folder.drop("drifted", two)
    folder.drop("damaged", two)
    spoil(folder.traces)
    second = folder.once(spark)
    assert second.counts == Counts(new=350, repeated=130, forgotten=7, unplaced=5)
    assert len(second.refused) == 2
    assert any("drifted.parquet has no column y_next" in each for each in second.refused)
    assert any("damaged.parquet is damaged" in each for each in second.refused)

    for name in bad:
        (folder.traces / f"{name}.parquet").unlink()
    check_against_batch(spark, folder.traces, counted(folder.checkpoint))
    assert ArxModel.load(folder.models / "one.json").b == pytest.approx(80, rel=0.1)
    assert ArxModel.load(folder.models / "two.json").b == pytest.approx(50, rel=0.1)


def spoil(traces: Path) -> None:
    """Take a column from one file and overwrite the pages of another."""
    drifted, damaged = traces / "drifted.parquet", traces / "damaged.parquet"
    pq.write_table(pq.read_table(drifted).drop_columns(["y_next"]), drifted)
    content = bytearray(damaged.read_bytes())
    content[100:1500] = b"\xff" * 1400
    damaged.write_bytes(bytes(content))


def test_a_batch_that_fails_is_repeated_without_counting_twice(
    spark: SparkSession, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = recorded("one", 200)
    folder.drop("a", rows[:120])
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
        with pytest.raises(ControlmqError, match=r"cannot write .*: No space"):
            folder.once(spark)
    assert not list(folder.models.glob("*.json"))
    assert folder.samples() == 0

    def die_after_saving() -> None:
        raise InputError("dead.")

    folder.drop("b", rows[100:])
    with pytest.raises(InputError, match="dead"):
        folder.until(spark, 200, die_after_saving)

    # Spark repeats what it does not know to be done; all of it has been counted. A folder that
    # goes away ends the job.
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(InputError, match=r"there is no folder .* to follow"):
        folder.until(spark, 200, lambda: move(folder.traces, elsewhere))
    check_against_batch(spark, elsewhere, counted(folder.checkpoint))


def move(here: Path, there: Path) -> None:
    if here.exists():
        here.rename(there)


def test_a_place_that_only_spark_reads_is_followed_too(spark: SparkSession, folder: Folder) -> None:
    rows = recorded("one", 200)
    folder.drop("a", rows[:120])
    folder.drop("b", rows[100:])
    follow(spark, folder.traces.as_uri(), folder.models, OPTIONS, once=True)
    check_against_batch(spark, folder.traces, counted(folder.checkpoint))


def test_what_cannot_be_followed_is_refused_in_a_sentence(
    spark: SparkSession, folder: Folder, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"there is no folder .* to follow"):
        follow(spark, tmp_path / "nowhere", folder.models, OPTIONS, once=True)
    with pytest.raises(InputError, match="half-life is 0"):
        Options(half_life=0)
    with pytest.raises(InputError, match="linear_range is 22 to 1"):
        Options(half_life=60, linear_range=(22, 1))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        follow(spark, folder.traces, tmp_path / "file" / "models", OPTIONS, once=True)
    with open(folder.checkpoint / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ControlmqError, match="in use by another process"):
            folder.once(spark)


class Process:
    """``controlmq follow`` as a process of its own."""

    def __init__(self, folder: Folder) -> None:
        self.log = folder.models.parent / "log"
        command = [sys.executable, "-m", "controlmq.cli.main", "follow", str(folder.traces)]
        command += ["--out", str(folder.models), "--half-life", "120", "--every", "0.1"]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [*command, "--master", "local[2]"], stdout=log, stderr=log
            )

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while the process runs."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def kill(self) -> int:
        self.process.kill()
        return self.process.wait()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_half_way_and_started_again_it_ends_with_the_statistics_of_the_batch_job(
    spark: SparkSession, folder: Folder
) -> None:
    before, after = recorded("one", 400), recorded("one", 400, b=40, start=START + 800, seed=2)
    other = recorded("two", 300, seed=3)
    folder.drop("first", before[:200])
    process = Process(folder)
    try:
        process.until(lambda: folder.samples() == 200)
        with TraceWriter(folder.traces, rows_per_file=600, every_row=True) as live:
            for row in other[:100]:
                live(row)
            folder.drop("late", before[250:])

            def in_a_batch() -> bool:
                # There is always something new, so that a batch that was missed is not the last.
                folder.drop("first again", before[150:200])
                return (folder.checkpoint / "batch").exists()

            process.until(in_a_batch)
            assert process.kill() == -signal.SIGKILL
            for row in other[100:]:
                live(row)
    finally:
        process.kill()
    said = process.log.read_text()
    assert "following" in said.splitlines()[0]
    assert "one: a 0.2" in said
    assert "(first model)" in said
    # Nothing but its own lines, which tell the time; how many depends on when it was killed.
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in said.splitlines()[1:]), said
    assert ArxModel.load(folder.models / "one.json").b == pytest.approx(80, rel=0.1)

    folder.drop("gap filled", before[190:260])
    folder.drop("changed plant", after)
    folder.drop("other again", other[250:])
    with pytest.raises(KeyboardInterrupt):
        folder.until(spark, 400 + 400 + 300, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert not spark.streams.active
    check_against_batch(spark, folder.traces, counted(folder.checkpoint))
    # 800 s, less than 7 half-lives, after the plant changed.
    assert ArxModel.load(folder.models / "one.json").b == pytest.approx(40, rel=0.1)
    assert ArxModel.load(folder.models / "two.json").b == pytest.approx(80, rel=0.1)
