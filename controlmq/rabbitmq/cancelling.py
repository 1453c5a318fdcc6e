"""What a user hears when the broker cancels: one consumer, not its lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika import frame, spec


def once_a_consumer(channel: Any, callback: Callable[[Any], Any]) -> Callable[[Any], None]:
    """``callback`` for consumers the user knows, where the broker cancels lanes."""

    def on_cancel(method_frame: Any) -> None:
        tag = channel._adaptation.cancelled_by_broker(method_frame.method.consumer_tag)
        if tag is not None:
            cancel = spec.Basic.Cancel(tag, method_frame.method.nowait)
            callback(frame.Method(method_frame.channel_number, cancel))

    return on_cancel


def watch_cancels(channel: Any, callbacks: Any, key: Any) -> None:
    """Put every callback for ``key`` that the channel has behind :func:`once_a_consumer`.

    pika's own stay as they are: they know lanes.
    """
    named = getattr(key, "NAME", key)
    for entry in callbacks._stack.get(str(channel.channel_number), {}).get(named, []):
        owner = getattr(entry["callback"], "__self__", None)
        if owner is not channel:
            entry["callback"] = once_a_consumer(channel, entry["callback"])
    # And one of our own, so that the books are right without any of theirs.
    channel.add_on_cancel_callback(lambda _frame: None)
