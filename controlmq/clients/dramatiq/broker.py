"""A broker of Dramatiq whose consumers hold their goals."""

from __future__ import annotations

import threading
from collections import defaultdict
from inspect import signature
from typing import Any

from dramatiq.brokers.rabbitmq import RabbitmqBroker

from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.dramatiq.consumer import AdaptiveConsumer, PlainConsumer
from controlmq.clients.dramatiq.threads import WorkerThreads
from controlmq.clients.handled import LostAcks
from controlmq.clients.kept_bounds import KeptBounds
from controlmq.clients.pika.wrap import wrap
from controlmq.clients.settings import settings_from
from controlmq.clients.tested_versions import warn_if_untested

TESTED_DRAMATIQ = ("2.2",)
"""Versions that the tests pass with."""

WORDS = frozenset(signature(wrap).parameters) - {"channel", "handlers"}
"""What :func:`controlmq.wrap` takes, but for the handlers: these are the worker's threads."""

DELAY_QUEUE_SUFFIX = ".DQ"


class AdaptiveRabbitmqBroker(RabbitmqBroker):  # type: ignore[misc]
    """Dramatiq's ``RabbitmqBroker`` with the goals of :func:`controlmq.wrap`, in the same words.

    Whatever ``wrap`` takes after the channel is for the consumers of this broker, one for each
    queue; everything else is for Dramatiq. Consumers start from the prefetch that Dramatiq asks
    for. Delay queues have plain consumers: their messages wait for a time, not for a thread.

    ``adaptive_consumers`` are the consumers by their queues, also while there is no connection.
    """

    def __init__(self, **kwargs: Any) -> None:
        warn_if_untested("dramatiq", *TESTED_DRAMATIQ)
        self.window_settings = {word: kwargs.pop(word) for word in WORDS & kwargs.keys()}
        # What is wrong shows here, not in a thread.
        self.longest_hold = settings_from(**self.window_settings).max_hold
        super().__init__(**kwargs)
        self.adaptive_consumers: dict[str, ControlledConsumer] = {}
        self.kept_bounds: defaultdict[str, KeptBounds] = defaultdict(KeptBounds)
        """What bounds the rates, by the queues."""
        self.acks_lock = threading.Lock()
        """For what threads and consumers note of acks."""
        self._lost_acks: dict[str, LostAcks] = {}
        self.threads = WorkerThreads()
        # The last one before a message is processed, so that none of those before it counts as
        # processing.
        self.add_middleware(self.threads)

    @property
    def consumer_class(self) -> Any:
        """What Dramatiq makes the consumer of a queue with."""

        def consumer(_broker: Any, queue_name: str, prefetch: int, timeout: int) -> Any:
            if queue_name.endswith(DELAY_QUEUE_SUFFIX):
                return PlainConsumer(self, queue_name, prefetch, timeout)
            return AdaptiveConsumer(self, queue_name, prefetch, timeout)

        return consumer

    def lost_acks(self, queue_name: str) -> LostAcks:
        """The messages of a queue that were handled and may be delivered again."""
        return self._lost_acks.setdefault(queue_name, {})
