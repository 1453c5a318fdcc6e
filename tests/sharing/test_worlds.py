"""Members that share a rate never have more than it together, and use it when all is well."""

from __future__ import annotations

import pytest

from tests.sharing.defects import DEFECTS, Defect
from tests.sharing.world import LEAST_IN_USE, World
from tests.worlds.broker import Violation

CHUNK = 25
MOST_SEEDS = 400


def run_worlds(first: int, number: int) -> None:
    for seed in range(first, first + number):
        World(seed).run()


def test_the_shares_never_add_up_to_more_than_the_goal() -> None:
    run_worlds(0, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 11_000, CHUNK))
def test_the_shares_never_add_up_to_more_than_the_goal_in_many_worlds(first: int) -> None:
    run_worlds(first, CHUNK)


@pytest.mark.parametrize("members", [1, 4])
def test_the_goal_is_used_when_all_are_well(members: int) -> None:
    world = World(1, members=members, calm=True)
    world.goal = 100.0
    world.advance(0.0)
    world.advance(10.0)
    for process in world.processes:
        process.demand = float("inf")
    world.advance(15.0)
    before = sum(len(process.times) for process in world.processes)
    world.advance(35.0)
    handed_over = sum(len(process.times) for process in world.processes) - before
    assert LEAST_IN_USE * 100.0 * 20 <= handed_over <= 100.0 * 20
    world.check_stretches()


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_a_killed_member_is_taken_over_within_ten_seconds(seed: int) -> None:
    world = World(seed, members=4, calm=True)
    world.advance(15.0)
    assert world.in_use() >= LEAST_IN_USE * world.goal
    world.processes[0].alive = False
    world.check()
    assert world.in_use() < LEAST_IN_USE * world.goal
    world.advance(25.0)
    assert world.in_use() >= LEAST_IN_USE * world.goal


def test_what_a_member_does_not_need_others_have() -> None:
    world = World(2, members=4, calm=True)
    world.goal = 100.0
    world.advance(0.0)
    world.advance(8.0)
    for process, demand in zip(
        world.processes, (5.0, 5.0, float("inf"), float("inf")), strict=True
    ):
        process.demand = demand
    world.advance(20.0)
    shares = [process.member.share for process in world.processes]
    assert shares[:2] == pytest.approx([5.5, 5.5])
    assert shares[2:] == pytest.approx([44.25, 44.25])


def name_of(defect: Defect) -> str:
    return defect.__name__


@pytest.mark.parametrize("defect", DEFECTS, ids=name_of)
def test_a_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    with pytest.raises(Violation, match=r"replay with: python -m tests\.sharing \d+"):
        run_worlds(0, MOST_SEEDS)
