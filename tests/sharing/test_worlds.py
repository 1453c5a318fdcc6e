"""Members that share a rate never have more than it together, and use it when all is well."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.sharing.defects import DEFECTS, Defect
from tests.sharing.world import LEAST_IN_USE, SEGMENT, World
from tests.worlds.broker import Violation

CHUNK = 25
MOST_SEEDS = 400

FOUND_BY = {
    "lease_counts_from_its_receipt": 153,
    "newcomers_leave_out_what_happened_since": 40,
    "books_are_emptied_by_every_newcomer": 17,
}
"""Seeds at which the search for a defect begins; it goes on through all the others."""


def run_worlds(seeds: Iterable[int]) -> None:
    for seed in seeds:
        World(seed).run()


def test_the_shares_never_add_up_to_more_than_the_goal() -> None:
    run_worlds(range(CHUNK))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 11_000, CHUNK))
def test_the_shares_never_add_up_to_more_than_the_goal_in_many_worlds(first: int) -> None:
    run_worlds(range(first, first + CHUNK))


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


def test_a_new_segment_of_the_log_costs_nobody_its_share() -> None:
    world = World(1, members=4, calm=True)
    world.advance(15.0)
    names = {process.member.name for process in world.processes}
    read = len(world.log)
    world.advance(60.0)
    assert len(world.log) > read + 3 * SEGMENT
    assert {process.member.name for process in world.processes} == names


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
    first = FOUND_BY.get(name_of(defect), 0)
    with pytest.raises(Violation, match=r"replay with: python -m tests\.sharing \d+"):
        run_worlds([*range(first, MOST_SEEDS), *range(first)])
