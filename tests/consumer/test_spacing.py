"""How far apart a controlled consumer keeps the openings of its slots: what comes of it."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import Any

import pytest

from tests.worlds.circumstances import Circumstances
from tests.worlds.world import World

ONE_DIRECTION, WORK = 0.0055, 0.001


class Watched:
    """A steady world in which the openings of slots are written down."""

    def __init__(self, target: float, controlled: bool = True, **given: Any) -> None:
        circumstances = {"delay": ONE_DIRECTION, "mean_work": WORK, "max_hold": 10.0} | given
        self.world = World(
            1,
            Circumstances(
                target=target, controlled=controlled, steady=True, interval=1.0, **circumstances
            ),
        )
        self.openings: list[float] = []
        program = self.world.program
        on_acks = program.acks_at_broker

        def note(frames: Any, asked: Any) -> None:
            before = self.world.broker.done
            on_acks(frames, asked)
            self.openings += [self.world.now] * (self.world.broker.done - before)

        program.acks_at_broker = note  # type: ignore[method-assign]
        self.world.begin()

    @property
    def window(self) -> Any:
        return self.world.program.subscriptions[0].window

    def run(self, until: float) -> Watched:
        self.world.advance(until=until)
        return self

    def gaps(self, since: float) -> list[float]:
        return [after - before for before, after in pairwise(self.openings) if before > since]

    def rate(self, since: float, until: float) -> float:
        """Messages/second."""
        return sum(since < opening <= until for opening in self.openings) / (until - since)


@pytest.mark.parametrize("target", [3.0, 6.0, 6.3])
def test_a_controlled_consumer_opens_its_slots_at_even_distances(target: float) -> None:
    gaps = Watched(target).run(until=10).gaps(since=6)
    middle = statistics.median(gaps)
    assert min(gaps) > 0.75 * middle
    assert max(gaps) < 1.25 * middle


def test_without_a_controller_slots_travel_in_a_bunch() -> None:
    plain = Watched(6.0, controlled=False, handlers=6).run(until=10)
    assert plain.window.spacing == 0
    gaps = plain.gaps(since=6)
    assert max(gaps) > 0.9 * (2 * ONE_DIRECTION + WORK)
    assert statistics.median(gaps) == 0


def test_the_wait_for_a_handler_of_a_pool_does_not_change_the_rate() -> None:
    """Four handlers of 3 ms do 1,333 messages a second, however many more wait for them."""
    pool = Watched(40.0, handlers=4, mean_work=0.003).run(until=14)
    rates = [pool.rate(second, second + 1) for second in range(4, 14)]
    assert rates == pytest.approx([4 / 0.003] * len(rates), rel=0.03)


def test_a_reserve_absorbs_a_network_that_is_slower_for_a_while() -> None:
    watched = Watched(6.0).run(until=6.05)
    watched.world.circumstances.delay *= 1.15
    watched.run(until=7)
    assert watched.rate(6.05, 6.95) == pytest.approx(watched.rate(5, 6), rel=0.01)
    # Without a reserve the same window gives a tenth less.
    plain = Watched(6.0, controlled=False).run(until=6.05)
    plain.world.circumstances.delay *= 1.15
    plain.run(until=7)
    assert plain.rate(6.05, 6.95) < 0.92 * plain.rate(5, 6)


@pytest.mark.parametrize(
    ("target", "controlled"), [(1.0, True), (0.4, True), (6.0, False)], ids=str
)
def test_what_need_not_be_spread_is_not(target: float, controlled: bool) -> None:
    assert Watched(target, controlled).run(until=5).window.spacing == 0


def test_a_consumer_whose_controller_is_taken_away_is_not_spread_any_more() -> None:
    watched = Watched(6.0).run(until=5)
    assert watched.window.spacing > 0
    watched.world.program.fix(6.0, None)
    assert watched.run(until=8).window.spacing == 0
