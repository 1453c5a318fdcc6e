"""Whatever a seed draws, no invariant is violated."""

from __future__ import annotations

import pytest

from tests.worlds.world import World

CHUNK = 100
LEAST_EVENTS = 200


def run_chunk(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert World(seed).run().events >= LEAST_EVENTS


@pytest.mark.parametrize("first", range(0, 500, CHUNK))
def test_no_invariant_is_violated(first: int) -> None:
    run_chunk(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 30_000, CHUNK))
def test_no_invariant_is_violated_in_many_worlds(first: int) -> None:
    run_chunk(first)


@pytest.mark.parametrize(
    "seed",
    [
        1_025_613,  # one consumer's messages wait behind another's: its queue is not dry
        1_046_291,  # acks are no longer kept for a lane, and one of them is due soon
        1_147_177,  # a lane is saturated at the very moment when it would be given up
        1_078_819,  # a handler waits for more messages than the prefetch that is asked for
        1_101_803,  # commits follow each other more closely than their answers
    ],
)
def test_no_invariant_is_violated_where_one_was(seed: int) -> None:
    World(seed).run()


def test_a_seed_is_one_world() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        world = World(1)
        world.trace = lambda line, trace=trace: trace.append(line.split(" at 0x")[0])
        world.run()
    assert traces[0] == traces[1]
    assert len(traces[0]) >= LEAST_EVENTS
