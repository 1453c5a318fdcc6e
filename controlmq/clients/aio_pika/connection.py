"""Connections and channels of aio-pika whose consumers hold their goals."""

from __future__ import annotations

import logging
import sys
from typing import Any
from weakref import WeakSet

import aio_pika
from aio_pika import RobustChannel, RobustConnection

from controlmq.clients.aio_pika.channel import AdaptiveChannel
from controlmq.clients.aio_pika.receiving import Remembered
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.settings import Settings, settings_from
from controlmq.clients.tested_versions import warn_if_untested
from controlmq.errors import InputError

log = logging.getLogger("controlmq")

TESTED_AIO_PIKA = ("10.2",)
TESTED_AIORMQ = ("7.2",)
TESTED_TASKIQ = ("0.13",)
TESTED_TASKIQ_AIO_PIKA = ("0.6",)
"""Versions that the tests pass with."""


class AdaptiveRobustChannel(RobustChannel):  # type: ignore[misc]
    """A robust channel that stands on an adaptive one.

    ``adaptive_consumers`` are its consumers by their tags, also while it has no connection.
    """

    window_settings: Settings

    def __init__(self, connection: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(connection, *args, **kwargs)
        self._remembered = Remembered()
        self.adaptive_consumers: dict[str, ControlledConsumer] = self._remembered.consumers
        self._adaptive_channel: AdaptiveChannel | None = None
        connection.adaptive_channels.add(self)

    async def get_underlay_channel(self) -> AdaptiveChannel:
        """As aio-pika's: every operation comes here, also after the channel was reopened."""
        plain = await super().get_underlay_channel()
        self._adaptive_channel = _adapted(plain, self.window_settings, self._remembered)
        return self._adaptive_channel

    async def give_back_all(self) -> None:
        """Cancel all consumers and put every held ack on the wire, unless the channel is lost."""
        if self._adaptive_channel is not None:
            await self._adaptive_channel.give_back_all()

    async def _on_close(self, closing: Any) -> Any:
        """As aio-pika's: the channel is opened again; here also if that fails the first time.

        A further lane that the user has no right to, because it was taken away or a token has
        expired, closes the channel, and what is opened in its place may not consume either.
        """
        try:
            return await super()._on_close(closing)
        except Exception as error:
            log.warning("a channel was closed and cannot consume: %s; trying again", error)
            self._connection._request_recovery()
            return error


class AdaptiveConnection(RobustConnection):  # type: ignore[misc]
    """A robust connection that sends held acks before it is closed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _warn_of_untested_versions()
        super().__init__(*args, **kwargs)
        self.adaptive_channels: WeakSet[AdaptiveRobustChannel] = WeakSet()

    async def close(self, *args: Any, **kwargs: Any) -> None:
        """As aio-pika's, which throws away what is not written yet; so that is waited for."""
        try:
            for channel in list(self.adaptive_channels):
                await channel.give_back_all()
        finally:
            await super().close(*args, **kwargs)


def adaptive(*args: Any, **kwargs: Any) -> type[AdaptiveConnection]:
    """A class for ``aio_pika.connect_robust(url, connection_class=...)``.

    Takes what :func:`controlmq.wrap` takes after the channel. All channels of the connection have
    consumers that hold their goals, and go on where they were after a lost connection.
    """
    settings = {"window_settings": settings_from(*args, **kwargs)}
    channel = type("AdaptiveRobustChannel", (AdaptiveRobustChannel,), settings)
    return type("AdaptiveConnection", (AdaptiveConnection,), {"CHANNEL_CLASS": channel})


def adapt(channel: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the consumers that are started on ``channel`` from now on hold their goals.

    Takes what :func:`controlmq.wrap` takes after the channel, and returns the same object. Close
    the channel before its connection: only then are held acks sent in any case.
    """
    if not isinstance(channel, aio_pika.Channel):
        raise InputError(
            f"cannot adapt a {type(channel).__name__}; give a channel of an aio-pika connection."
        )
    if hasattr(channel, "adaptive_consumers"):
        raise InputError("the channel is adaptive already.")
    _warn_of_untested_versions()
    settings = settings_from(*args, **kwargs)
    plain = channel.get_underlay_channel
    remembered = Remembered()
    channel.adaptive_consumers = remembered.consumers

    async def get_underlay_channel() -> Any:
        return _adapted(await plain(), settings, remembered)

    channel.get_underlay_channel = get_underlay_channel
    return channel


def _adapted(channel: Any, settings: Settings, remembered: Remembered) -> Any:
    """A channel of aiormq with a window; the same object."""
    if not isinstance(channel, AdaptiveChannel):
        kind = type(channel)
        channel.__class__ = type("AdaptiveChannel", (AdaptiveChannel, kind), {})
        channel.adapt(settings, remembered)
    adapted: AdaptiveChannel = channel
    return adapted


def _warn_of_untested_versions() -> None:
    """Of aio-pika, and of taskiq where that is in use: it has no adapter of its own."""
    warn_if_untested("aio-pika", *TESTED_AIO_PIKA)
    warn_if_untested("aiormq", *TESTED_AIORMQ)
    if "taskiq_aio_pika" in sys.modules:
        warn_if_untested("taskiq", *TESTED_TASKIQ)
        warn_if_untested("taskiq-aio-pika", *TESTED_TASKIQ_AIO_PIKA)
