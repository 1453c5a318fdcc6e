"""The wire: what an adaptation needs of a pika channel, blocking or asynchronous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from controlmq.rabbitmq.consumer import Consumer
from controlmq.rabbitmq.lanes import Lane
from controlmq.rabbitmq.ledger import Ack


class Wire(Protocol):
    """The channel as pika has it."""

    def acknowledge(self, acks: list[Ack]) -> None:
        """Send these."""

    def subscribe(self, consumer: Consumer, lane: Lane) -> None:
        """Put a lane on the wire: its prefetch, then its consumer."""

    def unsubscribe(self, lane: Lane) -> None:
        """Put the cancel of a lane on the wire, before any later ack."""

    def ready(self) -> bool:
        """Whether a request would go out at once."""

    def cycle_ends(self) -> bool:
        """Whether ``end_cycle`` will be called once this batch is dispatched."""

    def buffered(self) -> int:
        """Messages received and not yet dispatched."""

    def restorable(self) -> bool:
        """Whether nothing of ours is in the user's hands that pika's channel would not know."""

    def restore(self) -> None:
        """Make the channel pika's own again."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set a timer."""

    def cancel_timer(self, timer: object) -> None:
        """Remove a timer that has not fired."""
