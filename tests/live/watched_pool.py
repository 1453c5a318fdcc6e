"""Runs a program whose pool notes each message that a handler has finished.

``watched_pool.py NOTES PROGRAM ARGUMENTS...``; the message is the last thing given to the pool.
"""

from __future__ import annotations

import concurrent.futures
import runpy
import sys
from collections.abc import Callable
from typing import Any

NOTES = sys.argv[1]
sys.argv = sys.argv[2:]


class WatchedPool(concurrent.futures.ThreadPoolExecutor):
    """A pool that writes down what its functions have done."""

    def submit(self, work: Callable[..., Any], *given: Any) -> Any:  # type: ignore[override]
        def noted() -> None:
            try:
                work(*given)
            finally:
                with open(NOTES, "a") as notes:
                    notes.write(f"{int(given[-1])}\n")

        return super().submit(noted)


concurrent.futures.ThreadPoolExecutor = WatchedPool  # type: ignore[misc]
runpy.run_path(sys.argv[0], run_name="__main__")
