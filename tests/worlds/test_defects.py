"""The worlds can fail: every planted defect is found, by the invariant that is there for it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.worlds.bounded import bounded_world
from tests.worlds.broker import Violation
from tests.worlds.defects import BOUND_DEFECTS, DEFECTS, RARE_DEFECTS, Defect
from tests.worlds.world import World

MOST_SEEDS = 2000

MOST_OTHERS = 50
"""Worlds that may end by another invariant, because it looks more often or sooner."""


def name_of(defect: Defect) -> str:
    return defect.__name__


def first_violation(run: Callable[[int], object], words: str) -> Violation:
    """That of the first world in which the invariant with these words is violated."""
    others = []
    for seed in range(MOST_SEEDS):
        try:
            run(seed)
        except Violation as found:
            if words in str(found):
                return found
            others.append(str(found))
            if len(others) >= MOST_OTHERS:
                break
    pytest.fail(f"not found as {words!r}, but as {others}")


def assert_found(run: Callable[[int], object], name: str, words: str) -> None:
    """An invariant is violated: a defect that only makes the code fail proves nothing."""
    found = first_violation(run, words)
    assert re.search(rf"replay with: python -m tests\.worlds {name}\d+", str(found))
    assert isinstance(found.__cause__, Violation), found


def run_world(seed: int) -> None:
    World(seed).run()


def run_bounded_world(seed: int) -> None:
    bounded_world(seed).run()


@pytest.mark.parametrize(("defect", "words"), DEFECTS.items(), ids=map(name_of, DEFECTS))
def test_a_defect_is_found(defect: Defect, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    assert_found(run_world, "", words)


@pytest.mark.parametrize(
    ("defect", "words"), BOUND_DEFECTS.items(), ids=map(name_of, BOUND_DEFECTS)
)
def test_a_defect_of_a_bound_is_found(
    defect: Defect, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    assert_found(run_bounded_world, "bounded:", words)


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "words"), RARE_DEFECTS.items(), ids=map(name_of, RARE_DEFECTS))
def test_a_rare_defect_is_found(
    defect: Defect, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    assert_found(run_world, "", words)
