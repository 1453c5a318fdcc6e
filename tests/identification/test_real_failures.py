"""Failures as they happen: no permission, a full disk, Ctrl-C, a process that dies in the middle.

Each command runs as a process of its own, with nothing of it replaced but what holds it up.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from controlmq.model import ArxModel
from controlmq.replacing import Here
from controlmq.traces import read_transitions, write_transitions
from identification import identify
from identification.ingest import SUMMARY, ingest
from identification.raw import Columns
from tests.identification.rows import arx_rows, random_levels
from tests.known.raw_samples import write_samples

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

COLUMNS = Columns({"group": "consumer"})
DEADLINE = 400.0
"""Seconds that a command may take on a busy machine; none takes a tenth of it on an idle one."""

COMMANDS = """
import json, sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from controlmq.cli.main import main

def fill(path):
    with open(path, "ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            pass

done = []
for command, *words in json.loads(sys.argv[1]):
    if command in ("fill", "remove"):
        fill(*words) if command == "fill" else Path(*words).unlink()
        continue
    with redirect_stderr(StringIO()) as said:
        code = main([command, *words])
    done.append([code, said.getvalue()])
Path(sys.argv[2]).write_text(json.dumps(done))
"""
"""Runs commands one after another, with one Java for all, and tells how each ended."""


def run(within: list[str], commands: list[list[str]], told: Path) -> list[tuple[int, str]]:
    """The exit code of every command, and what it said on standard error."""
    python = [sys.executable, "-c", COMMANDS, json.dumps(commands), str(told)]
    done = subprocess.run([*within, *python], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(told.read_text())]


def refusal(done: tuple[int, str]) -> str:
    """The one sentence of a command that was refused."""
    code, said = done
    assert code == 2, said
    lines = [line for line in said.splitlines() if not line.startswith("following ")]
    assert len(lines) == 1, said
    assert lines[0].startswith("controlmq: ")
    assert lines[0].endswith(".")
    return lines[0]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def samples(path: Path, each: int = 100) -> Path:
    write_samples(path, 2, each, 0.1, seed=1)
    return path


def ingest_command(raw: Path, out: Path) -> list[str]:
    return ["ingest", str(raw), "--out", str(out), "--column", "group=consumer"]


WITHOUT_PRIVILEGE = [
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
]
"""Permission bits do not bind root; without these two capabilities they do."""


@pytest.fixture
def bound_by_permissions(tmp_path: Path) -> list[str]:
    """What makes a command obey permission bits, even if root runs the tests."""
    within = WITHOUT_PRIVILEGE if os.geteuid() == 0 else []
    if within and shutil.which(within[0]) is None:
        pytest.skip("root may read everything here: there is no setpriv to give that up with")
    secret = tmp_path / "secret"
    secret.touch(mode=0o000)
    if subprocess.run([*within, "cat", str(secret)], capture_output=True).returncode == 0:
        pytest.skip("permission bits do not bind this user, and it cannot be made so")
    secret.unlink()
    return within


@pytest.fixture
def closed() -> Iterator[Callable[..., Path]]:
    """Takes permissions from folders and files until the test ends."""
    taken: list[Path] = []

    def close(path: Path, mode: int = 0o000) -> Path:
        path.chmod(mode)
        taken.append(path)
        return path

    yield close
    for path in reversed(taken):
        path.chmod(0o755)


def test_what_may_not_be_read_or_written_is_named_in_a_sentence(
    tmp_path: Path, bound_by_permissions: list[str], closed: Callable[..., Path]
) -> None:
    raw, traces, models, out = (tmp_path / name for name in ("raw", "traces", "models", "out"))
    for folder in (raw / "below", traces / "below", models):
        folder.mkdir(parents=True)
    for folder in (raw, raw / "below"):
        samples(folder / "a.csv")
    rows = arx_rows("g", random_levels(200, 1), a=0.3, b=60, c=20, noise=10, seed=2)
    for folder in (traces, traces / "below"):
        write_transitions(folder / "a.parquet", rows)
    whole = shutil.copytree(traces, tmp_path / "whole")
    shut = closed(shutil.copytree(traces, tmp_path / "shut"))
    file = closed(samples(tmp_path / "file.csv"))
    closed(raw / "below")
    closed(traces / "below")
    closed(models, 0o555)
    tried = [
        (ingest_command(raw, out), f"the folder {raw / 'below'} may not be read;"),
        (ingest_command(shut, out), f"the folder {shut} may not be read;"),
        (ingest_command(file, out), f"{file} may not be read;"),
        (ingest_command(raw / "a.csv", models / "out"), f"folder {models / 'out'}: Permission"),
        (["identify", str(traces)], f"the folder {traces / 'below'} may not be read;"),
        (["identify", str(shut)], f"the folder {shut} may not be read;"),
        (["identify", str(whole), "--out", str(models)], f"the folder {models}: Permission denied"),
        (["follow", str(shut), "--out", str(out), "--once"], f"{shut} may not be read"),
    ]
    done = run(bound_by_permissions, [command for command, _ in tried], tmp_path / "told.json")
    for (_, sentence), each in zip(tried, done, strict=True):
        assert sentence in refusal(each)
    assert names(models) == []


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=1m tmpfs "$1" || exit
disk=$1 saved=$2
shift 2
"$@" && cp -a "$disk/." "$saved"
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> tuple[list[str], Path, Path]:
    """What gives a command a disk of 1 MB, where that is, and where all on it is left.

    The disk is the command's alone, and gone with it.
    """
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    disk.mkdir()
    saved.mkdir()
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    within = [*own, "sh", "-c", ON_A_SMALL_DISK, "sh", str(disk), str(saved)]
    if shutil.which("unshare") is None or subprocess.run([*within, "true"]).returncode != 0:
        pytest.skip("cannot mount a small disk: unshare is missing or not permitted")
    return within, disk, saved


def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, small_disk: tuple[list[str], Path, Path]
) -> None:
    within, disk, saved = small_disk
    small, large = samples(tmp_path / "small.csv"), samples(tmp_path / "large.csv", each=100_000)
    out, models, filled = disk / "out", disk / "models", disk / "filled"
    # The large samples come last: of files that Spark failed to write, Java gives back the
    # room when it likes, and the disk would not stay full.
    commands = [
        ingest_command(small, out),
        ["identify", str(out), "--out", str(models)],
        ["fill", str(filled)],
        ["identify", str(out), "--out", str(models), "--no-offset"],
        ["fill", str(filled)],
        ["identify", str(out), "--group-by", "trace", "--out", str(disk / "one.json")],
        ["remove", str(filled)],
        ingest_command(large, out),
    ]
    first, second, *identified, last = run(within, commands, tmp_path / "told.json")
    assert (first[0], second[0]) == (0, 0), (first, second)
    for done in identified:
        assert "No space left on device" in refusal(done)
    assert "the disk is full" in refusal(last)
    # What was there is whole, and still the old; of what was not, there is no file.
    assert names(saved) == ["models", "out"]
    counts = json.loads((saved / "out" / SUMMARY).read_text())
    assert 0 < counts["samples"] < 300
    assert read_transitions(saved / "out").num_rows == counts["transitions"]
    assert names(saved / "models") == ["c0.json", "c1.json", "models.parquet", "report.html"]
    for row in pq.read_table(saved / "models" / "models.parquet").to_pylist():
        assert ArxModel.load(saved / "models" / row["file"]).c == row["c"] != 0


HELD_UP = """
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event
import identification.ingest as under_test
from controlmq.cli.main import main

started, *command = sys.argv[1:]
read_raw = under_test.read_raw

def held_up(*arguments):
    raw = read_raw(*arguments)

    def never_done(batches):
        Path(started).touch()
        Event().wait()
        yield from batches

    return replace(raw, rows=raw.rows.mapInArrow(never_done, raw.rows.schema))

under_test.read_raw = held_up
sys.exit(main(command))
"""
"""``controlmq ingest`` whose first row never comes, to be stopped while Spark works on it."""


def test_ctrl_c_during_ingest_leaves_the_folder_as_it_was(
    tmp_path: Path, spark: SparkSession
) -> None:
    out, started = tmp_path / "out", tmp_path / "started"
    before = ingest(spark, [samples(tmp_path / "before.csv")], out, columns=COLUMNS)
    raw = samples(tmp_path / "raw.csv", each=200)
    with subprocess.Popen(
        [sys.executable, "-c", HELD_UP, str(started), *ingest_command(raw, out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            deadline = time.monotonic() + DEADLINE
            while not started.exists():
                assert running.poll() is None, running.communicate()[1]
                assert time.monotonic() < deadline
                time.sleep(0.02)
            # A terminal sends the signal to the whole group, Java included.
            os.killpg(running.pid, signal.SIGINT)
            said = running.communicate(timeout=DEADLINE)[1]
        finally:
            running.kill()
    assert (running.returncode, said) == (130, "controlmq: stopped.\n")
    started.unlink()
    assert names(tmp_path) == ["before.csv", "out", "raw.csv"]
    assert read_transitions(out).num_rows == before.transitions

    again = ingest(spark, [raw], out, columns=COLUMNS)
    assert read_transitions(out).num_rows == again.transitions > before.transitions
    assert names(tmp_path) == ["before.csv", "out", "raw.csv"]


DIES = """
import os, sys
from pathlib import Path
from controlmq.replacing import Here

rename, renames = os.replace, 0

def once(here, there):
    global renames
    if renames == 1:
        os._exit(9)
    renames += 1
    rename(here, there)

os.replace = once
folder = Here(sys.argv[1])
folder.restore()
with folder.replacement() as hidden:
    Path(hidden, "out").mkdir()
    Path(hidden, "out", "_ingested.json").write_text("{}")
"""
"""Replaces a folder as ``ingest`` does, and is gone where it would rename for the second time."""


def die_replacing(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, str(folder)], timeout=DEADLINE)
    assert done.returncode == 9


def test_a_folder_lost_between_two_renames_is_put_back_by_the_next_run_that_needs_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    out, raw = tmp_path / "out", samples(tmp_path / "raw.csv")
    before = ingest(spark, [raw], out, columns=COLUMNS)
    fits = identify(spark, out)
    die_replacing(out)
    assert not out.exists()
    assert identify(spark, out) == fits
    assert names(tmp_path) == ["out", "raw.csv"]

    die_replacing(out)
    assert not out.exists()
    # The next puts back what the first moved away, and dies before it moves it once more.
    die_replacing(out)
    assert read_transitions(out).num_rows == before.transitions
    assert len(names(tmp_path)) == 3
    assert ingest(spark, [raw], out, columns=COLUMNS) == before
    assert read_transitions(out).num_rows == before.transitions
    assert names(tmp_path) == ["out", "raw.csv"]


def test_nothing_is_taken_from_a_run_that_is_alive(tmp_path: Path) -> None:
    folder = Here(tmp_path / "out")
    with folder.replacement() as hidden:
        Path(hidden, "out").mkdir()
        Path(hidden, "before").mkdir()
        folder.restore()
        assert names(Path(hidden)) == ["before", "out"]
        assert not folder.folder.exists()
    assert names(tmp_path) == ["out"]


def test_an_interrupt_between_two_renames_puts_the_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with Here(out).replacement() as hidden:
        Path(hidden, "out").mkdir()
        Path(hidden, "out", "old").touch()
    replace, calls = os.replace, 0

    def interrupted(here: Path, there: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        replace(here, there)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), Here(out).replacement() as hidden:
        Path(hidden, "out").mkdir()
    assert names(out) == ["old"]
    assert names(tmp_path) == ["out"]
