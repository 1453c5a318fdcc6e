"""How long ``import controlmq`` takes beside ``import pika``, in fresh processes by turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

from benchmarks.measure import spread

REPETITIONS = 20
ALLOWED = 1.5


def seconds(module: str) -> float:
    code = (
        "import time; start = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def run() -> dict[str, Any]:
    taken: dict[str, list[float]] = {"controlmq": [], "pika": []}
    for module in taken:
        seconds(module)  # the first import of a module may compile it
    for _ in range(REPETITIONS):
        for module, values in taken.items():
            values.append(seconds(module))
    ratio = statistics.median(taken["controlmq"]) / statistics.median(taken["pika"])
    return {
        "peer": "import pika",
        "controlmq_seconds": spread(taken["controlmq"]),
        "pika_seconds": spread(taken["pika"]),
        "ratio": ratio,
        "allowed": ALLOWED,
        "met": ratio <= ALLOWED,
    }
