"""Worlds whose broker keeps the messages of one lane, as a quorum queue may after a lost leader."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.worlds.broker import BrokerLane, Violation
from tests.worlds.circumstances import Circumstances
from tests.worlds.world import World

STUCK_AFTER_SECONDS = 60.0
"""For which others are served, as the docs promise."""

NOTICED_AFTER_SECONDS = 30.0
"""Beyond that: until what was under way has come, others were served often enough to count, and
the next sample is due."""

MOST_SECONDS = 600.0
"""Seconds in which a consumer gets a second lane and the broker keeps a message."""

STEP_SECONDS = 0.25


class KeptWorld(World):
    """Once its consumer has several lanes, the broker keeps the messages of one of them.

    The program connects again when its log says so; then every message is handled.
    """

    def _run(self) -> None:
        self.begin()
        (queue,) = self.queues
        queue.endless = True
        self.broker.pump(queue)
        (subscription,) = self.program.subscriptions
        self._go_on_until(lambda: bool(self._served()))
        more = subscription.target + 1 + int(6 * self.random())
        self._client_does(self.program.retarget, subscription, more)
        self._go_on_until(self._keeps_something)
        since = self.now
        self._go_on_until(lambda: bool(self.program.noticed))
        (noticed_at,) = self.program.noticed.values()
        seconds = noticed_at - since
        if not -STEP_SECONDS <= seconds - STUCK_AFTER_SECONDS <= NOTICED_AFTER_SECONDS:
            raise Violation(f"that the broker keeps messages was noticed after {seconds:.1f} s")
        self.advance(until=self.now + 2 * STUCK_AFTER_SECONDS)  # in which it is not logged again
        queue.endless = False
        self._client_does(self.program.stop, subscription, None)
        self._restart()
        self._drain()
        self._stop()
        if self.broker.done != self.broker.published:
            raise Violation("a message that the broker kept was not handled in the end")

    def _check_progress(self) -> None:
        """The lane that keeps its messages may be the only one with slots, and nothing happens."""
        if not self.broker.kept:
            super()._check_progress()

    def _go_on_until(self, happened: Callable[[], bool]) -> None:
        until = self.now
        most = until + MOST_SECONDS
        while not happened():
            if until > most:
                raise Violation(f"what is waited for has not happened for {MOST_SECONDS:g} s")
            until += STEP_SECONDS
            self.advance(until=until)

    def _served(self) -> list[BrokerLane]:
        """Lanes that have got a message."""
        return [lane for lane in self.queues[0].lanes if lane.lane.received]

    def _keeps_something(self) -> bool:
        """Whether the broker keeps a message by now; it begins to, with any lane."""
        lanes = self._served()
        if len(lanes) > 1 and not any(lane.keeps for lane in lanes):
            lanes[int(self.random() * len(lanes))].keeps = True
        return bool(self.broker.kept)


def kept_world(seed: int) -> KeptWorld:
    """A world with slow handlers, so that minutes pass in few events."""
    rng = random.Random(f"kept {seed}")
    choice = rng.choice
    delay = choice((0.001, 0.005, 0.02))
    controlled = rng.random() < 0.6
    moves = controlled and rng.random() < 0.7
    given = Circumstances(
        target=float(choice((2, 3, 6))),
        window=choice(("lanes", "auto")),
        controlled=controlled,
        max_held=choice((None, 8, 2)),
        max_hold=choice((2.0, 10.0)),
        interval=choice((0.2, 1.0)),
        delay=delay,
        jitter=delay * choice((0.0, 1.0)),
        work=choice(("constant", "uniform", "exponential")),
        mean_work=choice((0.02, 0.05)),
        handlers=choice((0, 1, 4)),
        door=rng.random() < 0.5,
        in_turn=rng.random() < 0.5,
        oddities=choice((0.0, 0.02)),
        at_most=choice((0.0, 0.0, 20.0)),
        moves=moves,
        stuck_after=STUCK_AFTER_SECONDS,
    )
    return KeptWorld(seed, given, f"kept:{seed}")
