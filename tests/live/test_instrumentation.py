"""Instrumentation and other patches of a channel, before and after it is wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.pika import PikaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pika.adapters.blocking_connection import BlockingChannel

from controlmq.clients.pika.wrap import unwrap, wrap
from controlmq.errors import InputError
from tests.live.handled import Handled, assert_empty, left_in
from tests.testbed import Broker
from tests.testbed.publishing import DeclareQueue, fill, process_until

MESSAGES = 60


class Spans:
    """What was traced: the spans of consumed messages, one after another."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def consumed(self) -> list[Any]:
        spans = self._exporter.get_finished_spans()
        return [span for span in spans if span.kind is trace.SpanKind.CONSUMER]


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def instrumented(spans: Spans) -> Iterator[None]:
    """Every channel that is opened is instrumented, as ``opentelemetry-instrument`` does it."""
    instrumentor = PikaInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    yield
    instrumentor.uninstrument()


def instrumented_first(channel: Any, spans: Spans, **settings: Any) -> Any:
    PikaInstrumentor.instrument_channel(channel, tracer_provider=spans.provider)
    return wrap(channel, **settings)


def wrapped_first(channel: Any, spans: Spans, **settings: Any) -> Any:
    wrap(channel, **settings)
    PikaInstrumentor.instrument_channel(channel, tracer_provider=spans.provider)
    return channel


@pytest.mark.parametrize("prepare", [instrumented_first, wrapped_first])
def test_an_instrumented_channel_has_a_window_and_a_span_for_every_message(
    broker: Broker,
    connection: Any,
    queue_name: str,
    spans: Spans,
    prepare: Callable[..., Any],
) -> None:
    fill(broker.parameters, queue_name, MESSAGES)
    channel = prepare(connection.channel(), spans, prefetch=3, window="lanes", interval=60)
    handled = Handled()
    traced: list[bool] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        traced.append(trace.get_current_span().get_span_context().is_valid)

    tag = channel.basic_consume(queue_name, on_message)
    consumer = channel.adaptive_consumers[tag]
    process_until(connection, lambda: len(handled.numbers) == 3, "three slots are filled")
    consumer.prefetch = 10  # with a lane that no call of basic_consume opens
    process_until(connection, lambda: len(handled.numbers) == 10, "ten slots are filled")
    broker.management.wait_for_queue(
        queue_name,
        lambda view: (view.messages_unacknowledged, view.messages_ready) == (10, MESSAGES - 10),
        "the window is what bounds messages in flight",
    )
    while len(handled.numbers) < MESSAGES:
        channel.basic_ack(handled.tags[len(handled.numbers) - 10])
        expected = len(handled.numbers) + 1
        process_until(
            connection, lambda count=expected: len(handled.numbers) == count, "one more came"
        )
    channel.basic_ack(handled.tags[-1], multiple=True)
    connection.close()
    handled.assert_each_once_in_order(MESSAGES)
    assert_empty(broker, queue_name)
    assert all(traced)
    assert len(spans.consumed) == MESSAGES


@pytest.mark.usefixtures("instrumented")
def test_where_everything_is_instrumented_a_consume_loop_has_spans_too(
    broker: Broker, connection: Any, queue_name: str, spans: Spans
) -> None:
    fill(broker.parameters, queue_name, MESSAGES)
    channel = wrap(connection.channel(), prefetch=4, interval=60)
    handled = Handled()
    current: list[int] = []
    for method, properties, body in channel.consume(queue_name):
        handled.note(method, properties, body)
        current.append(trace.get_current_span().get_span_context().span_id)
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) == MESSAGES:
            break
    channel.cancel()
    handled.assert_each_once_in_order(MESSAGES)
    assert current == [span.context.span_id for span in spans.consumed[:MESSAGES]]


