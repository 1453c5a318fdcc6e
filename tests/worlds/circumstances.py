"""What a world is like: drawn from a seed, or given by a test."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from controlmq.consumer.consumer import Shape, WindowChoice
from controlmq.controllers.limits import Limits
from controlmq.loop import Controller

Draw = Callable[[], float]

DEFAULT_MAX_HELD = 250
"""Acks that are held at most, as the docs promise."""

DEFAULT_BURST_SECONDS = 0.05
"""Seconds whose messages a bound lets through at once, as the docs promise; at least one."""


@dataclass(slots=True)
class Circumstances:
    """Network, handlers, window and events of one world. Times are in seconds."""

    target: float = 4.0
    second_target: float = 0.0
    """Prefetch of a second consumer on the channel; 0 for none."""
    window: WindowChoice = "lanes"
    controlled: bool = False
    limits: Limits | None = None
    max_held: int | None = None
    max_hold: float = 2.0
    interval: float = 0.5
    delay: float = 0.001
    """One direction of the network, at least."""
    jitter: float = 0.0
    work: str = "constant"
    mean_work: float = 0.001
    handlers: int = 0
    """Size of the pool; 0 for handlers that run one at a time in the client's own thread."""
    door: bool = False
    """Whether the client of such handlers receives messages some time before it hands them over,
    as a blocking one does."""
    single_active: bool = False
    stream: bool = False
    in_turn: bool = True
    backlog: int = 40
    events: int = 400
    """Events before the world comes to its end."""
    disturbed_every: int = 0
    """Mean number of events between two disturbances; 0 for none."""
    restless_network: bool = False
    """Whether the delay changes, too, and what the broker sends stalls and comes in a bunch."""
    oddities: float = 0.0
    """Share of messages that are not simply acknowledged when their work is done."""
    refusals: float = 0.0
    """Share of further lanes that the broker refuses."""
    steady: bool = False
    """Whether the queue never runs dry and nothing disturbs; without a controller, the mean of
    open slots is asserted then."""
    paced: bool = False
    """Whether spaced acks alone decide on the rate, which is asserted then."""
    ending: str = "stop"
    """``drain`` until every message is done with, ``settle`` on a last target, or ``stop``."""
    moves: bool = False
    """Whether a controller moves the prefetch at random with every sample."""
    old_messages: int = 0
    """Messages that were out on the channel before it was wrapped."""
    transactions: bool = False
    at_most: float = 0.0
    """Messages/second that may be handed over; 0 for any number."""
    burst: float | None = None
    law: Controller | None = None
    """Moves the prefetch with every sample, as a goal without a model does live."""
    timers_late: float = 0.0
    """By so much wake-ups come later than the core asks for."""
    stuck_after: float = 0.0
    """Seconds after which a lane may count as stuck. Most worlds last less than the minute of the
    core; with 0 the turns of the others alone keep it from doing so wrongly."""

    def shape(self) -> Shape:
        """The part that the core gets to know."""
        return Shape(
            window=self.window,
            controlled=self.controlled,
            spreads=self.law is None,
            limits=self.limits,
            max_held=self.max_held,
            max_hold=self.max_hold,
            interval=self.interval,
        )

    def most_held(self, target: float) -> int:
        """Acks that a consumer that starts with this prefetch may hold at most."""
        if self.max_held is not None:
            return self.max_held
        if self.window != "single":
            high = math.inf if self.limits is None else math.ceil(self.limits.high)
            return int(min(DEFAULT_MAX_HELD, high))
        # All that its one subscription has, which is as large as the prefetch may become.
        if self.limits is not None:
            return math.ceil(self.limits.high)
        return max(math.ceil(target), DEFAULT_MAX_HELD if self.controlled else 0)

    def largest_burst(self, rate: float) -> float:
        """Messages that a bound of ``rate`` lets through at once."""
        return max(1.0, DEFAULT_BURST_SECONDS * rate) if self.burst is None else self.burst


def drawn(rng: random.Random, seed: int) -> Circumstances:
    """The circumstances of a seed.

    One world in 16 is steady, one in 48 has a constant controller, in one in 48 a large lane has to
    shrink, and in one in 48 a second lane may be refused before the queue is known to share. The
    others are disturbed. Of these, the even seeds have a restless network.
    """
    chosen = rng.random()
    if chosen < 1 / 16:
        return _steady(rng)
    if chosen < 1 / 12:
        return _spaced(rng)
    if chosen < 5 / 48:
        return _shrinking(rng)
    return _refusing(rng) if chosen < 1 / 8 else disturbed(rng, seed)


def _steady(rng: random.Random) -> Circumstances:
    return Circumstances(
        target=rng.choice((0.3, 0.5, 0.9, 1.25, 2.5, 3.7, 6.3, 9.9)),
        window=rng.choice(("lanes", "auto")),
        max_hold=20.0,
        interval=1.0,
        delay=rng.choice((0.0002, 0.001, 0.005)),
        jitter=rng.choice((0.0, 0.0005)),
        work=rng.choice(("constant", "uniform", "exponential")),
        mean_work=rng.choice((0.0005, 0.001, 0.003)),
        handlers=rng.choice((0, 0, 4)),
        events=400,
        steady=True,
    )


