"""The consumer of a trial as its supervisor sees it: a process that is started, again and again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

Client = Literal["blocking", "asynchronous"]
"""Those of the program of trials; other programs have others."""

PROGRAM = "tests.faults.consumer_process"

STOP_DEADLINE = 60.0
"""Seconds for a consumer to end in order on SIGTERM, on a busy machine too."""


class ConsumerProcess:
    """A consumer that is there again after each end; ``record`` is the file it writes.

    ``fault``, a method of ``consumer_process.Consumer``, is inflicted by itself after
    ``fault_after`` messages. With ``publishes`` it publishes on the connection it consumes from.
    ``defect`` is one that is planted for the verdict to find. ``program`` is the module that runs
    as the consumer; ``further`` is what else it needs to know.
    """

    def __init__(
        self,
        url: str,
        queue: str,
        record: Path,
        *,
        client: str,
        seed: int,
        program: str = PROGRAM,
        further: dict[str, Any] | None = None,
        fault: str | None = None,
        fault_after: int = 0,
        publishes: bool = False,
        defect: str | None = None,
    ) -> None:
        self.crashes: list[str] = []
        self._order: dict[str, Any] = {
            "url": url,
            "queue": queue,
            "record": str(record),
            "client": client,
            "seed": seed,
            "fault": fault,
            "fault_after": fault_after,
            "publishes": publishes,
            "defect": defect,
            **(further or {}),
        }
        self._program = program
        self._output = record.with_suffix(".output")
        self._process = self._started()

    def kill(self) -> None:
        """SIGKILL, and another one in its place."""
        self._process.kill()
        self._replace()

    def stop(self) -> None:
        """SIGTERM, and another one in its place once it has ended in order."""
        self._end()
        self._replace()

    def attend(self) -> None:
        """Note a crash, and put another one in its place."""
        if self._process.poll() is not None:
            self.crashes.append(
                f"exit code {self._process.returncode}: {self._output.read_text()[-4000:]}"
            )
            self._replace()

    def close(self) -> None:
        """End it in order, for good."""
        self.attend()
        self._end()

    def destroy(self) -> None:
        """End it whatever it does; it may have ended already."""
        self._process.kill()
        self._process.wait()

    def _replace(self) -> None:
        self._process.wait()
        # It did to itself what it was to do.
        self._order["fault"] = None
        self._order["seed"] += 1
        self._process = self._started()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code != 0:
            self.crashes.append(f"stopped with code {code}: {self._output.read_text()[-4000:]}")

    def _started(self) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", self._program, json.dumps(self._order)],
                stderr=output,
                cwd=Path(__file__).parents[2],
            )
