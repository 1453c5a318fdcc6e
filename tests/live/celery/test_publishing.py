"""Tasks that the tests send reach their queue."""

from __future__ import annotations

from tests.live.celery.conftest import StartWorker
from tests.testbed.publishing import DeclareQueue


def test_a_task_counts_as_sent_when_the_broker_has_confirmed_it(
    queue: DeclareQueue, start: StartWorker
) -> None:
    worker = start(queue("quorum"), kind="quorum")
    with worker.app.connection_for_write() as connection, connection.channel() as channel:
        assert channel.basic_publish == channel.basic_publish_confirm
