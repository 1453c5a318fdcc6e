"""What an adapted worker keeps from one connection to the next."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controlmq.clients.celery.handled_tasks import HandledTasks
from controlmq.clients.celery.pool_load import PoolLoad, QueueLoad
from controlmq.clients.celery.split_prefetch import split_prefetch
from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import LANES_IN_VAIN, ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.kept_bounds import KeptBounds
from controlmq.clients.new_consumer import new_consumer
from controlmq.clients.settings import Settings
from controlmq.consumer.consumer import Buckets
from controlmq.controllers.limits import Limits
from controlmq.loop import Sample

LINGER_SECONDS = 1.0
"""Seconds after which a lane that Celery no longer asks for is retired; until then acks are held.
Celery seldom changes its prefetch soon again."""

log = logging.getLogger("controlmq")


def moves_prefetch(settings: Settings) -> bool:
    """Whether a law moves the prefetch; else it is what Celery asks for, also with a ceiling."""
    given = settings.goals.given
    return settings.controller is not None or bool(
        given.get("buffer_time") is not None or given.get("protect")
    )


def given_goals(settings: Settings) -> list[str]:
    """The words of the goals that a worker has, for some queue at least; with its controller."""
    goals = ["controller"] if settings.controller is not None else []
    return goals + [name for name, value in settings.goals.given.items() if value]


def early_tasks(tasks: Mapping[str, Any]) -> list[str]:
    """Names of the user's tasks that are acknowledged before they run."""
    return sorted(
        name
        for name, task in tasks.items()
        if not name.startswith("celery.") and not task.acks_late
    )


