"""What benchmarks share: where processes run, and how a series of measurements is reported."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Part = TypeVar("Part")


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """Median, quartiles and extremes of repeated measurements."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {
        "median": statistics.median(values),
        "quartile_low": low,
        "quartile_high": high,
        "least": min(values),
        "most": max(values),
        "repetitions": len(values),
    }


def chosen(parts: Mapping[str, Part], names: Sequence[str]) -> dict[str, Part]:
    """The parts of a benchmark that are named, all of them without a name."""
    unknown = sorted(set(names) - set(parts))
    if unknown:
        raise SystemExit(f"no part {unknown[0]!r}; there are {', '.join(parts)}.")
    return {name: parts[name] for name in names or parts}


def at_most(what: str, found: float, limit: float) -> dict[str, Any]:
    """A figure that meets what is asked for up to a limit."""
    return {
        "what": what,
        "found": float(found),
        "at_most": limit,
        "met": bool(found <= limit),
    }


def at_least(what: str, found: float, limit: float) -> dict[str, Any]:
    """A figure that meets what is asked for from a limit on."""
    return {
        "what": what,
        "found": float(found),
        "at_least": limit,
        "met": bool(found >= limit),
    }


def beside(what: str, found: float | str) -> dict[str, Any]:
    """A figure, or some, of which nothing is asked."""
    return {"what": what, "found": found}


def verdict(*figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a part, and whether all that is asked of them is met."""
    return {
        "figures": [*figures],
        "met": all(figure["met"] for figure in figures if "met" in figure),
    }


def peak_memory() -> float:
    """Megabytes that this process has held at most."""
    # Not getrusage, whose figure starts with what the process that started this one held.
    status = Path("/proc/self/status").read_text()
    (peak,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peak.split()[1]) / 1024


AWAKE = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == int(sys.argv[2]):
    for _ in range(100_000):
        pass
"""


@contextmanager
def awake() -> Iterator[None]:
    """Keep the processors from falling asleep, with loops that give way to everything else.

    A virtual machine's processor that sleeps is the host's to lend to others, and comes back late:
    where messages come and go every few milliseconds, that is most of what is stolen.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "SCHED_IDLE") else []
    words = [sys.executable, "-I", "-S", "-c", AWAKE]
    loops = [subprocess.Popen([*words, str(core), str(os.getpid())]) for core in cores]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def on_core(number: int) -> Iterator[None]:
    """Run on one core alone, if there are several and the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[number]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
