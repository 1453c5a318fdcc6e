"""Messages between a channel of aiormq and the user of aio-pika: who gets them, who answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aio_pika.queue import QueueIterator
from aiormq.exceptions import ChannelInvalidStateError

from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.handled import LostAcks
from controlmq.clients.kept_bounds import KeptBounds


@dataclass(frozen=True)
class Subscription:
    """What every lane of a consumer is asked for with."""

    callback: Callable[..., Any]
    exclusive: bool
    arguments: Any

    def take_waiting(self, channel: Any) -> list[Any]:
        """Take out what ``channel`` brought and waits in an iterator of aio-pika."""
        # aio-pika gives a partial of a function of its own with the callback of the user.
        receiver = getattr(self.callback, "args", (None,))[0]
        iterator = getattr(receiver, "__self__", None)
        if not isinstance(iterator, QueueIterator):
            return []
        waiting = [iterator._queue.get_nowait() for _ in range(iterator._queue.qsize())]
        taken = [message for message in waiting if _brought_by(channel, message)]
        for message in waiting:
            if message not in taken:
                iterator._queue.put_nowait(message)
        return taken


@dataclass(frozen=True)
class Remembered:
    """What outlives a channel that is lost, for the one that takes its place.

    ``consumers`` are those of the channel before by their tags: after a lost connection a consumer
    with the same tag goes on with the prefetch and the controller it had. ``lost_acks`` are those
    that it may have taken with it, ``bounds`` what bounds the rates.
    """

    consumers: dict[str, ControlledConsumer] = field(default_factory=dict)
    bounds: KeptBounds = field(default_factory=KeptBounds)
    lost_acks: LostAcks = field(default_factory=dict)


class Receivers(dict[str, Callable[..., Any]]):
    """What aiormq calls with a message, by the tag of its lane.

    It throws a message away whose tag it does not find. Here it goes back to its queue: such a
    message was on its way when its lane was cancelled.
    """

    def __init__(self, late: Callable[..., Any]) -> None:
        super().__init__()
        self._late = late

    def get(self, tag: str, default: Any = None) -> Any:
        """The receiver of a lane, or the one of messages that come too late."""
        return super().get(tag, self._late)


class Answerable:
    """A channel to which answers may be given also when it is closed, and are noted then.

    aio-pika asks whether the channel is closed before it answers.
    """

    is_closed = False

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


def _brought_by(channel: Any, message: Any) -> bool:
    try:
        found = message.channel
    except ChannelInvalidStateError:
        return True  # a closed one: it cannot be answered anyway
    return channel in (found, getattr(found, "_channel", None))


async def nothing(*_: Any) -> None:
    """What is left to do for a message that has been handed over."""
