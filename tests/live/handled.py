"""What a consumer under test handled, and the claims that hold for every one of them."""

from __future__ import annotations

from typing import Any

from tests.testbed import Broker
from tests.testbed.publishing import connected


class Handled:
    """Notes each message it is called with; what to do with it is up to the test."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.tags: list[int] = []
        self.redelivered: list[int] = []

    def note(self, method: Any, properties: Any, body: bytes) -> int:
        """One message; returns its number."""
        number = int(body)
        self.numbers.append(number)
        self.tags.append(method.delivery_tag)
        count = (getattr(properties, "headers", None) or {}).get("x-delivery-count", 0)
        if method.redelivered or count:
            self.redelivered.append(number)
        return number

    def assert_each_once_in_order(self, count: int) -> None:
        """None lost, none twice, none requeued, order kept, delivery tags ascending."""
        assert self.redelivered == []
        assert self.numbers == list(range(count))
        assert all(a < b for a, b in zip(self.tags, self.tags[1:], strict=False))


def assert_empty(broker: Broker, queue: str) -> None:
    """Nothing is left in the queue, ready or unacknowledged."""
    broker.management.wait_for_queue(
        queue,
        lambda view: view.messages_ready == 0 and view.messages_unacknowledged == 0,
        "it is empty",
    )


def left_in(broker: Broker, queue: str) -> list[int]:
    """The numbers of all messages in a queue that no consumer has, taken out of it."""
    broker.management.wait_for_queue(
        queue,
        lambda view: not view.consumers and view.messages_unacknowledged == 0,
        "nobody has any of it",
    )
    numbers: list[int] = []
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        while True:
            method, _, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return numbers
            numbers.append(int(body))
