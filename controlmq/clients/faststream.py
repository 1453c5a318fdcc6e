"""FastStream: ``adapt(RabbitBroker(url), at_most=25)``; its connections are those of aio-pika."""

from __future__ import annotations

from typing import Any

from controlmq.clients.aio_pika import adaptive
from controlmq.clients.tested_versions import warn_if_untested
from controlmq.errors import InputError

TESTED_FASTSTREAM = ("0.7",)
"""Versions that the tests pass with."""


def adapt(broker: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the subscribers of a ``RabbitBroker`` hold their goals; call it before the broker starts.

    Takes what :func:`controlmq.wrap` takes after the channel, and returns the same broker. A
    ``prefetch_count`` of its channels says where consumers start.
    """
    warn_if_untested("faststream", *TESTED_FASTSTREAM)
    # Private: RabbitBroker takes no connection_class, and passes these on to connect_robust.
    connecting = getattr(broker, "_connection_kwargs", None)
    if connecting is None or not any(map(_is_of_rabbit, type(broker).__mro__)):
        raise InputError(
            f"cannot adapt a {type(broker).__name__}; give a RabbitBroker of FastStream, for "
            "RabbitMQ is the only broker with a prefetch to adapt."
        )
    if getattr(broker, "_connection", None) is not None:
        raise InputError("the broker is connected already; adapt it before it starts.")
    connecting["connection_class"] = adaptive(*args, **kwargs)
    return broker


def _is_of_rabbit(kind: type) -> bool:
    """Whether FastStream has this class for RabbitMQ; those of other brokers look alike."""
    return kind.__module__.split(".")[:2] == ["faststream", "rabbit"]
