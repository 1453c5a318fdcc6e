"""Which worker of pytest-xdist runs which tests, and in which order.

A file is a unit of work, so that what it starts exists in one worker. Files that share something
that takes long to start are one unit. The longest units come first: what is left for the end is
short, and the workers end together.
"""

from __future__ import annotations

from collections import Counter

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

SPARK = "tests/identification"
LIVE = "tests/live/"
CLUSTER = "tests/live/cluster"
DESIGN = "tests/controlmq/test_design.py"

JOINED = {
    # python-control, scipy, matplotlib and pandas, which take seconds to import
    "tests/controlmq/test_robust_design.py": DESIGN,
    "tests/controlmq/test_cli.py::TestDesign": DESIGN,
    "tests/controlmq/test_cli.py::TestSimulate": DESIGN,
    "tests/controlmq/test_aliases.py": DESIGN,
    "tests/simulator/test_queueing_theory.py": DESIGN,
    "tests/simulator/test_metrics.py": DESIGN,
    "tests/identification/test_diagnosis.py::test_ljung_box": DESIGN,
    "tests/identification/test_least_squares.py": DESIGN,
    SPARK: SPARK,  # one Java
    "tests/controlmq/test_cli.py::TestIdentify": SPARK,
    "tests/controlmq/test_demo.py": SPARK,
    "tests/controlmq/test_scheduling.py::test_a_trace": SPARK,
    "tests/controlmq/test_tune.py": SPARK,
    "tests/simulator/test_tournament.py::test_the_page": SPARK,
    "tests/test_readme.py": SPARK,
    CLUSTER: CLUSTER,  # one cluster of brokers
}
"""What the name of a test begins with, and the unit that it belongs to; the first one counts."""

LONGEST = (
    SPARK,
    "tests/live/test_service.py",
    CLUSTER,
    "tests/live/test_faults.py",
    "tests/live/test_commands.py",
    "tests/worlds/test_worlds.py",
    "tests/live/test_testbed.py",
    "tests/live/test_alerts.py",
    "tests/live/test_window_changes.py",
    "tests/live/test_specjms.py",
    "tests/live/test_pika_versions.py",
)
"""Units that take half a minute or more, the longest first."""


def unit_of(nodeid: str) -> str:
    """The unit of work that a test belongs to: those of its file, or those it is joined with."""
    joined = (unit for start, unit in JOINED.items() if nodeid.startswith(start))
    return next(joined, nodeid.partition("::")[0])


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their units: :data:`LONGEST`, other live ones, then the most tests first."""
    units = {item: unit_of(item.nodeid) for item in items}
    counts = Counter(units.values())
    rank = {unit: place for place, unit in enumerate(LONGEST)}

    def order(item: pytest.Item) -> tuple[int, bool, int]:
        unit = units[item]
        return rank.get(unit, len(rank)), not unit.startswith(LIVE), -counts[unit]

    items.sort(key=order)


class LongestFirst(LoadScopeScheduling):
    """Hands out units of work, the longest first."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would sort by the number of tests alone

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
