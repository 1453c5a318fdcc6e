"""How long ``import controlmq`` takes beside ``import pika``, in fresh processes by turns.

Names are loaded when they are first used, and pika with them. What a program that wraps a channel
waits for, pika and the wrapper, is told beside it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

from benchmarks.measure import spread

REPETITIONS = 20
ALLOWED_TIME_RATIO = 1.5
"""Times what importing pika takes."""


STATEMENTS = {
    "controlmq": "import controlmq",
    "pika": "import pika",
    "wrap": "from controlmq import wrap",
}


def seconds(statement: str) -> float:
    code = (
        f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def run() -> dict[str, Any]:
    taken: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for statement in STATEMENTS.values():
        seconds(statement)  # the first import of a module may compile it
    for _ in range(REPETITIONS):
        for name, statement in STATEMENTS.items():
            taken[name].append(seconds(statement))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    ratio = medians["controlmq"] / medians["pika"]
    return {
        "peer": "import pika",
        **{f"{name}_seconds": spread(values) for name, values in taken.items()},
        "wrap_ratio": medians["wrap"] / medians["pika"],
        "ratio": ratio,
        "allowed": ALLOWED_TIME_RATIO,
        "met": ratio <= ALLOWED_TIME_RATIO,
    }
