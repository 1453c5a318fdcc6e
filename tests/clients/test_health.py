"""Health: a thread that no longer goes round is not healthy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlmq import InputError
from controlmq.clients import health
from controlmq.clients.health import STALE_AFTER_SECONDS, Health


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(health, "time", clock)
    return clock


def test_it_is_healthy_from_the_first_beat_until_something_fails(
    tmp_path: Path, clock: Clock
) -> None:
    file = tmp_path / "healthy"
    one = Health(file)
    assert (one.trouble(), file.exists()) == ("not connected yet", False)
    one.beat()
    assert (one.trouble(), file.read_text()) == (None, "ok\n")
    one.failed("lost the broker")
    assert (one.trouble(), file.exists()) == ("lost the broker", False)
    one.beat()
    assert (one.trouble(), file.exists()) == (None, True)


def test_a_thread_that_is_stuck_is_not_healthy(clock: Clock) -> None:
    one = Health()
    one.beat()
    clock.now += STALE_AFTER_SECONDS + 1
    assert one.trouble() == "the connection's thread has been stuck for 11 s"


def test_a_file_that_can_no_longer_be_written_does_not_stop_the_consumer(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    one = Health(folder / "healthy")
    folder.rmdir()
    for _ in range(3):
        clock.now += 2
        one.beat()
    assert len(caplog.messages) == 1
    one.failed("lost the broker")


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        Health(tmp_path / "nowhere" / "healthy")


def test_a_file_of_somebody_else_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("ok\n1,2,3\n")
    with pytest.raises(InputError, match=r"orders\.csv: it is there and holds something else"):
        Health(file)
    assert file.read_text() == "ok\n1,2,3\n"


@pytest.mark.parametrize("left", ["ok\n", ""], ids=["written", "just being written"])
def test_a_file_that_a_killed_process_has_left_is_taken_over(tmp_path: Path, left: str) -> None:
    file = tmp_path / "healthy"
    file.write_text(left)
    one = Health(file)
    assert not file.exists()
    one.beat()
    assert file.read_text() == "ok\n"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Is a directory"):
        Health(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="holds something else"):
        Health(pipe)
    assert pipe.exists()
