"""Protection around the core: work that is slower by itself is not congestion for long."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from controlmq.consumer.consumer import Shape
from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from tests.worlds.circumstances import Circumstances, draw_work
from tests.worlds.world import World

SLOW = pytest.mark.slow

LEAST_SHARE, LEAST_SHARE_OF_UNKNOWN, LEAST_SHARE_OF_UNKNOWN_AND_SLOW = 0.95, 0.85, 0.75
"""Of the capacity, which must be reached again: usually, by a pool whose size nobody told, and by
one whose messages also take longer than a sample."""

SAMPLE_SECONDS = 1.0

SETTLING_MESSAGES, SETTLING_SECONDS = 1000.0, 120.0
"""Of the new work, and seconds at least, after which it must be; docs/protect-what-is-behind.md
says so."""

COUNTED_MESSAGES = 500.0
"""By which it is judged, after that."""


class KnownPool(Circumstances):
    """The core knows how many handlers there are."""

    def shape(self) -> Shape:
        return replace(super().shape(), handlers=self.handlers)


@dataclass(frozen=True)
class Work:
    """Seconds of work, that become ``factor`` times as many; 0 handlers work inline."""

    kind: str
    seconds: float
    factor: float
    handlers: int = 0
    known: bool = False

    @property
    def at_once(self) -> int:
        """Messages that are worked on at once, at most."""
        return max(self.handlers, 1)

    def least_share(self, seconds: float) -> float:
        """Of the capacity, which must be reached with this work."""
        if self.known or not self.handlers:
            return LEAST_SHARE
        slow = seconds > SAMPLE_SECONDS
        return LEAST_SHARE_OF_UNKNOWN_AND_SLOW if slow else LEAST_SHARE_OF_UNKNOWN

    def world(self) -> World:
        """A queue that never runs dry, behind 11 ms."""
        given = (KnownPool if self.known else Circumstances)(
            target=1.0,
            delay=0.0055,
            jitter=0.0005,
            work=self.kind,
            mean_work=self.seconds,
            handlers=self.handlers,
            max_hold=10.0,
            interval=SAMPLE_SECONDS,
            controlled=True,
            law=Selector(Goals(protect=True), Limits.widest()),
            timers_late=0.001,
        )
        world = World(1, given)
        world.begin()
        if self.known:
            # It compares samples with what the core hands over, and here they count what begins.
            world.program.check_all = lambda: None  # type: ignore[method-assign]
        for queue in world.queues:
            queue.endless = True
        return world


def busy_share(running: World, work: Work, seconds: float) -> float:
    """Share of their time for which handlers work, once the law has had its time with such work.

    It is the work of all messages that begin, so chance is no matter.
    """
    draw = draw_work(work.kind, seconds, running.random)
    begun = 0.0

    def drawn() -> float:
        nonlocal begun
        taken = draw()
        begun += taken
        return taken

    running.work = drawn
    message_seconds = seconds / work.at_once
    settled = running.now + max(SETTLING_SECONDS, SETTLING_MESSAGES * message_seconds)
    running.advance(until=settled)
    begun = 0.0
    counted = max(20.0, COUNTED_MESSAGES * message_seconds)
    running.advance(until=settled + counted)
    return begun / (work.at_once * counted)


@pytest.mark.parametrize(
    "work",
    [
        Work("constant", 0.2, 2),
        Work("exponential", 0.05, 10),
        Work("constant", 0.2, 3, handlers=8, known=True),
        Work("constant", 0.2, 100, handlers=8, known=True),
        Work("exponential", 0.2, 10, handlers=8, known=True),
        Work("uniform", 0.1, 3, handlers=4, known=True),
        Work("constant", 0.1, 10, handlers=4),
        *(
            pytest.param(Work(kind, seconds, factor, handlers, known), marks=SLOW)
            for kind in ("constant", "uniform", "exponential")
            for handlers, known in ((0, False), (4, True), (4, False), (8, True), (8, False))
            for seconds, factor in (
                (0.01, 10),
                (0.05, 2),
                (0.05, 5),
                (0.2, 3),
                (0.2, 10),
            )
        ),
    ],
    ids=str,
)
def test_slower_work_costs_capacity_only_for_a_while(work: Work) -> None:
    running = work.world()
    busy_share(running, work, work.seconds)
    for seconds in (work.factor * work.seconds, work.seconds):
        assert busy_share(running, work, seconds) > work.least_share(seconds)
