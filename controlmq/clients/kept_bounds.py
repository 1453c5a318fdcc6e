"""A bound on a rate goes on when its consumer ends and another one of the same queue begins.

So it does over a lost connection, and where a program cancels a consumer and consumes again. With a
bucket of its own each of them would start a burst.
"""

from __future__ import annotations

from typing import NamedTuple

from controlmq.clients.channel_runner import Runner, clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.consumer.consumer import Consumer


class Bounded(NamedTuple):
    """A consumer that began with a bound, and the queue as the user named it."""

    queue: str
    consumer: Consumer
    runner: Runner


class KeptBounds:
    """The consumers with a bound of one channel and of those before it, in one process.

    Each new one takes the place of one that has ended: all of an earlier channel have. ``before``
    are those of the channel before this one.
    """

    def __init__(self, before: KeptBounds | None = None) -> None:
        self._begun: list[Bounded] = [] if before is None else list(before._begun)

    def begin(self, consumer: ControlledConsumer, queue: str, runner: Runner) -> None:
        """Bound a new consumer by what bounded one before it, if there is one."""
        ended = [
            each for each in self._begun if each.consumer.cancelled or each.runner is not runner
        ]
        same = [each for each in ended if each.queue == queue]
        last = min(same, key=lambda each: each.consumer.tag != consumer.tag, default=None)
        now = clock()
        for each in ended:
            # A full bucket says no more than a new one.
            if each is last or (each.consumer.buckets and each.consumer.buckets[1].is_full(now)):
                self._begun.remove(each)
        if last is not None:
            consumer.keep_bound_of(last.consumer)
        if last is not None or consumer.plant.buckets is not None:
            self._begun.append(Bounded(queue, consumer.plant, runner))
