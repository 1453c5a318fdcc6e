"""Commands and examples as processes of their own, to be interrupted and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed import wait_until

DEADLINE_SECONDS = 120.0
"""For what takes a second or two on a machine that is not busy."""


def command(
    *words: str, url: str, cwd: Path | None = None, **environment: str
) -> subprocess.Popen[str]:
    """A command of controlmq; ``url`` is the broker's, or several."""
    return subprocess.Popen(
        [sys.executable, "-m", "controlmq.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"CONTROLMQ_URL": url} | environment,
        cwd=cwd,
    )


def ended(process: subprocess.Popen[str], by: signal.Signals | None = None) -> tuple[int, str]:
    """The exit code of a process and what it said, after a signal if one is given."""
    if by is not None:
        process.send_signal(by)
    _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, errors


class Notes:
    """A folder in which handlers of a process leave what they have done.

    ``handler(work)`` writes a module there whose function ``notes:handle`` notes the number of
    each message in ``begun`` before ``work``, a line of Python, and in ``handled`` after it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def handler(self, work: str = "pass") -> str:
        """The name of the function, for ``--handler`` in this folder."""
        (self.folder / "notes.py").write_text(
            "import os, pathlib, time\n"
            f"folder = pathlib.Path({str(self.folder)!r})\n"
            "def note(name, body):\n"
            "    file = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
            "    os.write(file, b'%d\\n' % int(body))\n"
            "    os.close(file)\n"
            "def handle(body, properties):\n"
            "    note('begun', body)\n"
            f"    {work}\n"
            "    note('handled', body)\n"
        )
        return "notes:handle"

    @property
    def begun(self) -> list[int]:
        return self._numbers("begun")

    @property
    def handled(self) -> list[int]:
        return self._numbers("handled")

    def _numbers(self, name: str) -> list[int]:
        file = self.folder / name
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A process for the length of a ``with`` block, killed if it still runs then."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], condition: object, what: str) -> None:
    """Until a condition holds; the process must not end before."""
    assert callable(condition)

    def holds() -> object:
        assert process.poll() is None, process.communicate()
        return condition()

    wait_until(holds, what, deadline=DEADLINE_SECONDS)
