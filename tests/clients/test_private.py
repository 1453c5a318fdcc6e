"""A pika whose inside is unknown is refused with one sentence, before anything is changed."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pika.adapters import blocking_connection
from pika.adapters.blocking_connection import BlockingChannel
from pika.channel import Channel

from controlmq.clients.pika import private
from controlmq.errors import ControlmqError

CONNECTION_NAMES = sorted({*private.CONNECTION_NAMES, *private.INNER_CONNECTION_NAMES})
"""Of an asynchronous connection, by itself or inside a blocking one."""


def refusal(missing: str) -> str:
    """The whole sentence about a pika that lacks ``missing`` and nothing else."""
    return rf"^pika \S+ has no {missing}, which wrapping needs; install a pika .* 1\.3"


@pytest.mark.parametrize(
    ("kind", "missing"), [(BlockingChannel, "_impl"), (Channel, "_consumers, callbacks")]
)
def test_a_channel_without_what_wrapping_needs_is_refused(kind: type, missing: str) -> None:
    channel = kind.__new__(kind)  # nothing that a constructor would have added
    with pytest.raises(ControlmqError, match=rf"has no .*{missing}.*; install a pika .* 1\.3"):
        private.check(channel)


@pytest.mark.parametrize("name", private.BLOCKING_NAMES)
def test_a_blocking_channel_that_lacks_one_name_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = blocking()
    monkeypatch.delattr(channel if name in vars(channel) else BlockingChannel, name)
    with pytest.raises(ControlmqError, match=refusal(name)):
        private.check(channel)


@pytest.mark.parametrize("name", private.ASYNCHRONOUS_NAMES)
def test_an_asynchronous_channel_that_lacks_one_name_is_refused(name: str) -> None:
    alone, inside = asynchronous(), asynchronous()
    delattr(alone, name)
    delattr(inside, name)
    for channel in (alone, blocking(inside)):
        with pytest.raises(ControlmqError, match=refusal(name)):
            private.check(channel)


def test_callbacks_without_their_stack_are_refused() -> None:
    alone, inside = asynchronous(), asynchronous()
    del alone.callbacks._stack, inside.callbacks._stack
    for channel in (alone, blocking(inside)):
        with pytest.raises(ControlmqError, match=refusal(r"callbacks\._stack")):
            private.check(channel)


@pytest.mark.parametrize("name", CONNECTION_NAMES)
def test_a_connection_that_lacks_one_name_is_refused_where_it_is_used(name: str) -> None:
    alone, inside = asynchronous(), asynchronous()
    delattr(alone.connection, name)
    delattr(inside.connection, name)
    uses = ((alone, private.CONNECTION_NAMES), (blocking(inside), private.INNER_CONNECTION_NAMES))
    for channel, used in uses:
        refused = pytest.raises(ControlmqError, match=refusal(name))
        with refused if name in used else nullcontext():
            private.check(channel)


@pytest.mark.parametrize("name", private.TRANSPORT_NAMES)
def test_a_transport_that_lacks_one_name_is_refused(name: str) -> None:
    channel = asynchronous()
    delattr(channel.connection._transport, name)
    with pytest.raises(ControlmqError, match=refusal(name)):
        private.check(channel)
    channel.connection._transport = None  # of a connection that is closed
    private.check(channel)


@pytest.mark.parametrize("name", private.BLOCKING_CONNECTION_NAMES)
def test_a_blocking_connection_that_lacks_one_name_is_refused(name: str) -> None:
    channel = blocking()
    delattr(channel.connection, name)
    with pytest.raises(ControlmqError, match=refusal(name)):
        private.check(channel)


@pytest.mark.parametrize("name", private.MODULE_NAMES)
def test_a_pika_whose_module_lacks_one_name_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, _, attribute = f"{blocking_connection.__name__}.{name}".rpartition(".")
    monkeypatch.delattr(f"{owner}.{attribute}")
    for channel in (asynchronous(), blocking()):
        with pytest.raises(ControlmqError, match=refusal(name)):
            private.check(channel)


@pytest.mark.parametrize(("name", "arguments"), private.CONSTRUCTOR_ARGUMENTS.items())
def test_a_pika_that_makes_its_objects_in_another_way_is_refused(
    name: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_one_more(self: Any, *, unknown: str) -> None: ...

    monkeypatch.setattr(getattr(blocking_connection, name), "__init__", with_one_more)
    for channel in (asynchronous(), blocking()):
        with pytest.raises(ControlmqError, match=refusal(rf"{name}\({', '.join(arguments)}\)")):
            private.check(channel)


def test_a_channel_that_has_every_name_is_accepted() -> None:
    private.check(asynchronous())
    private.check(blocking())


def asynchronous() -> Any:
    """Something with every name that wrapping needs of an asynchronous channel."""
    channel = SimpleNamespace(**dict.fromkeys(private.ASYNCHRONOUS_NAMES))
    channel.callbacks = SimpleNamespace(_stack={})
    channel.connection = SimpleNamespace(**dict.fromkeys(CONNECTION_NAMES))
    channel.connection._transport = SimpleNamespace(**dict.fromkeys(private.TRANSPORT_NAMES))
    return channel


def blocking(inner: Any = None) -> Any:
    """A blocking channel around ``inner``, on something like a connection."""
    channel: Any = BlockingChannel.__new__(BlockingChannel)
    channel._impl = inner or asynchronous()
    channel._connection = SimpleNamespace(**dict.fromkeys(private.BLOCKING_CONNECTION_NAMES))
    channel._pending_events = []
    channel._consumer_infos = {}
    channel._basic_consume_ok_result = None
    return channel


def received(tag: str, number: int) -> Any:
    """A message that pika has received for a consumer and not dispatched."""
    method = SimpleNamespace(consumer_tag=tag, delivery_tag=number)
    return blocking_connection._ConsumerDeliveryEvt(method, None, b"")


def test_messages_of_a_lane_that_a_message_retires_are_dispatched_in_their_order() -> None:
    channel: Any = SimpleNamespace(channel_number=1, connection=SimpleNamespace())
    channel.connection._request_channel_dispatch = lambda number: None
    arrived = [("mine", 1), ("lane-2", 2), ("other", 3), ("lane-2", 4), ("mine", 5)]
    channel._pending_events = deque(received(tag, number) for tag, number in arrived)
    dispatched: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        dispatched.append(method.delivery_tag)
        if method.delivery_tag == 2:  # as when the wake in it finds the lane saturated
            private.keep_pending(channel, "lane-2", None)
            private.forget_consumers(channel, {"lane-2"})

    channel._consumer_infos = {
        tag: SimpleNamespace(on_message_callback=on_message) for tag in ("mine", "lane-2", "other")
    }
    assert private.dispatch_messages(channel, ["mine", "lane-2"])
    assert dispatched == [1, 2, 4, 5]
    assert [event.method.delivery_tag for event in channel._pending_events] == [3]


def test_messages_of_a_consumer_that_a_message_cancels_are_not_dispatched() -> None:
    channel: Any = SimpleNamespace(channel_number=1, connection=SimpleNamespace())
    channel.connection._request_channel_dispatch = lambda number: None
    channel._pending_events = deque(received("mine", number) for number in (1, 2, 3))
    late: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        late.extend(private.forget_consumers(channel, {"mine"}))

    channel._consumer_infos = {"mine": SimpleNamespace(on_message_callback=on_message)}
    assert not private.dispatch_messages(channel, ["mine"])
    assert late == [2, 3], "they go back to their queue"
