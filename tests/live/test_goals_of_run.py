"""``controlmq run`` takes every goal as an option, and none."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.live.processes import Notes, command, ended, running, wait_for
from tests.testbed import Broker
from tests.testbed.publishing import fill

GOALS = [
    [],
    ["--goal", "200/s"],
    ["--goal", "200/s", "--controller", "scale"],
    ["--at-most", "200/s"],
    ["--buffer-time", "100ms"],
    ["--protect"],
    ["--at-most", "200/s", "--buffer-time", "0.1", "--protect"],
]


@pytest.mark.parametrize("goals", GOALS, ids=" ".join)
def test_messages_are_handled_with_every_goal(
    broker: Broker, queue_name: str, tmp_path: Path, goals: list[str]
) -> None:
    fill(broker.parameters, queue_name, 60)
    notes = Notes(tmp_path)
    words = ["run", "--queue", queue_name, *goals, "--handler", notes.handler("")]
    with running(command(*words, url=broker.url, cwd=tmp_path)) as process:
        wait_for(process, lambda: len(notes.handled) == 60, "all are handled")
        code, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert notes.handled == list(range(60))


def test_five_a_minute_hands_over_a_burst_and_no_more(
    broker: Broker, queue_name: str, tmp_path: Path
) -> None:
    fill(broker.parameters, queue_name, 60)
    notes = Notes(tmp_path)
    words = ["run", "--queue", queue_name, "--at-most", "5/minute", "--burst", "3"]
    handler = notes.handler("")
    since = time.monotonic()
    with running(command(*words, "--handler", handler, url=broker.url, cwd=tmp_path)) as process:
        wait_for(process, lambda: len(notes.handled) >= 4, "a burst is handled, and the next")
        code, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert notes.handled == list(range(len(notes.handled)))
    assert len(notes.handled) <= 3 + 5 / 60 * (time.monotonic() - since)
