"""The kill switch: turns every wrapped consumer of the process to a fixed prefetch, and back.

Two environment variables, so that no program has to be changed to have it:

- ``CONTROLMQ_OFF``: consumers start with a fixed prefetch and keep it. The value is that prefetch;
  where it is empty, each consumer keeps the prefetch it would have started from.
- ``CONTROLMQ_OFF_FILE``: the path of a file, looked for once a sample. While it exists, consumers
  hold the prefetch written in it; where it is empty, the one in force when it appeared.

A value that cannot be read as a prefetch still switches off, because somebody who sets one wants
control to end at once.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from dataclasses import dataclass, field

from controlmq.checks import above_zero, prefetch_count
from controlmq.errors import InputError

log = logging.getLogger("controlmq")

VARIABLE = "CONTROLMQ_OFF"
FILE_VARIABLE = "CONTROLMQ_OFF_FILE"


@dataclass(frozen=True)
class Off:
    """The order to hold ``prefetch``; None means the one in force.

    ``for_good``: it comes from an environment variable, which cannot change while the process runs.
    """

    prefetch: float | None
    for_good: bool = field(default=False, compare=False)

    def whole(self, in_force: float) -> float:
        """The prefetch to hold: fractions would need held acks, so it is rounded up."""
        return float(max(1, math.ceil(self.prefetch or in_force)))


def look() -> Off | None:
    """Whether consumers are to hold a fixed prefetch now; a change is logged once a process."""
    name, text = _found()
    off = None
    wrong = ""
    if text is not None:
        for_good = name == VARIABLE
        try:
            off = Off(_prefetch(text), for_good)
        except (InputError, ValueError):
            off, wrong = Off(None, for_good), f" ({text.strip()[:20]!r} is not a prefetch above 0)"
    _notice(name, off, wrong)
    return off


def _found() -> tuple[str, str | None]:
    """The variable or file that switches off, and its text; None where neither does."""
    value = os.environ.get(VARIABLE)
    if value is not None:
        return VARIABLE, value
    path = os.environ.get(FILE_VARIABLE)
    if not path:
        return "", None
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return path, file.read(100)
    except (FileNotFoundError, NotADirectoryError):
        return path, None
    except OSError:
        return path, ""  # it is there and cannot be read


def _prefetch(text: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    return prefetch_count("prefetch", above_zero("prefetch", float(text)))


_lock = threading.Lock()
_noticed: Off | None = None


def _notice(name: str, off: Off | None, wrong: str) -> None:
    global _noticed
    with _lock:
        if off == _noticed:
            return
        _noticed = off
    if off is None:
        log.warning("%s was removed: consumers adapt again", name)
    else:
        kept = "the prefetch in force" if off.prefetch is None else f"prefetch {off.prefetch:g}"
        log.warning("%s is set%s: consumers keep %s and do not adapt", name, wrong, kept)
