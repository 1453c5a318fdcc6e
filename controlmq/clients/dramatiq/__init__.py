"""Dramatiq: ``AdaptiveRabbitmqBroker(url=..., at_most=25)`` in place of ``RabbitmqBroker``."""

from controlmq.extras import check

# Before the imports below: they would fail without naming the extra.
check({"dramatiq": ["dramatiq"]}, "controlmq.clients.dramatiq")

from controlmq.clients.dramatiq.broker import AdaptiveRabbitmqBroker

__all__ = ["AdaptiveRabbitmqBroker"]
