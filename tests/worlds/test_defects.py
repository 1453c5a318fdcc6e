"""The worlds can fail: every planted defect is found."""

from __future__ import annotations

import pytest

from tests.worlds.broker import Violation
from tests.worlds.defects import DEFECTS, Defect
from tests.worlds.world import World

MOST_SEEDS = 2000


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            World(seed).run()
        except Violation as found:
            assert f"python -m tests.worlds {seed}" in str(found)
            return
    pytest.fail(f"{defect.__name__} was not found in {MOST_SEEDS} worlds")
