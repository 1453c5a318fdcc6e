"""Spark servers from the pyspark package: a standalone cluster, and Spark Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

BIN = Path(pyspark.__file__).parent / "bin"
DEADLINE = 240.0
"""Seconds for a server to say that it is up: Java takes three, a busy machine many more."""


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of a core each; gives the master's address."""
    deploy = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    worker = ["spark-class", f"{deploy}.worker.Worker"]
    small = ["--cores", "1", "--memory", "1g"]
    with ExitStack() as stack:
        master = stack.enter_context(
            _server(folder / "master.log", ["spark-class", f"{deploy}.master.Master", *here])
        )
        address = master(r"Starting Spark master at (spark://\S+)")
        workers = [
            stack.enter_context(
                _server(
                    folder / f"{name}.log",
                    [*worker, *here, *small, "--work-dir", str(folder / name), address],
                )
            )
            for name in ("first", "second")
        ]
        for started in workers:
            started("(Successfully registered with master)")
        yield address


@contextmanager
def connect(folder: Path) -> Iterator[str]:
    """A Spark Connect server on two cores of this machine; gives its address."""
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = ["spark-submit", "--class", server, "--master", "local[2]"]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    with _server(folder / "connect.log", [*command, "spark-internal"]) as started:
        port = started(r"Spark Connect server started at: \S*?:(\d+)")
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _server(log: Path, command: list[str]) -> Iterator[Waiting]:
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        # A killed server leaves its scratch files; those of a test go with it.
        "SPARK_LOCAL_DIRS": str(log.parent),
    }
    with (
        open(log, "wb") as output,
        subprocess.Popen(
            [str(BIN / command[0]), *command[1:]],
            env=environment,
            cwd=log.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield Waiting(log, process)
        finally:
            process.kill()


class Waiting:
    """Waits for a line in a server's log and returns what it says."""

    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.log = log
        self.process = process

    def __call__(self, pattern: str) -> str:
        deadline = time.monotonic() + DEADLINE
        while True:
            said = self.log.read_text(errors="replace")
            found = re.search(pattern, said)
            if found:
                return found[1]
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no {pattern!r} from the server; it said: {said[-2000:]}")
            time.sleep(0.1)
