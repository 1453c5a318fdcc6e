"""What the adaptive channels, blocking and asynchronous, have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika.exceptions import DuplicateConsumerTag

from controlmq.errors import InputError
from controlmq.rabbitmq.adaptation import Adaptation
from controlmq.rabbitmq.cancelling import once_a_consumer
from controlmq.rabbitmq.consumer import Consumer


class Adapted:
    """A pika channel whose consumers hold their goals; stands before pika's own class."""

    _adaptation: Adaptation

    def _asynchronous(self) -> Any:
        """The asynchronous channel underneath, which knows whether it is open."""
        raise NotImplementedError

    @property
    def adaptive_consumers(self) -> dict[str, Consumer]:
        """The consumers of this channel by the tags the user knows."""
        return dict(self._adaptation.consumers)

    @property
    def consumer_tags(self) -> list[str]:
        """Tags of the active consumers, as the user knows them: every one is adaptive."""
        return list(self._adaptation.consumers)

    def add_on_cancel_callback(self, callback: Callable[[Any], Any]) -> None:
        """As pika's: called once for a consumer that the broker cancelled."""
        super().add_on_cancel_callback(once_a_consumer(self, callback))  # type: ignore[misc]

    def _new_consumer(
        self, tag: str | None, queue: str, goal: float | None, auto_ack: bool, exclusive: bool
    ) -> Consumer:
        """A consumer to subscribe, or why there cannot be one."""
        refuse_auto_ack(auto_ack)
        tag = tag or self._asynchronous()._generate_consumer_tag()
        if tag in self._adaptation.consumers:
            raise DuplicateConsumerTag(tag)
        return self._adaptation.new_consumer(tag, queue, goal, exclusive)

    # Acknowledging

    def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        """As pika's; the frame may be held back for as long as the window needs it."""
        self._asynchronous()._raise_if_not_open()
        self._adaptation.ack(delivery_tag, multiple)

    def basic_nack(
        self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True
    ) -> None:
        """As pika's; sent at once."""
        self._asynchronous()._raise_if_not_open()
        plain = super().basic_nack  # type: ignore[misc]
        self._adaptation.nack(delivery_tag, multiple, lambda tag: plain(tag, multiple, requeue))

    def basic_reject(self, delivery_tag: int = 0, requeue: bool = True) -> None:
        """As pika's; sent at once."""
        self._asynchronous()._raise_if_not_open()
        plain = super().basic_reject  # type: ignore[misc]
        self._adaptation.nack(delivery_tag, False, lambda tag: plain(tag, requeue))


def refuse_auto_ack(auto_ack: bool) -> None:
    """Prefetch does nothing where the broker expects no acks."""
    if auto_ack:
        raise InputError(
            "auto_ack=True leaves nothing to adapt: without acknowledgements the broker "
            "ignores the prefetch; consume with auto_ack=False, or on a channel that is not "
            "wrapped."
        )


def refuse_global(global_qos: bool) -> None:
    """A shared limit would change every lane at once, and RabbitMQ 4.3 denies it."""
    if global_qos:
        raise InputError(
            "global_qos=True is not for a wrapped channel: RabbitMQ deprecated it, and a "
            "window is per consumer; leave it out."
        )
