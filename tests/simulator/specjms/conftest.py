"""A healthy run, made once."""

from __future__ import annotations

import pytest

from simulator.specjms import Run, run, vertical, workload


@pytest.fixture(scope="package")
def healthy() -> Run:
    """BASE 45 for 300 s, paced deterministically."""
    return run(workload(vertical(45)), seed=1)
