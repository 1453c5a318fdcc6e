"""What a consumer under test writes down: a line before each ack, and one for each turn of events.

Lines are appended with one write each, so that they are whole whatever happens to the process.
Times are those of ``time.monotonic``, which all processes of a machine share.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Event = Literal[
    "opened",
    "redelivered",
    "begun",
    "handled",
    "late",
    "sampled",
    "above",
    "fault",
    "lost",
    "closed",
]
"""``opened``: a connection consumes. ``handled``: a message, not acknowledged yet. ``late``: the
same, and the connection that brought it is gone. ``sampled``: the controller moved the prefetch.
``fault``: the consumer inflicts one upon itself. ``lost`` and ``closed``: the connection ended,
by a failure or in order. Only some consumers write ``redelivered``, a message that comes again,
``begun``, a handler has a message, and ``above``, there are more slots than the number allowed."""

HANDLED = ("handled", "late")

monotonic = time.monotonic
"""The machine's clock, also where a trial steps the one that the window reads."""


@dataclass(frozen=True)
class Line:
    """One line: when (seconds), what, and for a message its number and whether it came again.

    ``slots`` are those that the broker may have filled: messages in flight and held acks.
    """

    time: float
    event: Event
    slots: int = 0
    number: int = -1
    redelivered: bool = False


class Record:
    """The file that a consumer appends to."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(
        self, event: Event, slots: int = 0, number: int = -1, redelivered: bool = False
    ) -> None:
        """Append one line."""
        line = f"{monotonic():.6f} {event} {slots} {number} {redelivered:d}\n"
        os.write(self._file, line.encode())


class Reader:
    """Reads a record while it grows; ``lines`` are all so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.lines: list[Line] = []
        self.handled: set[int] = set()

    def quiet_seconds(self) -> float:
        """How long no message has been handled."""
        handled = (line.time for line in reversed(self.lines) if line.event in HANDLED)
        return monotonic() - next(handled, -math.inf)

    def look(self) -> list[Line]:
        """Take in what is new, and return it."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._position += len(text)
        new = [_line(each) for each in text.decode().splitlines()]
        self.lines += new
        self.handled.update(line.number for line in new if line.event in HANDLED)
        return new


def _line(text: str) -> Line:
    at, event, slots, number, redelivered = text.split()
    return Line(float(at), event, int(slots), int(number), redelivered == "1")  # type: ignore[arg-type]
