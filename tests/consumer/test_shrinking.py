"""A window that is far too large becomes small, or says why not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from controlmq.controllers.limits import Limits
from tests.worlds.circumstances import Circumstances
from tests.worlds.world import World

LEAST_SECONDS_BEFORE = 3.0
"""Seconds before the drop."""

WORK = 0.001
"""Seconds of work of a quick handler."""


class Shrinking:
    """A world with a queue that never runs dry, whose prefetch drops after a while."""

    def __init__(self, prefetch: float, to: float, **given: Any) -> None:
        circumstances = {"max_hold": 10.0, "interval": 1.0, "controlled": True} | given
        self.world = World(1, Circumstances(target=prefetch, steady=True, **circumstances))
        self.world._steady = False  # the mean of open slots is not that of one target
        self.world.begin()
        self.subscription = self.world.program.subscriptions[0]
        self.dropped_at = 0.0
        while self.subscribed < prefetch or self.dropped_at < LEAST_SECONDS_BEFORE:
            self.dropped_at += 1.0
            self.world.advance(until=self.dropped_at)
        program = self.world.program
        if program.busy:
            program.inbox.appendleft((program.retarget, self.subscription, to))
        else:
            program.retarget(self.subscription, to)

    @property
    def subscribed(self) -> int:
        """Slots of all lanes at the broker."""
        return sum(lane.size for lane in self.subscription.queue.lanes)

    @property
    def slots(self) -> int:
        """Slots that the broker may fill with something new."""
        return self.subscribed - self.subscription.held

    def seconds_until(self, slots: int, most: float) -> float:
        """Seconds after the drop at which no more than these are subscribed."""
        seconds = 0.0
        while self.subscribed > slots and seconds < most:
            seconds += 0.25
            self.after(seconds)
        return seconds

    def after(self, seconds: float) -> int:
        """The slots this long after the drop."""
        self.world.advance(until=self.dropped_at + seconds)
        return self.slots


@pytest.mark.parametrize(
    ("handlers", "work"),
    [
        (0, WORK),
        (8, 8 * WORK),  # as many messages/second as without a pool
        pytest.param(8, WORK, marks=pytest.mark.slow),
    ],
    ids=["inline", "pool", "quick pool"],
)
@pytest.mark.parametrize("controlled", [True, False], ids=["controlled", "fixed"])
@pytest.mark.parametrize(
    ("prefetch", "to", "given"),
    [
        (200, 10, {"max_held": 10}),
        pytest.param(2000, 10, {"limits": Limits(1, 2000)}, marks=pytest.mark.slow),
        (40, 0.5, {"max_held": 2}),
    ],
    ids=str,
)
def test_a_window_shrinks_by_far_more_than_may_be_held(
    prefetch: float, to: float, given: dict[str, Any], controlled: bool, handlers: int, work: float
) -> None:
    window = "lanes" if controlled else "auto"
    given = given | {"controlled": controlled, "handlers": handlers, "window": window}
    given["mean_work"] = work
    shrinking = Shrinking(prefetch, to, **given)
    assert shrinking.seconds_until(max(1, int(to)), most=40) < 40
    assert shrinking.world.requeued == 0


@pytest.mark.parametrize("work", [1.2, 20.0])
def test_a_window_shrinks_though_its_handler_takes_long(work: float) -> None:
    shrinking = Shrinking(20, 2, mean_work=work, door=True)
    assert shrinking.seconds_until(2, most=10 * work) < 10 * work
    assert shrinking.world.requeued == 0


def test_a_window_that_cannot_shrink_says_so_once() -> None:
    notices: list[str] = []
    # What this client has received, nobody can tell, and a lane of 20 takes 24 s to come back.
    shrinking = Shrinking(20, 2, mean_work=1.2, door=False)
    shrinking.world.program.notice = notices.append  # type: ignore[method-assign]
    for second in range(1, 120):
        assert shrinking.after(second) > 2
    (notice,) = notices
    assert re.search(r"prefetch 2 is asked for, but \d+ slots stay open.*at most 10 s", notice)


def test_one_call_that_takes_very_long_does_not_stop_holding() -> None:
    shrinking = Shrinking(8, 2, mean_work=0.01, max_hold=5.0)
    shrinking.after(3)
    work = iter([60.0])
    shrinking.world.work = lambda: next(work, 0.01)
    shrinking.world.advance(until=shrinking.dropped_at + 3 + 60 + 1)
    assert shrinking.slots <= 2
