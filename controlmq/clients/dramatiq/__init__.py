"""Dramatiq: ``AdaptiveRabbitmqBroker(url=..., at_most=25)`` in place of ``RabbitmqBroker``."""

from controlmq.clients.dramatiq.broker import AdaptiveRabbitmqBroker

__all__ = ["AdaptiveRabbitmqBroker"]
