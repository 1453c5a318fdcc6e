"""Processes that share a rate on a real broker, and when they handed messages over."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path


class SharingProcess:
    """One consumer; ``times`` are those of its hand-overs, by the machine's monotonic clock."""

    def __init__(self, file: Path, words: Sequence[str]) -> None:
        self._file = file
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sharing.consumer_process", *words, str(file)]
        )

    @property
    def times(self) -> list[float]:
        if not self._file.exists():
            return []
        noted = self._file.read_bytes()
        return [each for (each,) in struct.iter_unpack("d", noted[: len(noted) // 8 * 8])]

    def lately(self, seconds: float) -> int:
        """Hand-overs in the last so many seconds."""
        since = time.monotonic() - seconds
        return sum(each > since for each in self.times)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """As kill -9 does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Let it stand still, until :meth:`go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


class SharingProcesses:
    """All of them; those that still run are killed at the end of the ``with`` block."""

    def __init__(self, url: str, queue: str, rate: float, folder: Path) -> None:
        self._words = (url, queue, str(rate), "orders")
        self._folder = folder
        self._numbers = count()
        self.all: list[SharingProcess] = []

    def start(self) -> SharingProcess:
        process = SharingProcess(self._folder / f"{next(self._numbers)}.times", self._words)
        self.all.append(process)
        return process

    @property
    def times(self) -> list[float]:
        """Of all hand-overs, in order."""
        return sorted(each for process in self.all for each in process.times)

    def __enter__(self) -> SharingProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            if process.alive:
                process.kill()


def most_in(times: Sequence[float], stretch: float) -> int:
    """The most of these ordered times within any stretch of so many seconds, both ends included."""
    first = most = 0
    for last, time_ in enumerate(times):
        while time_ - times[first] > stretch:
            first += 1
        most = max(most, last - first + 1)
    return most
