"""Celery workers on the real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import Broker
from tests.testbed.celery_worker import Worker, celery_worker

StartWorker = Callable[..., Worker]

ALONE = ("--without-mingle", "--without-gossip")
"""A worker that does not look for others when it starts, which takes a second."""


@pytest.fixture
def start(broker: Broker, tmp_path: Path) -> Iterator[StartWorker]:
    """``start(queue, ...)`` starts an adapted worker of these queues."""
    with ExitStack() as stack:

        def started(*queues: str, url: str = broker.url, **options: Any) -> Worker:
            options.setdefault("adapt", {})
            options.setdefault("arguments", ALONE)
            return stack.enter_context(celery_worker(tmp_path, url, queues, **options))

        yield started


def unacked(broker: Broker, *queues: str) -> int:
    """Messages of these queues that somebody has and has not acknowledged."""
    views = [broker.management.queue(name) for name in queues]
    return sum(view.messages_unacknowledged for view in views if view is not None)
