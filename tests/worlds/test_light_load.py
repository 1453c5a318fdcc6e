"""Laws around the core where messages are few, or handlers hide: the prefetch does not run away.

A queue that is nearly empty looks like a long round trip, and messages that come at random look
like a rate that follows the prefetch; a pool whose size nobody told takes in whatever it is given.
"""

from __future__ import annotations

import random

import pytest

from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from tests.worlds.circumstances import Circumstances, draw_work
from tests.worlds.world import World

SLOW = pytest.mark.slow
DELAY_SECONDS = 0.0055
"""Of one direction of the network."""


def world(goals: Goals, work: float, handlers: int, kind: str) -> World:
    """A consumer with these goals before a queue with three messages."""
    rate, burst = goals.pace(controlled=False)
    given = Circumstances(
        target=1.0,
        delay=DELAY_SECONDS,
        jitter=0.0005,
        work=kind,
        mean_work=work,
        handlers=handlers,
        max_hold=10.0,
        interval=1.0,
        controlled=True,
        law=Selector(goals, Limits.widest()),
        at_most=rate or 0.0,
        burst=burst,
        timers_late=0.001,
        backlog=3,
    )
    found = World(1, given)
    found.begin()
    return found


def prefetches(world: World, after: float = 0.0) -> list[float]:
    """Those that were in force, after so many seconds."""
    samples = world.program.subscriptions[0].samples
    return [sample.prefetch for sample in samples if sample.time > after]


@pytest.mark.parametrize(
    ("work", "rate"),
    [(0.005, 0.3), (0.005, 3.0), pytest.param(0.005, 30.0, marks=SLOW), (0.1, 0.3), (0.1, 3.0)],
)
@pytest.mark.parametrize(
    "goals",
    [Goals(), Goals(buffer_time=0.1), Goals(at_most=50), Goals(at_most=5), Goals(goal=20)],
    ids=["least", "buffer time", "at most 50", "at most 5", "goal"],
)
def test_messages_that_come_at_random_do_not_raise_the_prefetch(
    goals: Goals, work: float, rate: float
) -> None:
    """For ten minutes, to handlers that could do more. Twice is tried now and then, at most four
    times under a ceiling."""
    running, rng, now = world(goals, work, 0, "exponential"), random.Random(1), 0.0
    while now < 600:
        now += rng.expovariate(rate)
        running.advance(until=now)
        running.broker.publish(running.queues[0], 1)
    found = prefetches(running)
    assert max(found) < 20
    assert sum(found) / len(found) < 8


@pytest.mark.parametrize("goals", [Goals(), Goals(at_most=50)], ids=["least", "at most"])
@pytest.mark.parametrize(
    ("every", "number"),
    [(1.0, 1), pytest.param(0.1, 1, marks=SLOW), (10.0, 20), pytest.param(2.0, 20, marks=SLOW)],
)
def test_messages_that_come_regularly_do_not_raise_the_prefetch(
    goals: Goals, every: float, number: int
) -> None:
    running = world(goals, 0.005, 0, "constant")
    for tick in range(1, round(900 / every)):
        running.advance(until=tick * every)
        running.broker.publish(running.queues[0], number)
    found = prefetches(running)
    assert max(found) < 20
    assert sum(found) / len(found) < 4


@pytest.mark.parametrize(
    ("handlers", "work", "kind", "least_share"),
    [
        (4, 0.05, "uniform", 0.95),
        pytest.param(4, 0.02, "uniform", 0.95, marks=SLOW),
        pytest.param(4, 0.02, "exponential", 0.95, marks=SLOW),
        pytest.param(8, 0.2, "exponential", 0.95, marks=SLOW),
        (4, 1.0, "uniform", 0.8),  # so few messages tell little: say handlers=4
    ],
)
def test_a_pool_whose_size_nobody_told_is_not_flooded_by_a_full_queue(
    handlers: int, work: float, kind: str, least_share: float
) -> None:
    """Messages that wait in the pool look like messages at work."""
    running = world(Goals(), work, handlers, kind)
    running.queues[0].endless = True
    running.advance(until=600.5)
    samples = running.program.subscriptions[0].samples[200:]
    assert sum(sample.rate for sample in samples) / len(samples) > least_share * handlers / work
    found = prefetches(running, after=200)
    assert sum(found) / len(found) < 8 * handlers


@pytest.mark.parametrize("work", [0.1, 0.5])
def test_the_least_prefetch_grows_at_once_after_a_long_time_in_which_one_was_enough(
    work: float,
) -> None:
    """Work of many round trips needs one message; then it takes a tenth of a round trip."""
    running = world(Goals(), work, 0, "constant")
    running.queues[0].endless = True
    running.circumstances.delay = 0.0005
    running.advance(until=900.5)
    running.circumstances.delay, running.circumstances.mean_work = DELAY_SECONDS, 0.001
    running.work = draw_work("constant", 0.001, running.random)
    running.advance(until=930.5)
    samples = running.program.subscriptions[0].samples
    settled = [sample.rate for sample in samples if sample.time > 915]
    assert sum(settled) / len(settled) > 900
