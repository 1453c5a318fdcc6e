"""What we use of pika beyond its public interface, in one place, checked before use.

Two methods of a blocking channel are overridden in its class instead, and checked here, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from inspect import signature
from operator import attrgetter
from typing import Any

import pika
from pika import spec
from pika.adapters import blocking_connection
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError

from controlmq.clients.tested_versions import warn_if_untested
from controlmq.errors import ControlmqError

TESTED_PIKA = ("1.3", "1.4")
"""Versions that the tests pass with."""

BLOCKING_NAMES = (
    "_impl",
    "_consumer_infos",
    "_pending_events",
    "_basic_consume_ok_result",
    "_dispatch_events",
    "_on_consumer_message_delivery",
    "_on_consumer_cancelled_by_broker",
    "_flush_output",
    "_process_data_events",
    "_CONSUMER_CANCELLED_CB_KEY",
)
MODULE_NAMES = (
    "_QueueConsumerGeneratorInfo",
    "_ConsumerInfo",
    "_ConsumerInfo.ACTIVE",
    "_ConsumerInfo.state",
    "_ConsumerDeliveryEvt",
    "_ConsumerCancellationEvt",
    "BlockingConnection._acquire_event_dispatch",
    "BlockingConnection._request_channel_dispatch",
)
CONSTRUCTOR_ARGUMENTS = {
    "_ConsumerInfo": ("consumer_tag", "auto_ack", "on_message_callback"),
    "_ConsumerDeliveryEvt": ("method", "properties", "body"),
    "_QueueConsumerGeneratorInfo": ("params", "consumer_tag"),
}
"""What classes of that module are made with: these come first, and others have defaults."""
ASYNCHRONOUS_NAMES = (
    "_raise_if_not_open",
    "_generate_consumer_tag",
    "_consumers",
    "_send_method",
    "_get_cookie",
    "callbacks",
)
CONNECTION_NAMES = (
    "_adapter_call_later",
    "_adapter_remove_timeout",
    "_adapter_add_callback_threadsafe",
    "_transport",
)
TRANSPORT_NAMES = ("_on_socket_writable",)
BLOCKING_CONNECTION_NAMES = ("_impl",)
INNER_CONNECTION_NAMES = ("_adapter_call_later", "_adapter_remove_timeout", "_terminate_stream")
"""Of the connection that a blocking one is made of."""


def check(channel: Any) -> None:
    """Refuse a pika whose inside is not the one we know; warn of a version never tested."""
    blocking = isinstance(channel, BlockingChannel)
    missing = _missing(channel, BLOCKING_NAMES if blocking else ())
    if not missing:
        inner = asynchronous(channel)
        missing = _missing(inner, ASYNCHRONOUS_NAMES)
    if not missing:
        if blocking:
            missing = _missing(channel.connection, BLOCKING_CONNECTION_NAMES)
            missing += _missing(inner.connection, INNER_CONNECTION_NAMES)
        else:
            missing = _missing(inner.connection, CONNECTION_NAMES)
            transport = getattr(inner.connection, "_transport", None)
            if transport is not None:  # the connection is not closed
                missing += _missing(transport, TRANSPORT_NAMES)
        if not hasattr(inner.callbacks, "_stack"):
            missing.append("callbacks._stack")
    missing += [name for name in MODULE_NAMES if not _has(blocking_connection, name)]
    missing += [
        f"{name}({', '.join(arguments)})"
        for name, arguments in CONSTRUCTOR_ARGUMENTS.items()
        if name not in missing and not _takes(getattr(blocking_connection, name), arguments)
    ]
    if missing:
        raise ControlmqError(
            f"pika {pika.__version__} has no {', '.join(missing)}, which wrapping needs; install "
            f"a pika that was tested with it: {' or '.join(TESTED_PIKA)}."
        )
    warn_if_untested("pika", *TESTED_PIKA)


def _missing(owner: Any, names: Iterable[str]) -> list[str]:
    return [name for name in names if not hasattr(owner, name)]


def _has(module: Any, name: str) -> bool:
    owner, _, attribute = name.rpartition(".")
    if owner and not hasattr(module, owner):
        return True  # not missing besides its owner, which is named by itself
    return hasattr(getattr(module, owner) if owner else module, attribute)


def _takes(kind: type, arguments: tuple[str, ...]) -> bool:
    taken = list(signature(kind).parameters.values())
    first, others = taken[: len(arguments)], taken[len(arguments) :]
    names = tuple(each.name for each in first)
    return names == arguments and all(each.default is not each.empty for each in others)


def asynchronous(channel: Any) -> Any:
    """The asynchronous channel: the one that a blocking channel is made of, or itself."""
    return channel._impl if isinstance(channel, BlockingChannel) else channel


def raise_if_not_open(channel: Any) -> None:
    """Raise what pika raises for a channel that is closed."""
    channel._raise_if_not_open()


open_check = attrgetter("_raise_if_not_open")
"""What to call so that :func:`raise_if_not_open` happens to one channel again and again."""


def new_consumer_tag(channel: Any) -> str:
    """A tag as pika makes them."""
    return str(channel._generate_consumer_tag())


pending_events = attrgetter("_pending_events")
"""What a blocking channel has received and not dispatched; pika replaces it now and then."""


def sender(channel: Any) -> Callable[..., None]:
    """What an asynchronous channel sends every method with."""
    send: Callable[..., None] = channel._send_method
    return send


def send_through(channel: Any, send: Callable[..., None]) -> None:
    """Let an asynchronous channel send every method with ``send`` from now on."""
    channel._send_method = send


def send_as_pika(channel: Any) -> None:
    """Undo :func:`send_through`."""
    del channel._send_method


def consumer_callback(channel: Any, tag: str) -> Callable[..., Any] | None:
    """What pika calls with the messages of a consumer; None if it has no such consumer."""
    if not isinstance(channel, BlockingChannel):
        callback: Callable[..., Any] | None = channel._consumers.get(tag)
        return callback
    info = channel._consumer_infos.get(tag)
    return info.on_message_callback if info is not None else None


class KeptDelivery:
    """A message of a cancelled lane of ``consumer``, among the events that pika dispatches."""

    def __init__(self, event: Any, callback: Callable[..., Any], consumer: object) -> None:
        self.method = event.method
        self.consumer = consumer
        self.dispatch = partial(callback, event.method, event.properties, event.body)


def keep_pending(channel: Any, tag: str, consumer: object) -> None:
    """Let a blocking channel dispatch what it has received for a lane that is cancelled next.

    pika would give it back to the queue.
    """
    callback = partial(channel._consumer_infos[tag].on_message_callback, channel)
    events = channel._pending_events
    for number, event in enumerate(events):
        if type(event) is blocking_connection._ConsumerDeliveryEvt:
            if event.method.consumer_tag == tag:
                events[number] = KeptDelivery(event, callback, consumer)


def take_kept(channel: Any, consumer: object) -> list[int]:
    """Remove what :func:`keep_pending` left for a consumer: the delivery tags."""
    events = channel._pending_events
    mine = [each for each in events if type(each) is KeptDelivery and each.consumer is consumer]
    for each in mine:
        events.remove(each)
    return [each.method.delivery_tag for each in mine]


def read(connection: Any) -> None:
    """Read what a blocking connection has received, and dispatch nothing."""
    with connection._acquire_event_dispatch():
        connection.process_data_events(0)


def flusher(channel: Any) -> Callable[[], None]:
    """What to call to send all that a blocking channel has buffered."""
    flush: Callable[[], None] = channel._flush_output
    return flush


def generator_events(parameters: tuple[str, bool, bool], tag: str) -> deque[Any]:
    """The events of a ``consume()`` loop as pika keeps them, where instrumentation looks."""
    events: deque[Any] = blocking_connection._QueueConsumerGeneratorInfo(
        parameters, tag
    ).pending_events
    return events


def delivery_event(method: Any, properties: Any, body: bytes) -> Any:
    """A message among those events."""
    return blocking_connection._ConsumerDeliveryEvt(method, properties, body)


def process_data_events(channel: Any, time_limit: float | None) -> None:
    """Receive and dispatch on a blocking channel for at most this long."""
    channel._process_data_events(time_limit=time_limit)


def wait_until(channel: Any, condition: Callable[[], bool]) -> None:
    """Receive on a blocking channel until ``condition`` holds; raise if the channel closes."""
    channel._flush_output(condition)


# Lanes


def subscribe(
    channel: Any,
    queue: str,
    tag: str,
    prefetch: int,
    on_message: Callable[..., Any],
    on_ok: Callable[[], None],
    **subscription: Any,
) -> None:
    """Ask for a prefetch and a consumer on a blocking channel, and do not wait for the answers.

    The broker may have stopped reading from the connection, and pika would wait for as long.
    """
    answered = channel._basic_consume_ok_result

    def on_consume_ok(_frame: Any) -> None:
        answered.reset()  # pika sets it with every answer, and resets it where it waits for one
        on_ok()

    inner = channel._impl
    inner.basic_qos(prefetch_count=prefetch)
    deliver = channel._on_consumer_message_delivery
    inner.basic_consume(queue, deliver, consumer_tag=tag, **subscription)
    # Not by pika, which does it when it sends the request, and may be interrupted there.
    inner.callbacks.add(
        inner.channel_number, spec.Basic.ConsumeOk, on_consume_ok, arguments={"consumer_tag": tag}
    )
    consumer = blocking_connection._ConsumerInfo(tag, False, on_message_callback=on_message)
    consumer.state = consumer.ACTIVE
    channel._consumer_infos[tag] = consumer


def send_cancel(
    channel: Any, tag: str, late: Callable[..., Any], answered: Callable[[str], None]
) -> None:
    """Send a cancel ahead of the requests that wait; AMQP allows that, RabbitMQ keeps the order.

    Messages that still come go to ``late``, until the broker has confirmed the cancel.
    """

    def on_cancel_ok(_frame: Any) -> None:
        channel._consumers.pop(tag, None)
        answered(tag)

    redirect(channel, tag, late)
    channel.callbacks.add(
        channel.channel_number, spec.Basic.CancelOk, on_cancel_ok, arguments={"consumer_tag": tag}
    )
    channel._send_method(spec.Basic.Cancel(consumer_tag=tag))


def redirect(channel: Any, tag: str, on_message: Callable[..., Any]) -> None:
    """Give the messages of a consumer of an asynchronous channel to another function."""
    channel._consumers[tag] = on_message


def forget_consumers(channel: Any, tags: Collection[str]) -> list[int]:
    """Make a blocking channel forget its consumers: tags of the messages they did not get."""
    for tag in tags:
        channel._consumer_infos.pop(tag, None)
    taken = _take_pending(channel, tags, blocking_connection._ConsumerDeliveryEvt)
    _take_pending(channel, tags, blocking_connection._ConsumerCancellationEvt)
    # A loop that waits for messages looks whether there is still a consumer.
    channel.connection._request_channel_dispatch(-channel.channel_number)
    return [event.method.delivery_tag for event in taken]


def dispatch_messages(channel: Any, tags: Collection[str]) -> bool:
    """Dispatch what a blocking channel has received for these consumers, in a callback too.

    Returns whether others that it has received wait longer.
    """
    dispatched = False
    # One by one: what a callback does may change how the others are dispatched, or take them away.
    while (event := _first_message(channel, tags)) is not None:
        channel._pending_events.remove(event)
        dispatched = True
        if type(event) is KeptDelivery:
            event.dispatch()
        else:
            consumer = channel._consumer_infos[event.method.consumer_tag]
            consumer.on_message_callback(channel, event.method, event.properties, event.body)
    return bool(dispatched and channel._pending_events)


def _first_message(channel: Any, tags: Collection[str]) -> Any:
    """The message that came first for these consumers, cancelled or not; None if there is none."""
    kinds = (blocking_connection._ConsumerDeliveryEvt, KeptDelivery)
    messages = (event for event in channel._pending_events if type(event) in kinds)
    return next((event for event in messages if event.method.consumer_tag in tags), None)


def _take_pending(channel: Any, tags: Collection[str], kind: type) -> list[Any]:
    taken: list[Any] = []
    kept: deque[Any] = deque()
    for event in channel._pending_events:
        mine = type(event) is kind and _consumer_tag(event) in tags
        (taken if mine else kept).append(event)
    if taken:
        channel._pending_events = kept
    return taken


def _consumer_tag(event: Any) -> str:
    method = event.method if hasattr(event, "method") else event.method_frame.method
    return str(method.consumer_tag)


def write_now(channel: Any) -> None:
    """Write what the connection of an asynchronous channel has buffered, without its loop."""
    transport = channel.connection._transport
    if transport is not None and transport.get_write_buffer_size():
        transport._on_socket_writable()


# A further channel


class _Unseen:
    """What a blocking connection is to think of a channel that it did not open itself."""

    is_open = False
    """It closes with the connection, without further ado."""

    def _dispatch_events(self) -> None:
        pass


def further_channel(channel: Any, on_open: Callable[[Any], None]) -> Any:
    """A new asynchronous channel on the connection of another one, blocking or not.

    Its callbacks are called as soon as something is read, also inside of callbacks.
    """
    further = channel.connection.channel(on_open_callback=on_open)
    # pika itself forgets what it was told of a channel as soon as that is closed, and fails if a
    # connection is being closed then.
    further._get_cookie = _Unseen
    return further


# Timers and callbacks


def call_later(channel: Any, delay: float, callback: Callable[[], None]) -> object:
    """A timer of an asynchronous connection, whichever loop it has."""
    return channel.connection._adapter_call_later(delay, callback)


def call_threadsafe(channel: Any, callback: Callable[[], None]) -> None:
    """Have the loop of an asynchronous connection call this soon; any thread may ask."""
    channel.connection._adapter_add_callback_threadsafe(callback)


def cancel_timer(channel: Any, timer: object) -> None:
    """Remove a timer of an asynchronous connection."""
    channel.connection._adapter_remove_timeout(timer)


def give_up_when(connection: Any, why: Callable[[], str | None], every: float) -> None:
    """End a blocking connection, as if it was lost, as soon as ``why`` returns a reason.

    That is asked every ``every`` seconds, also while the connection waits for an answer of the
    broker: its own timers do not fire then.
    """
    inner = connection._impl

    def look() -> None:
        reason = why()
        if reason is None:
            inner.ioloop.call_later(every, look)
        else:
            inner._terminate_stream(AMQPConnectionError(reason))

    inner.ioloop.call_later(every, look)


def take_cancel_callbacks(channel: Any) -> list[Callable[..., Any]]:
    """Remove the callbacks that others registered for cancels by the broker, and return them."""
    key = spec.Basic.Cancel.NAME
    if isinstance(channel, BlockingChannel):
        key = channel._CONSUMER_CANCELLED_CB_KEY
    entries = _callback_entries(channel, key)
    # pika's own know lanes and stay as they are.
    taken = [each for each in entries if getattr(each["callback"], "__self__", None) is not channel]
    entries[:] = [each for each in entries if each not in taken]
    return [entry["callback"] for entry in taken]


def remove_cancel_callback(channel: Any, callback: Callable[..., Any]) -> None:
    """Undo ``add_on_cancel_callback``, for which pika has no method."""
    key = spec.Basic.Cancel.NAME
    if isinstance(channel, BlockingChannel):
        key = channel._CONSUMER_CANCELLED_CB_KEY
    asynchronous(channel).callbacks.remove(channel.channel_number, key, callback)


def watch_lost_lanes(channel: Any, lost: Callable[[str], None]) -> Callable[[], None]:
    """Call ``lost`` with the tag of a consumer as soon as its cancel by the broker is read.

    Returns what ends that. A blocking channel dispatches it later, and only where it knows the
    consumer: pika itself fails at a second cancel of the same one.
    """
    plain = channel._on_consumer_cancelled_by_broker

    def on_cancel(method_frame: Any) -> None:
        tag = method_frame.method.consumer_tag
        lost(tag)
        if tag in channel._consumer_infos:
            plain(method_frame)

    def exchange(before: Callable[..., Any], after: Callable[..., Any]) -> None:
        for entry in _callback_entries(channel, spec.Basic.Cancel.NAME):
            if entry["callback"] == before:
                entry["callback"] = after

    exchange(plain, on_cancel)
    return lambda: exchange(on_cancel, plain)


def watch_blocking(
    channel: Any, blocked: Callable[..., Any], unblocked: Callable[..., Any]
) -> Callable[[], None]:
    """Call these as soon as the broker is read to block the connection, or to end that.

    Returns what ends the watch. A blocking connection would call them only once its callbacks have
    returned.
    """
    callbacks = channel.connection.callbacks
    watched = ((spec.Connection.Blocked, blocked), (spec.Connection.Unblocked, unblocked))
    for method, callback in watched:
        callbacks.add(0, method, callback, one_shot=False)

    def end() -> None:
        for method, callback in watched:
            callbacks.remove(0, method, callback)

    return end


def watch_commits(channel: Any, answered: Callable[..., Any]) -> Callable[[], None]:
    """Call ``answered`` with each answer to a commit, before pika sends what waits for it.

    Returns what ends that.
    """
    channel.callbacks.add(channel.channel_number, spec.Tx.CommitOk, answered, one_shot=False)
    return lambda: channel.callbacks.remove(channel.channel_number, spec.Tx.CommitOk, answered)


def _callback_entries(channel: Any, key: str) -> list[dict[str, Any]]:
    stack = asynchronous(channel).callbacks._stack.get(str(channel.channel_number), {})
    entries: list[dict[str, Any]] = stack.get(key, [])
    return entries
