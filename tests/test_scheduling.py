"""Tests go to workers in units, and the units that are named exist."""

from __future__ import annotations

from pathlib import Path

from tests.scheduling import CLUSTER, DESIGN, JOINED, LONGEST, SPARK, unit_of

ROOT = Path(__file__).parents[1]


def test_what_is_named_is_there() -> None:
    for name in (*JOINED, *LONGEST):
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not test or f" {test}" in (ROOT / file).read_text(), name


def test_a_file_is_a_unit_unless_it_is_joined_with_others() -> None:
    assert unit_of("tests/live/test_goals.py::test_it_runs[a::b]") == "tests/live/test_goals.py"
    assert unit_of("tests/live/cluster/test_failing_nodes.py::test_run") == CLUSTER
    assert unit_of("tests/identification/test_fleet.py::test_a") == SPARK
    assert unit_of("tests/controlmq/test_cli.py::TestIdentify::test_b") == SPARK
    assert unit_of("tests/controlmq/test_cli.py::TestSimulate::test_c") == DESIGN
    assert unit_of("tests/controlmq/test_cli.py::TestRun::test_d").endswith("test_cli.py")
