"""Healthy runs, made once."""

from __future__ import annotations

import pytest

from simulator.studies.specjms import Run, vertical, workload
from tests.simulator.specjms.weighed import Weighed, weighed


@pytest.fixture(scope="package")
def vertically() -> Weighed:
    """BASE 45 for 300 s, paced deterministically, with kilobytes."""
    return weighed(workload(vertical(45)), seed=1)


@pytest.fixture(scope="package")
def healthy(vertically: Weighed) -> Run:
    """The same run."""
    return vertically.run
