"""What was handled is known again by its id, and a retry with the same id is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controlmq.clients.handled import HandledMessages, key_of


def properties(message_id: str | None = None, **headers: Any) -> SimpleNamespace:
    return SimpleNamespace(message_id=message_id, headers=headers or None)


def test_a_message_without_an_id_is_never_known() -> None:
    assert key_of(properties()) is None
    assert key_of(properties(None, colour="red")) is None


def test_what_the_broker_adds_makes_no_difference_and_what_the_user_adds_does() -> None:
    first = key_of(properties("a", retries=1))
    assert key_of(properties("a", retries=1, **{"x-delivery-count": 3})) == first
    assert key_of(properties("a", retries=2)) != first
    assert key_of(properties("a", **{"x-delivery-count": 1})) == key_of(properties("a"))
    assert key_of(properties("b", retries=1)) != first


def test_taskiq_has_its_id_in_a_header() -> None:
    assert key_of(properties(None, task_id="t")) == key_of(properties(None, task_id="t"))
    assert key_of(properties(None, task_id="t", _retries="1")) != key_of(
        properties(None, task_id="t")
    )


def test_the_oldest_is_forgotten_first() -> None:
    handled = HandledMessages(most=2)
    for key in "abc":
        handled.add(key)
    assert [key in handled for key in "abc"] == [False, True, True]
