"""The adaptive consumer without a socket: events in, commands out, no clock of its own.

:class:`~controlmq.consumer.core.Core` is the one object a client adapter talks to.
"""
