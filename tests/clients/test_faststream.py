"""Which brokers of FastStream are adapted."""

from __future__ import annotations

import pytest
from faststream.rabbit import RabbitBroker

from controlmq.clients.aio_pika.connection import AdaptiveConnection
from controlmq.clients.faststream import adapt
from controlmq.errors import InputError


class ShopBroker(RabbitBroker):
    """A broker of a user."""


@pytest.mark.parametrize("kind", [RabbitBroker, ShopBroker])
def test_a_broker_for_rabbitmq_is_adapted(kind: type[RabbitBroker]) -> None:
    broker = kind()
    assert adapt(broker, goal=5) is broker
    assert issubclass(broker._connection_kwargs["connection_class"], AdaptiveConnection)


def test_another_broker_is_refused() -> None:
    class KafkaBroker:
        """It has no prefetch."""

        _connection_kwargs: dict[str, object] = {}  # noqa: RUF012

    with pytest.raises(InputError, match="cannot adapt a KafkaBroker"):
        adapt(KafkaBroker(), goal=5)
