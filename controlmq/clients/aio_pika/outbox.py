"""Frames on their way to the connection's writer, in the order in which they were given.

aiormq's writer takes a few at a time: ``write_queue`` is bounded, and a full one makes its caller
wait. The window cannot wait, so what the writer does not take yet is kept here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from aiormq.abc import ChannelFrame


class Outbox:
    """What one channel has to send."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._waiting: deque[ChannelFrame] = deque()
        self._pumping = False
        self.closed = False
        """Whether the channel is closed, by us or by the broker: what is put then is not sent, for
        the broker would close the connection."""

    def put(self, *frames: Any) -> None:
        """Send these frames, nothing between them, after all that was put before."""
        channel = self._channel
        self._put(ChannelFrame.marshall(channel_number=channel.number, frames=frames))

    async def written(self) -> None:
        """Wait until all that was put is on the wire, or the connection is lost."""
        done = self._channel.create_future()
        self._put(ChannelFrame(payload=b"", should_close=False, drain_future=done))
        await asyncio.wait((done,))  # which does not raise what the connection was lost by

    def _put(self, frame: ChannelFrame) -> None:
        if self.closed:
            frame.drain()
            return
        queue = self._channel.write_queue
        if not self._waiting and not queue.full():
            queue.put_nowait(frame)
            return
        self._waiting.append(frame)
        if not self._pumping:
            self._pumping = True
            self._channel.create_task(self._pump())

    async def _pump(self) -> None:
        try:
            while self._waiting and not self.closed:
                await self._channel.write_queue.put(self._waiting[0])
                self._waiting.popleft()
        finally:
            self._pumping = False