def test_an_instrumented_channel_can_be_unwrapped_and_consume_again(
    broker: Broker, connection: Any, queue_name: str, spans: Spans
) -> None:
    fill(broker.parameters, queue_name, MESSAGES)
    channel = instrumented_first(connection.channel(), spans, prefetch=4, interval=60)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) % (MESSAGES // 2) == 0:
            channel.stop_consuming()

    channel.basic_consume(queue_name, on_message)
    channel.start_consuming()
    unwrap(channel)
    channel.basic_consume(queue_name, on_message)
    channel.start_consuming()
    assert sorted(set(handled.numbers)) == list(range(MESSAGES))
    assert len(spans.consumed) == len(handled.numbers)


# Other patches

Acknowledge = Callable[[int], None]


def bound_before(channel: Any, noted: list[int], **settings: Any) -> Acknowledge:
    acknowledge: Acknowledge = channel.basic_ack
    wrap(channel, **settings)
    return lambda tag: (noted.append(tag), acknowledge(tag))[1]


def replaced_before(channel: Any, noted: list[int], **settings: Any) -> Acknowledge:
    _replace_ack(channel, noted)
    wrap(channel, **settings)
    return lambda tag: channel.basic_ack(tag)


def replaced_after(channel: Any, noted: list[int], **settings: Any) -> Acknowledge:
    wrap(channel, **settings)
    _replace_ack(channel, noted)
    return lambda tag: channel.basic_ack(tag)


def overridden(channel: Any, noted: list[int], **settings: Any) -> Acknowledge:
    class Noting(BlockingChannel):  # type: ignore[misc]
        def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
            noted.append(delivery_tag)
            super().basic_ack(delivery_tag, multiple)

    channel.__class__ = Noting
    wrap(channel, **settings)
    return lambda tag: channel.basic_ack(tag)


def _replace_ack(channel: Any, noted: list[int]) -> None:
    original = channel.basic_ack

    def basic_ack(delivery_tag: int = 0, multiple: bool = False) -> None:
        noted.append(delivery_tag)
        original(delivery_tag, multiple)

    channel.basic_ack = basic_ack


@pytest.mark.parametrize("prepare", [bound_before, replaced_before, replaced_after, overridden])
def test_an_ack_that_others_have_patched_is_held_like_any_other(
    broker: Broker, connection: Any, queue_name: str, prepare: Callable[..., Acknowledge]
) -> None:
    fill(broker.parameters, queue_name, 3)
    channel = connection.channel()
    noted: list[int] = []
    acknowledge = prepare(channel, noted, prefetch=0.01, interval=60, max_hold=60)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        acknowledge(method.delivery_tag)

    tag = channel.basic_consume(queue_name, on_message)
    consumer = channel.adaptive_consumers[tag]
    process_until(connection, lambda: consumer.held == 1, "the ack is held")
    assert noted == [1]
    connection.close()
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == 2, "what was held is acknowledged"
    )


@pytest.mark.parametrize("name", ["basic_nack", "basic_reject"])
def test_a_refusal_bound_before_wrapping_is_in_the_books(
    broker: Broker, connection: Any, queue_name: str, name: str
) -> None:
    fill(broker.parameters, queue_name, 10)
    channel = connection.channel()
    refuse = getattr(channel, name)
    wrap(channel, prefetch=2, interval=60)
    refused: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        refuse(method.delivery_tag, requeue=False)
        refused.append(method.delivery_tag)

    tag = channel.basic_consume(queue_name, on_message)
    consumer = channel.adaptive_consumers[tag]
    process_until(connection, lambda: len(refused) == 10, "all are refused")
    assert consumer.in_flight == 0
    assert_empty(broker, queue_name)


def test_what_a_method_bound_before_wrapping_fetches_is_acknowledged_by_nobody_else(
    broker: Broker, connection: Any, queue: DeclareQueue
) -> None:
    name, other = queue("classic"), queue("classic")
    fill(broker.parameters, name, MESSAGES)
    fill(broker.parameters, other, 1)
    channel = connection.channel()
    fetch = channel.basic_get
    wrap(channel, prefetch=4, interval=60)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) == 2:
            fetch(other)

    channel.basic_consume(name, on_message)
    process_until(connection, lambda: len(handled.numbers) == MESSAGES, "all are handled")
    connection.close()
    assert left_in(broker, other) == [0]


@pytest.mark.parametrize("name", ["basic_consume", "basic_cancel", "close", "consume"])
def test_a_method_replaced_before_wrapping_is_refused_with_a_sentence(
    connection: Any, name: str
) -> None:
    channel = connection.channel()
    original = getattr(channel, name)
    setattr(channel, name, lambda *args, **kwargs: original(*args, **kwargs))
    with pytest.raises(InputError, match=rf"has a {name} of its own.*wrap the channel first"):
        wrap(channel, prefetch=3)
    assert type(channel) is BlockingChannel
    delattr(channel, name)
    assert wrap(channel, prefetch=3) is channel


def test_a_consumer_started_around_the_window_is_refused_with_a_sentence(
    connection: Any, queue_name: str
) -> None:
    channel = connection.channel()
    consume = channel.basic_consume
    wrap(channel, prefetch=3)
    with pytest.raises(InputError, match=r"would have no window.*before that was wrapped"):
        consume(queue_name, lambda *_: None)
    assert channel.consumer_tags == []
