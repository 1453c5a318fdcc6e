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

DESIGN = "tests/controlmq/test_design.py"
SPARK = "tests/identification"
CLUSTER = "tests/live/cluster"

JOINED = {
    f"{SPARK}/": SPARK,
    "tests/controlmq/test_demo.py": SPARK,
    "tests/controlmq/test_tune.py": SPARK,
    "tests/test_readme.py": SPARK,
    f"{CLUSTER}/": CLUSTER,
}
"""What a path begins with, and the unit that it belongs to: one Java, one cluster of brokers."""

LONGEST = (CLUSTER, SPARK)
"""Units that take a minute or more, the longest first. The others go by their number of tests."""


def unit_of(nodeid: str) -> str:
    """The unit of work that a test belongs to."""
    file, _, test = nodeid.partition("::")
    if test.startswith("TestDesign::"):
        return DESIGN  # python-control takes seconds to import
    return next((unit for start, unit in JOINED.items() if file.startswith(start)), file)


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their units, as :data:`LONGEST` has them and then by the number of tests."""
    units = {item: unit_of(item.nodeid) for item in items}
    counts = Counter(units.values())
    rank = {unit: place for place, unit in enumerate(LONGEST)}
    items.sort(key=lambda item: (rank.get(units[item], len(rank)), -counts[units[item]]))


class LongestFirst(LoadScopeScheduling):
    """Hands out units of work, the longest first."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would sort by the number of tests alone

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
