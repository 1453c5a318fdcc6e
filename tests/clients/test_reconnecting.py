"""What a channel is wrapped with after a reconnect: nothing that is read from a file again."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock, Mock, patch

import pytest

from controlmq.clients.controllers import stand_in
from controlmq.clients.pika import service
from controlmq.clients.pika.service import Service

LAST: Any = Mock(adapts=True, limits=None, prefetch=4.0, plant=Mock(interval=10.0))


def wrapped_again(**given: Any) -> dict[str, Any]:
    """The words with which a service wraps the channel of its second connection."""
    with patch.object(service, "settings_from"):  # the files were there at the start
        running = Service(["amqp://localhost"], "orders", lambda body, properties: None, **given)
    running._consumer = LAST
    with patch.object(service, "wrap", return_value=MagicMock()) as wrap:
        running._subscribe(Mock())
    return dict(wrap.call_args.kwargs)


LAWS = [{"controller": "pi", "model": "gone.json"}, {"controller": "gone.json"}]


@pytest.mark.parametrize("given", [*LAWS, {"model": "gone.json"}])
def test_a_service_reads_no_file_again(given: dict[str, Any]) -> None:
    words = wrapped_again(goal=200, **given)
    assert words["controller"] is stand_in
    assert (words["model"], words["interval"]) == (None, 10.0)


def test_a_service_without_a_controller_gets_none() -> None:
    assert wrapped_again(goal=200).get("controller") is None


@pytest.mark.parametrize("given", [*LAWS, {"model": "gone.json"}])
def test_dramatiq_reads_no_file_again(given: dict[str, Any]) -> None:
    consumer = pytest.importorskip("controlmq.clients.dramatiq.consumer")
    words = consumer._words({"goal": 200, **given}, LAST)
    assert words["controller"] is stand_in
    assert (words["model"], words["interval"]) == (None, 10.0)
    assert consumer._words({"goal": 200, **given}, None) == {
        "controller": None,
        "goal": 200,
        **given,
    }


def test_dramatiq_without_a_controller_gets_none() -> None:
    consumer = pytest.importorskip("controlmq.clients.dramatiq.consumer")
    assert consumer._words({"goal": 200}, LAST) == {"goal": 200}
