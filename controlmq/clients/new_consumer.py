"""How a consumer begins, with every client the same."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from controlmq.clients.channel_runner import Runner
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.controllers import Controllers
from controlmq.clients.kept_bounds import KeptBounds
from controlmq.clients.settings import Settings

log = logging.getLogger("controlmq")


def new_consumer(
    tag: str,
    queue: str,
    settings: Settings,
    controllers: Controllers,
    bounds: KeptBounds,
    runner: Runner,
    *,
    asked: float | None,
    arguments: Mapping[str, Any] | None,
    exclusive: bool = False,
    last: ControlledConsumer | None = None,
    tag_is_new: bool = True,
) -> ControlledConsumer:
    """A consumer that is to be subscribed with these ``arguments``.

    It starts from the prefetch that was ``asked`` for. If there was a consumer before it
    (``last``), it takes that one's prefetch and law, which already follows its file. Otherwise the
    file is read again, because it may have changed since the settings were made. ``bounds`` are
    those of the consumers before it, also of those that have no other part in this one.
    """
    passed_over = settings.goals.passed_over(queue)
    if queue and passed_over:
        _warn(queue, passed_over)
    settings = settings.within_timeout(arguments)
    if exclusive:
        settings = replace(settings, window="single")
    if last is None:
        settings = settings.read_again()
        controller = controllers.new(settings, queue)
    else:
        controller, asked = last.law, max(1, math.ceil(last.prefetch))
    consumer = ControlledConsumer(
        tag, queue, settings, controller, asked, runner, tag_is_new=tag_is_new
    )
    bounds.begin(consumer, queue, runner)
    return consumer


@cache
def _warn(queue: str, text: str) -> None:
    """Log it once a process, and not after every reconnect."""
    log.warning("queue %s: %s", queue, text)