class AdaptiveWorker:
    """The settings of a worker, its pool, and what its consumers have learnt.

    ``consumer`` is Celery's: the part of a worker that talks to the broker. ``asked`` is the
    prefetch that Celery wants for all queues together, without messages that wait for their time.
    """

    def __init__(self, consumer: Any, settings: Settings) -> None:
        self.consumer = consumer
        self.tasks = consumer.app.tasks
        self.settings = settings
        self.moves = moves_prefetch(settings)
        self.handled = HandledTasks(settings.max_hold)
        self.load = PoolLoad(lambda: _processes(consumer.pool))
        self.asked = 0
        self._lanes_in_vain = 0
        """Connections in a row that ended when a queue, whichever, asked for a further lane."""
        self._controllers = Controllers()
        self._bounds = KeptBounds()
        self._last: dict[str, ControlledConsumer] = {}
        """The consumers before, by their queues."""
        self._not_adapted: set[str] = set()
        """Queues of which it was logged that they are not adapted."""
        self._buckets: Buckets | None = None
        """Of openings and hand-overs, where one rate is for all queues together, on every
        connection."""

    def connected(self) -> None:
        """A connection begins: Celery starts from its initial prefetch again."""
        self.asked = self.consumer.qos.value
        self.load.forget_all()
        last = [each.lanes_in_vain for each in self._last.values()]
        self._lanes_in_vain = max(last, default=0)

    def new_consumer(
        self, tag: str, queue: str, arguments: dict[str, Any] | None, runner: Runner
    ) -> tuple[ControlledConsumer, QueueLoad]:
        """A consumer that goes on where the last one of this queue was."""
        load = self.load.queue()
        settings = replace(self.settings, fixed=not self.moves)
        if settings.handlers is None:
            settings = replace(settings, handlers=load)
        if self._only_waits and settings.limits is None:
            settings = replace(settings, limits=self._busy_limits())
        consumer = new_consumer(
            tag,
            queue,
            settings,
            self._controllers,
            self._bounds,
            runner,
            asked=self._start(runner),
            arguments=arguments,
            # The law of the consumer before is no copy, which would be for another queue.
            last=self._last.get(queue) if self.moves else None,
        )
        self._share_bucket(consumer)
        consumer.on_back = self._share_bucket_again
        if not self.moves:
            # Where acks may not be held, nothing else makes up for a slot too many.
            linger = 0.0 if early_tasks(self.tasks) else LINGER_SECONDS
            runner.core.keep_lanes_exact(consumer.plant, linger, consumer.plant.now)
        self._last[queue] = consumer
        return consumer, load

    def notice_not_adapted(self, queue: str, why: str) -> None:
        """Log once that a queue has neither a window nor a bound on its rate."""
        if queue not in self._not_adapted:
            self._not_adapted.add(queue)
            log.warning(
                "queue %s is consumed %s, so neither its prefetch nor its rate is bounded",
                queue,
                why,
            )

    def go_on(self, consumer: ControlledConsumer, last: ControlledConsumer | None) -> None:
        """Take up the law of the consumer before, once the new one is subscribed."""
        if self.moves and last is not None:
            consumer.go_on_from(last)
        consumer.give_up_lanes_in_vain(self._lanes_in_vain)

    def last_of(self, queue: str) -> ControlledConsumer | None:
        """The consumer that a queue had on the connection before."""
        return self._last.get(queue)

    def _start(self, runner: Runner) -> float | None:
        """The prefetch of a first consumer; None where the model of its controller knows better."""
        if not self.moves:
            return self._first_share(runner)
        # A law takes more when it has seen that there is use for it; what is taken stays.
        return None if self.settings.controller is not None else self.load.size()

    @property
    def _only_waits(self) -> bool:
        """Whether a time in the buffer is all that moves the prefetch."""
        return self.moves and self.settings.controller is None and not self._given("protect")

    def _given(self, goal: str) -> Any:
        return self.settings.goals.given.get(goal)

    def _busy_limits(self) -> Limits:
        """At least one message for each process: fewer would make none of them wait less.

        Tasks may take longer than a sample, and what such a sample says of their rate is rough.
        """
        queues = max(len(self.consumer.task_consumer.queues), 1)
        widest = Limits.widest()
        least = math.ceil(self.load.size() / queues)
        return replace(widest, low=min(float(least), widest.high / 2))

    def _first_share(self, runner: Runner) -> int:
        """Slots of the next queue, before anybody knows which queues have messages."""
        queues = max(len(self.consumer.task_consumer.queues), 1)
        at = min(len(runner.core.consumers), queues - 1)
        asked = max(self.asked, 1)
        if self._lanes_in_vain >= LANES_IN_VAIN:
            # After a lost connection Celery asks for less, and for all again as tasks end. A single
            # subscription has to have all slots from the start.
            asked = max(asked, self.load.size() * self.consumer.prefetch_multiplier)
        return split_prefetch(asked, [math.inf] * queues)[at]

    def _share_bucket(self, consumer: ControlledConsumer, *, empty: bool = False) -> None:
        """Let one rate that was given for the worker bound all its queues together."""
        rates = [self._given("goal"), self._given("at_most")]
        plant = consumer.plant
        if plant.buckets is None or any(isinstance(rate, Mapping) for rate in rates):
            return
        if self._buckets is None:
            self._buckets = plant.buckets
        consumer.bound_together(self._buckets, empty=empty)

    def _share_bucket_again(self, consumer: ControlledConsumer) -> None:
        """The kill switch is off again, and the consumer was given a bucket of its own, empty."""
        self._share_bucket(consumer, empty=True)

    def split_prefetch(self, consumers: list[ControlledConsumer]) -> None:
        """Give each queue its part of the prefetch that Celery asks for.

        No queue gets slots that another one still has.
        """
        if self.moves or not self.asked:
            return
        consumers = [each for each in consumers if each.running and not each.switched_off]
        if len(consumers) == 1:
            targets = [self.asked]
        else:
            targets = split_prefetch(self.asked, [_need(each) for each in consumers])
        pairs = list(zip(consumers, targets, strict=True))
        for consumer, target in sorted(pairs, key=lambda pair: pair[1] - pair[0].prefetch):
            if target > consumer.prefetch and len(consumers) > 1:
                others = [each for each in consumers if each is not consumer and _need(each)]
                taken = sum(each.plant.window.granted for each in others)
                target = max(min(target, self.asked - taken), math.ceil(consumer.prefetch))
            if target != consumer.prefetch:
                consumer.prefetch = target


def _processes(pool: Any) -> int:
    """Tasks that the pool runs at once; a pool that has stopped does not tell.

    What gevent's pool calls its processes are the greenlets that run just now.
    """
    try:
        return max(1, int(pool._pool.size if pool.is_green else pool.num_processes))
    except AttributeError:
        return 1


def _need(consumer: ControlledConsumer) -> float:
    """Slots that a queue could use: any number, where it filled those it had."""
    sample: Sample | None = consumer.last.sample if consumer.last is not None else None
    occupied = consumer.plant.sensors.in_handler
    if sample is None or occupied >= consumer.plant.window.open_slots:
        return math.inf
    if not sample.arrivals and not occupied:
        return 0.0
    if sample.window_limited and sample.arrivals:
        return math.inf
    return max(sample.in_flight, occupied) + 1
