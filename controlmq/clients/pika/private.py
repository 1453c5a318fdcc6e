"""All that we use of pika beyond its public interface, in one place, checked before use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import pika
from pika import spec
from pika.adapters import blocking_connection
from pika.adapters.blocking_connection import BlockingChannel

from controlmq.errors import ControlmqError

TESTED_VERSIONS = "1.3 and 1.4"

BLOCKING_NAMES = (
    "_impl",
    "_consumer_infos",
    "_pending_events",
    "_dispatch_events",
    "_on_consumer_message_delivery",
    "_flush_output",
    "_process_data_events",
    "_CONSUMER_CANCELLED_CB_KEY",
)
MODULE_NAMES = (
    "_QueueConsumerGeneratorInfo",
    "_ConsumerDeliveryEvt",
    "BlockingConnection._acquire_event_dispatch",
)
ASYNCHRONOUS_NAMES = (
    "_raise_if_not_open",
    "_generate_consumer_tag",
    "_consumers",
    "_cancelled",
    "_on_cancelok",
    "_send_method",
    "callbacks",
)
CONNECTION_NAMES = (
    "_adapter_call_later",
    "_adapter_remove_timeout",
    "_adapter_add_callback_threadsafe",
)


def check(channel: Any) -> None:
    """Refuse a pika whose inside is not the one we know."""
    blocking = isinstance(channel, BlockingChannel)
    missing = [name for name in BLOCKING_NAMES if blocking and not hasattr(channel, name)]
    if not missing:
        inner = asynchronous(channel)
        missing = [name for name in ASYNCHRONOUS_NAMES if not hasattr(inner, name)]
    if not missing:
        connection = [] if blocking else CONNECTION_NAMES
        missing = [name for name in connection if not hasattr(inner.connection, name)]
        if not hasattr(inner.callbacks, "_stack"):
            missing.append("callbacks._stack")
    missing += [name for name in MODULE_NAMES if not _has(blocking_connection, name)]
    if missing:
        raise ControlmqError(
            f"pika {pika.__version__} has no {', '.join(missing)}, which wrapping needs; install "
            f"a pika that was tested with it: {TESTED_VERSIONS}."
        )


def _has(module: Any, name: str) -> bool:
    owner, _, attribute = name.rpartition(".")
    return hasattr(getattr(module, owner) if owner else module, attribute)


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
    """What pika calls with the messages of a consumer; None for a consumer that it has not."""
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


def is_awaiting_cancel(channel: Any, tag: str) -> bool:
    """Whether an asynchronous channel has no such consumer, or has sent its cancel."""
    return tag not in channel._consumers or tag in channel._cancelled


def send_cancel_at_once(channel: Any, tag: str) -> None:
    """Send a cancel ahead of the requests that wait; AMQP allows that, RabbitMQ keeps the order.

    Waits for CancelOk, because pika never forgets the tag of a consumer that was cancelled
    without waiting.
    """
    channel._cancelled.add(tag)
    channel.callbacks.add(
        channel.channel_number,
        spec.Basic.CancelOk,
        channel._on_cancelok,
        arguments={"consumer_tag": tag},
    )
    channel._send_method(spec.Basic.Cancel(consumer_tag=tag))


def on_cancel_ok(channel: Any, tag: str, callback: Callable[[Any], None]) -> None:
    """Call back when the broker confirms the cancel of ``tag``."""
    channel.callbacks.add(
        channel.channel_number, spec.Basic.CancelOk, callback, arguments={"consumer_tag": tag}
    )


def call_later(channel: Any, delay: float, callback: Callable[[], None]) -> object:
    """A timer of an asynchronous connection, whichever loop it has."""
    return channel.connection._adapter_call_later(delay, callback)


def call_threadsafe(channel: Any, callback: Callable[[], None]) -> None:
    """Have the loop of an asynchronous connection call this soon; any thread may ask."""
    channel.connection._adapter_add_callback_threadsafe(callback)


def cancel_timer(channel: Any, timer: object) -> None:
    """Remove a timer of an asynchronous connection."""
    channel.connection._adapter_remove_timeout(timer)


def cancel_callbacks(channel: Any) -> Iterator[dict[str, Any]]:
    """The entries of callbacks that others registered for cancels by the broker."""
    blocking = isinstance(channel, BlockingChannel)
    key = channel._CONSUMER_CANCELLED_CB_KEY if blocking else spec.Basic.Cancel.NAME
    entries = asynchronous(channel).callbacks._stack.get(str(channel.channel_number), {})
    for entry in entries.get(key, []):
        # pika's own know lanes and stay as they are.
        if getattr(entry["callback"], "__self__", None) is not channel:
            yield entry
