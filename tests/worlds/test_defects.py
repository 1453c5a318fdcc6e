"""The worlds can fail: every planted defect is found."""

from __future__ import annotations

import pytest

from tests.worlds.broker import Violation
from tests.worlds.defects import DEFECTS, Defect
from tests.worlds.world import World

MOST_SEEDS = 2000


def run_worlds() -> None:
    for seed in range(MOST_SEEDS):
        World(seed).run()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    with pytest.raises(Violation, match=r"replay with: python -m tests\.worlds \d+"):
        run_worlds()
