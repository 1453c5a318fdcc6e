"""At most a rate: no stretch has more hand-overs than its bound and the burst.

Many more worlds run in the benchmark ``deterministic_worlds``.
"""

from __future__ import annotations

import pytest

from tests.worlds.bounded import SteadyDemand, bounded_world, drawn_demand

CHUNK = 100

SLOW = pytest.mark.slow

SEEDS = [0, *(pytest.param(seed, marks=SLOW) for seed in (1, 2))]


def run_chunk(first: int) -> None:
    for seed in range(first, first + CHUNK):
        bounded_world(seed).run()


@pytest.mark.parametrize("first", [0, pytest.param(CHUNK, marks=SLOW)])
def test_no_stretch_has_more_than_its_bound(first: int) -> None:
    run_chunk(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 20_000, CHUNK))
def test_no_stretch_has_more_than_its_bound_in_many_worlds(first: int) -> None:
    run_chunk(first)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("handlers", [0, 4])
@pytest.mark.parametrize("rate", [20.0, 150.0, pytest.param(400.0, marks=SLOW)])
def test_a_bound_below_capacity_is_reached_and_few_messages_wait(
    rate: float, handlers: int, seed: int
) -> None:
    found, waited = SteadyDemand(seed, rate, handlers=handlers).run(10.0)
    assert 0.99 * rate <= found <= rate + 2
    assert waited <= 2


@pytest.mark.parametrize("handlers", [0, 4])
def test_a_sample_says_how_many_messages_waited_for_the_bucket(handlers: int) -> None:
    """Beside the program's own books: those that are here and that the user has not got."""
    demand = SteadyDemand(0, 150.0, handlers=handlers)
    demand.run(2.0)
    subscription, world = demand.subscription, demand.world
    subscription.sensors.close(world.now, 1.0)
    before, since = subscription.waited, world.now
    demand.world.advance(until=since + 10.0)
    subscription.wait(world.now)
    waited = (subscription.waited - before) / (world.now - since)
    assert waited > 0.1
    assert subscription.sensors.close(world.now, 1.0).gated == pytest.approx(waited, rel=1e-6)


LAW_SEEDS = {
    15: "burst 1, late timers",
    83: "burst 1.6, handlers that work for long",
    54: "handlers do less than the bound allows",
    248: "handlers do a little less than it allows",
    5: "a pool whose size is not known",
}


@pytest.mark.parametrize("seed", LAW_SEEDS, ids=lambda seed: LAW_SEEDS[seed])
def test_the_law_reaches_what_can_be_reached_and_few_messages_wait(seed: int) -> None:
    demand = drawn_demand(seed)
    _, waited = demand.run(25.0, settling=25.0)
    assert demand.share_of_attainable() >= 0.99
    assert waited <= 2


def test_handlers_that_work_for_long_lose_tokens_whatever_the_prefetch_is() -> None:
    fixed = drawn_demand(83, target=40.0)
    rate, _ = fixed.run(25.0, settling=25.0)
    assert rate < 0.95 * min(fixed.rate, fixed.capacity)
    assert 0.99 < fixed.share_of_attainable() < 1.003


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bound_above_capacity_costs_nothing(seed: int) -> None:
    bounded, waited = SteadyDemand(seed, 10_000.0).run(2.0)
    free, _ = SteadyDemand(seed, 1_000_000.0).run(2.0)
    assert bounded >= 0.99 * free
    assert waited <= 2
