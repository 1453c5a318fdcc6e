"""An adaptive channel of aiormq without a connection, whose broker agrees to everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from types import SimpleNamespace
from typing import Any

from aiormq.abc import DeliveredMessage
from pamqp import commands as spec
from pamqp.header import ContentHeader

from controlmq.clients.aio_pika.channel import AdaptiveChannel
from controlmq.clients.aio_pika.receiving import Remembered
from controlmq.clients.settings import settings_from


class UnconnectedChannel(AdaptiveChannel):
    """``deliver`` does what its reader does; ``remembered`` comes from the channels before."""

    def __init__(
        self, remembered: Remembered | None = None, connection: Any = None, **words: Any
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.number = 1
        self.connection = connection or SimpleNamespace(is_opened=True)
        self.write_queue = asyncio.Queue()
        self.remembered = remembered or Remembered()
        self._over = self.loop.create_future()
        self._tag = 0
        self.adapt(settings_from(**words), self.remembered)

    @property
    def closing(self) -> asyncio.Future[Any]:
        return self._over

    @property
    def is_closed(self) -> bool:
        return self._over.done()

    @property
    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        yield

    async def answer(self) -> Any:
        return None

    def create_task(self, work: Any) -> Any:
        return self.loop.create_task(work)

    def create_future(self) -> Any:
        return self.loop.create_future()

    def __repr__(self) -> str:
        return "<a channel>"

    async def consume(self, queue: str, callback: Callable[..., Any], tag: str) -> Any:
        """Consume and return the consumer."""
        await self.basic_consume(queue, callback, consumer_tag=tag)
        return self.controlled[tag]

    def deliver(
        self, lane: str, message_id: str | None = None, redelivered: bool = False, body: bytes = b""
    ) -> int:
        """A message has come to a lane; returns its delivery tag."""
        self._tag += 1
        delivery = spec.Basic.Deliver(lane, self._tag, redelivered, "", "")
        header = ContentHeader(properties=spec.Basic.Properties(message_id=message_id))
        work = self.consumers.get(lane)(DeliveredMessage(delivery, header, body, self))
        self.create_task(work)
        return self._tag

    async def lose(self) -> None:
        """The connection is lost."""
        self._over.set_result(None)
        await settled()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def settled() -> None:
    """Whatever is ready has run, and what that made ready."""
    for _ in range(5):
        await asyncio.sleep(0)
