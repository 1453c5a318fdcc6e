"""Messages that this process has handled, so that none of them is handled again after a reconnect.

A message is delivered again when its connection is lost before its ack has reached the broker. The
ack may have been held, or on its way. Where the message carries an id, its second delivery to the
same process is acknowledged without being handled.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

REMEMBERED_MESSAGES = 10_000
"""Handled messages that are remembered for each channel: more than any window has in flight, and
than the acks that are on their way to the broker."""


class HandledMessages:
    """The keys of the messages that were handled last."""

    def __init__(self, most: int = REMEMBERED_MESSAGES) -> None:
        self._most = most
        self._keys: dict[Hashable, None] = {}

    def add(self, key: Hashable) -> None:
        """Remember a message that was handled; the oldest one is forgotten in its place."""
        keys = self._keys
        keys[key] = None
        if len(keys) > self._most:
            del keys[next(iter(keys))]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys


def key_of(properties: Any) -> Hashable | None:
    """What tells a message apart from every other, from its properties; None where nothing does.

    That is its ``message_id``, or taskiq's ``task_id``, with its headers: a retry may be a new
    message with the old id, and has to be handled. Headers of the broker differ between two
    deliveries and do not count.
    """
    headers = properties.headers
    identity: Hashable | None = properties.message_id
    if not headers:
        return identity
    if identity is None:
        identity = headers.get("task_id")
        if identity is None:
            return None
    own = [item for item in headers.items() if item[0][:2] != "x-"]
    return (identity, repr(own)) if own else identity
