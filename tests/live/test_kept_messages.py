"""Messages that the broker counts as delivered and that never came: a new connection has them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from controlmq.clients.pika.blocking import AdaptiveBlockingChannel
from controlmq.clients.pika.service import Service
from controlmq.clients.stopping import Stop
from controlmq.consumer import stuck_lanes
from controlmq.controllers import Limits
from controlmq.loop import Step
from tests.live.handled import assert_empty
from tests.testbed import Broker, wait_until
from tests.testbed.publishing import DeclareQueue, fill

COUNT = 3000


class Losing:
    """Loses, on the first channel, what comes for a further lane once that has got some messages.

    To the broker these messages are in flight, as those are that a quorum queue keeps.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.lost: list[int] = []
        self.channels: list[Any] = []
        self._received: dict[str, int] = {}
        received = AdaptiveBlockingChannel._on_consumer_message_delivery

        def perhaps(mine: Any, channel: Any, method: Any, properties: Any, body: bytes) -> None:
            if mine not in self.channels:
                self.channels.append(mine)
            if mine is self.channels[0] and self._loses(method.consumer_tag):
                self.lost.append(int(body))
            else:
                received(mine, channel, method, properties, body)

        patch.setattr(AdaptiveBlockingChannel, "_on_consumer_message_delivery", perhaps)

    def _loses(self, tag: str) -> bool:
        further = ".lane-" in tag and (not self._received or tag in self._received)
        if further:
            self._received[tag] = self._received.get(tag, 0) + 1
        return further and self._received[tag] > 3


@pytest.mark.parametrize("workers", [1, 4])
def test_a_service_connects_again_and_goes_on_where_it_was(
    broker: Broker,
    queue: DeclareQueue,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(stuck_lanes, "STUCK_AFTER_SECONDS", 1.0)
    losing = Losing(monkeypatch)
    name = queue("quorum")
    fill(broker.parameters, name, COUNT)
    handled, stop, steps = list[int](), Stop(), list[Step]()

    def handle(body: bytes, properties: Any) -> None:
        time.sleep(0.002 * workers)
        handled.append(int(body))

    service = Service(
        [broker.url],
        name,
        handle,
        stop=stop,
        workers=workers,
        goal=100,
        controller=lambda sample, goal: 3 if len(steps) < 3 else 8.5 - sample.number % 2,
        limits=Limits(1, 10),
        prefetch=3,
        interval=0.2,
        on_step=steps.append,
    )
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        wait_until(lambda: len(set(handled)) == COUNT, "all are handled")
    finally:
        stop.ask()
        thread.join()
    assert_empty(broker, name)
    assert losing.lost, "some were kept"
    assert len(losing.channels) == 2
    assert sorted(handled) == list(range(COUNT)), "none of those handled came again"
    said = [record.getMessage() for record in caplog.records]
    (notice,) = [each for each in said if "nothing has come" in each]
    assert notice.startswith(f"queue {name}: ")
    assert f"into {len(losing.lost)} of the " in notice
    assert sum("the broker keeps messages of the consumer" in each for each in said) == 1
    again = next(number for number, step in enumerate(steps) if number and not step.sample.number)
    assert steps[again].sample.prefetch == steps[again - 1].prefetch