def _spaced(rng: random.Random) -> Circumstances:
    """A constant controller whose handlers could do more than its window lets through."""
    delay = rng.choice((0.004, 0.006))
    return Circumstances(
        target=float(rng.choice((3, 4, 6))),
        controlled=True,
        max_hold=20.0,
        interval=0.1,
        delay=delay,
        jitter=delay * rng.choice((0.0, 0.1)),
        mean_work=rng.choice((0.0005, 0.001)),
        handlers=rng.choice((0, 0, 4)),
        events=800,
        steady=True,
        paced=True,
    )


def _shrinking(rng: random.Random) -> Circumstances:
    """One large lane whose prefetch falls by more than acks may be held for."""
    handlers = rng.choice((0, 0, 4))
    return Circumstances(
        target=float(rng.choice((14, 20, 40))),
        controlled=False,
        max_held=rng.choice((1, 2)),
        max_hold=rng.choice((2.0, 10.0)),
        interval=rng.choice((0.2, 1.0)),
        delay=rng.choice((0.0001, 0.001, 0.005)),
        jitter=rng.choice((0.0, 0.001)),
        work=rng.choice(("constant", "uniform", "exponential")),
        mean_work=rng.choice((0.0005, 0.003)),
        handlers=handlers,
        door=not handlers,
        in_turn=rng.random() < 0.5,
        events=250,
        ending="settle",
    )


def _refusing(rng: random.Random) -> Circumstances:
    """Small lanes, of which the broker refuses some, also the second of an ``auto`` window."""
    handlers = rng.choice((0, 0, 4))
    return Circumstances(
        target=float(rng.choice((6, 10, 14))),
        window="auto",
        controlled=True,
        max_held=rng.choice((1, 2)),
        interval=rng.choice((0.2, 1.0)),
        delay=rng.choice((0.0001, 0.001, 0.005)),
        jitter=rng.choice((0.0, 0.001)),
        work=rng.choice(("constant", "uniform", "exponential")),
        mean_work=rng.choice((0.0005, 0.003)),
        handlers=handlers,
        door=not handlers,
        in_turn=rng.random() < 0.5,
        events=250,
        refusals=0.5,
        ending="settle",
    )


def disturbed(rng: random.Random, seed: int) -> Circumstances:
    """A world in which everything happens that may happen."""
    random_, choice = rng.random, rng.choice
    limits = None
    if random_() < 0.3:
        low = choice((0.0, 0.1, 0.5, 1.0))
        limits = Limits(low, low + choice((0.5, 2.5, 8.0, 30.0)))
    delay = choice((0.0001, 0.001, 0.005, 0.02))
    controlled = random_() < 0.5
    target = max(0.1, draw_target(random_))
    return Circumstances(
        target=limits.clamp(target) if limits else target,
        second_target=draw_target(random_) if random_() < 0.15 else 0.0,
        window=choice(("lanes", "lanes", "lanes", "auto", "single")),
        controlled=controlled,
        limits=limits,
        max_held=choice((None, None, 30, 8, 2, 1)),
        max_hold=choice((0.05, 0.3, 2.0, 10.0)),
        interval=choice((0.05, 0.2, 1.0)),
        delay=delay,
        jitter=delay * choice((0.0, 0.2, 1.0, 5.0)),
        work=choice(("constant", "uniform", "exponential", "heavy")),
        mean_work=choice((0.0001, 0.001, 0.003, 0.02)),
        handlers=choice((0, 0, 1, 4, 20)),
        single_active=random_() < 0.08,
        stream=random_() < 0.04,
        in_turn=random_() < 0.5,
        backlog=int(10 + 50 * random_()),
        events=220 + int(160 * random_()),
        disturbed_every=choice((8, 15, 30, 60)),
        restless_network=seed % 2 == 0,
        oddities=choice((0.0, 0.0, 0.02, 0.1, 0.4)),
        refusals=choice((0.0, 0.0, 0.0, 0.1, 0.5)),
        ending=choice(("drain", "drain", "settle", "stop")),
        moves=controlled and random_() < 0.7,
        old_messages=choice((0, 0, 0, 0, 0, 0, 0, 3)),
        transactions=random_() < 0.03,
        at_most=draw_rate(random_) if random_() < 0.15 else 0.0,
        burst=choice((None, None, 1.0, 2.5, 10.0)),
        door=random_() < 0.5,
    )


def draw_rate(random_: Draw) -> float:
    """A bound in messages/second, from rather few to more than most handlers can do."""
    return float(5 * 400 ** random_())


def draw_target(random_: Draw) -> float:
    """A prefetch: whole or not, small or large, now and then 0."""
    chosen = random_()
    if chosen < 0.03:
        return 0.0
    if chosen < 0.2:
        return 0.1 + 0.9 * random_()
    if chosen < 0.5:
        return float(1 + int(random_() * 12))
    if chosen < 0.9:
        return 1 + 11 * random_()
    return 1 + 40 * random_()


def draw_work(kind: str, mean: float, random_: Draw) -> Draw:
    """How long a handler works on its next message."""
    if kind == "constant":
        return lambda: mean
    if kind == "uniform":
        return lambda: 2 * mean * random_()
    if kind == "exponential":
        return lambda: -mean * math.log(1 - random_())
    return lambda: min(mean * 0.2 / (1 - random_()) ** 0.8, 200 * mean)
