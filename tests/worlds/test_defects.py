"""The worlds can fail: every planted defect is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.bounded import bounded_world
from tests.worlds.broker import Violation
from tests.worlds.defects import BOUND_DEFECTS, DEFECTS, RARE_DEFECTS, REASONS, Defect
from tests.worlds.world import World

MOST_SEEDS = 2000


def run_worlds() -> None:
    for seed in range(MOST_SEEDS):
        World(seed).run()


def run_bounded_worlds() -> None:
    for seed in range(MOST_SEEDS):
        bounded_world(seed).run()


def name_of(defect: Defect) -> str:
    return defect.__name__


def assert_violated(run: Callable[[], None], name: str, reason: str = "") -> None:
    """An invariant is violated: a defect that only makes the code fail proves nothing."""
    with pytest.raises(Violation, match=rf"replay with: python -m tests\.worlds {name}") as found:
        run()
    assert isinstance(found.value.__cause__, Violation), found.value
    assert reason in str(found.value)


def assert_found(defect: Defect, patch: pytest.MonkeyPatch) -> None:
    defect(patch)
    assert_violated(run_worlds, r"\d+", REASONS.get(defect, ""))


@pytest.mark.parametrize("defect", DEFECTS, ids=name_of)
def test_a_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(defect, monkeypatch)


@pytest.mark.parametrize("defect", BOUND_DEFECTS, ids=name_of)
def test_a_defect_of_a_bound_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    assert_violated(run_bounded_worlds, r"bounded:\d+")


@pytest.mark.slow
@pytest.mark.parametrize("defect", RARE_DEFECTS, ids=name_of)
def test_a_rare_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(defect, monkeypatch)
