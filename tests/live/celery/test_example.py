"""The example of a Celery app, started from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.live.handled import assert_empty
from tests.live.processes import running, wait_for
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_example_does_its_tasks(broker: Broker, queue: DeclareQueue, tmp_path: Path) -> None:
    name = queue("classic")
    variables = {**os.environ, "BROKER_URL": broker.url, "QUEUE": name}
    log = tmp_path / "worker.log"
    celery = [sys.executable, "-m", "celery", "--workdir", str(EXAMPLES), "-A", "celery_worker"]
    with open(log, "w") as output:
        worker = subprocess.Popen(
            [*celery, "worker", "--concurrency", "2"],
            env=variables,
            cwd=tmp_path,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    with running(worker):
        subprocess.run(
            [sys.executable, str(EXAMPLES / "celery_worker.py")], env=variables, check=True
        )
        wait_for(worker, lambda: log.read_text().count("handled ") >= 101, "all is done")
        assert_empty(broker, name)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
