"""``controlmq run`` goes on when nodes of its cluster fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.cluster.faults import (
    Fault,
    connections_closed,
    fill_after_fault,
    follower_cut_off,
    leader_drained,
    leader_killed,
    leader_stopped,
    quorum_queue,
)
from tests.testbed.cluster import Cluster
from tests.testbed.management import wait_until

COUNT = 2000
GOAL = 100.0
"""Messages/second."""

DEADLINE = 150.0
"""Seconds for a consumer to start, and to handle all messages once the fault is over."""

HANDLER = """
import os

def handle(body, properties):
    with open(os.environ["HANDLED"], "ab", buffering=0) as handled:
        handled.write(body + b"\\n")
"""


@pytest.mark.parametrize(
    "fault", [leader_killed, leader_stopped, leader_drained, follower_cut_off, connections_closed]
)
def test_run_goes_on_at_another_node(cluster: Cluster, fault: Fault, tmp_path: Path) -> None:
    leader, *others = cluster.nodes
    queue = quorum_queue(leader, COUNT // 2)
    (tmp_path / "taking.py").write_text(HANDLER)
    handled = tmp_path / "handled"
    handled.touch()
    words = ["run", "--queue", queue, "--goal", str(GOAL), "--interval", "0.5"]
    words += ["--handler", "taking:handle", "--url", *(node.url for node in [leader, *others])]
    process = subprocess.Popen(
        [sys.executable, "-m", "controlmq.cli.main", *words],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "HANDLED": str(handled)},
        stdout=subprocess.DEVNULL,
    )

    def numbers() -> set[int]:
        return {int(line) for line in handled.read_text().splitlines()}

    try:
        wait_until(lambda: len(numbers()) > 100, "it is at work", DEADLINE)
        fault(cluster, leader, leader)
        fill_after_fault(others[1], queue, COUNT // 2, COUNT // 2)
        wait_until(lambda: numbers() == set(range(COUNT)), "all are handled", DEADLINE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        cluster.mend()
