"""pika's own idioms through the wrapper, on a ``BlockingConnection``."""

from __future__ import annotations

import threading
from typing import Any

import pika
import pika.exceptions
import pytest

from controlmq.clients.channel_runner import clock
from controlmq.clients.controlled_consumer import ControlledConsumer
from controlmq.clients.pika.wrap import wrap
from controlmq.controllers import PI, Gains, Limits
from controlmq.errors import InputError
from controlmq.loop import Step
from tests.live.handled import Handled, assert_empty, left_in
from tests.live.restless import LANES, changing
from tests.testbed import Broker, wait_until
from tests.testbed.publishing import DeclareQueue, connected, fill, process_until


def handle_all(channel: Any, queue: str, count: int) -> Handled:
    """Consume with a callback that acknowledges, until ``count`` messages are handled."""
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag)
        if len(handled.numbers) == count:
            channel.stop_consuming()

    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    return handled


def test_start_and_stop_consuming(broker: Broker, connection: Any, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 500)
    channel = wrap(connection.channel(), **LANES)
    handle_all(channel, queue_name, 500).assert_each_once_in_order(500)
    assert channel.consumer_tags == []
    assert_empty(broker, queue_name)


def test_a_with_block_closes_the_channel_and_sends_what_was_held(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 5)
    with (
        pika.BlockingConnection(broker.parameters) as connection,
        wrap(connection.channel(), prefetch=0.01) as channel,
    ):
        taken: list[bytes] = []

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            taken.append(body)

        tag = channel.basic_consume(queue_name, on_message)
        consumer = channel.adaptive_consumers[tag]
        process_until(connection, lambda: taken, "a message came")
        assert consumer.held == 1
    with connected(broker.parameters) as again:
        declared = again.channel().queue_declare(queue_name, passive=True)
        assert declared.method.message_count == 4


@pytest.mark.parametrize("closing", ["channel", "connection"])
def test_closing_from_the_callback_sends_what_was_held(
    broker: Broker, connection: Any, queue_name: str, closing: str
) -> None:
    fill(broker.parameters, queue_name, 5)
    channel = wrap(connection.channel(), prefetch=0.01)

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        (channel if closing == "channel" else connection).close()

    channel.basic_consume(queue_name, on_message)
    channel.start_consuming()
    assert channel.is_closed
    with connected(broker.parameters) as again:
        declared = again.channel().queue_declare(queue_name, passive=True)
        assert declared.method.message_count == 4


def test_the_consume_generator_with_inactivity_timeout(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 300)
    channel = wrap(connection.channel(), **LANES)
    handled = Handled()
    for method, properties, body in channel.consume(queue_name, inactivity_timeout=0.2):
        if method is None:
            # A busy broker may pause for so long, too.
            if len(handled.numbers) == 300:
                break
            continue
        handled.note(method, properties, body)
        channel.basic_ack(method.delivery_tag)
    handled.assert_each_once_in_order(300)
    assert channel.get_waiting_message_count() == 0
    assert channel.cancel() == 0
    assert_empty(broker, queue_name)


def test_messages_not_taken_from_the_generator_are_requeued(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 10)
    channel = wrap(connection.channel(), prefetch=10)
    method, _, body = next(channel.consume(queue_name))
    channel.basic_ack(method.delivery_tag)
    with pytest.raises(ValueError, match="different params"):
        next(channel.consume(queue_name, exclusive=True))
    channel.cancel()
    assert int(body) == 0
    plain = connection.channel()
    wait_until(
        lambda: plain.queue_declare(queue_name, passive=True).method.message_count == 9,
        "all are back in their queue",
    )
    assert [int(plain.basic_get(queue_name)[2]) for _ in range(9)] == list(range(1, 10))


def test_fetching_and_publishing_with_confirms_on_the_same_channel(
    broker: Broker, connection: Any, queue: DeclareQueue
) -> None:
    source, results, side = queue("classic"), queue("classic"), queue("classic")
    fill(broker.parameters, source, 100)
    fill(broker.parameters, side, 100)
    channel = wrap(connection.channel(), **LANES)
    channel.confirm_delivery()
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)
        fetched, _, _ = channel.basic_get(side)
        channel.basic_publish("", results, body, mandatory=True)
        channel.basic_ack(method.delivery_tag)
        channel.basic_ack(fetched.delivery_tag)
        if len(handled.numbers) == 100:
            channel.stop_consuming()

    channel.basic_consume(source, on_message)
    channel.start_consuming()
    handled.assert_each_once_in_order(100)
    handle_all(wrap(connection.channel(), **LANES), results, 100).assert_each_once_in_order(100)
    assert_empty(broker, side)


def test_transactions(broker: Broker, connection: Any, queue: DeclareQueue) -> None:
    source, results = queue("classic"), queue("classic")
    fill(broker.parameters, source, 100)
    channel = wrap(connection.channel(), **LANES)
    channel.tx_select()
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        number = handled.note(method, properties, body)
        channel.basic_publish("", results, body)
        channel.basic_ack(method.delivery_tag)
        if number % 10 == 5:
            channel.tx_rollback()
            channel.basic_publish("", results, body)
            channel.basic_ack(method.delivery_tag)
        channel.tx_commit()
        if len(handled.numbers) == 100:
            channel.stop_consuming()

    channel.basic_consume(source, on_message)
    channel.start_consuming()
    handled.assert_each_once_in_order(100)
    handle_all(wrap(connection.channel(), prefetch=10), results, 100).assert_each_once_in_order(100)
    assert_empty(broker, source)


def test_refusing_messages(broker: Broker, connection: Any, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 300)
    channel = wrap(connection.channel(), **LANES)
    first, again = [], []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        number = int(body)
        (again if method.redelivered else first).append(number)
        if method.redelivered or number % 3 == 0:
            channel.basic_ack(method.delivery_tag)
        elif number % 3 == 1:
            channel.basic_nack(method.delivery_tag)
        else:
            channel.basic_reject(method.delivery_tag, requeue=False)
        if len(first) == 300 and len(again) == 100:
            channel.stop_consuming()

    channel.basic_consume(queue_name, on_message)
    channel.start_consuming()
    assert sorted(first) == list(range(300))
    assert sorted(again) == list(range(1, 300, 3))
    assert_empty(broker, queue_name)


def eight_out(
    broker: Broker, connection: Any, queue_name: str
) -> tuple[Any, ControlledConsumer, list[int]]:
    """A channel, its consumer and the tags of its eight messages, none of which is answered."""
    fill(broker.parameters, queue_name, 8)
    channel = wrap(connection.channel(), prefetch=8)
    tags: list[int] = []
    tag = channel.basic_consume(queue_name, lambda _, method, *__: tags.append(method.delivery_tag))
    process_until(connection, lambda: len(tags) == 8, "all came")
    return channel, channel.adaptive_consumers[tag], tags


def test_refusing_many_at_once_leaves_what_was_acknowledged_alone(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    channel, consumer, tags = eight_out(broker, connection, queue_name)
    consumer.prefetch = 1
    for tag in tags[:4]:
        channel.basic_ack(tag)
    channel.basic_nack(tags[5], multiple=True, requeue=False)
    channel.basic_ack(0, multiple=True)
    connection.close()
    assert_empty(broker, queue_name)


def test_refusing_whatever_is_out_leaves_held_acks_alone(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    channel, consumer, tags = eight_out(broker, connection, queue_name)
    consumer.prefetch = 1
    for tag in tags:
        channel.basic_ack(tag)
    assert consumer.held == 7
    channel.basic_nack(0, multiple=True, requeue=True)
    assert consumer.held == 0
    connection.close()
    assert_empty(broker, queue_name)


def test_what_was_fetched_before_a_recover_is_acknowledged_by_nobody(
    broker: Broker, connection: Any, queue: DeclareQueue
) -> None:
    name, other = queue("classic"), queue("classic")
    fill(broker.parameters, name, 6)
    fill(broker.parameters, other, 1)
    channel = wrap(connection.channel(), prefetch=3)
    channel.basic_get(other)
    handled = Handled()

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.note(method, properties, body)

    channel.basic_consume(name, on_message)
    process_until(connection, lambda: len(handled.numbers) == 3, "every slot is filled")
    channel.basic_recover(requeue=True)
    for count in (6, 9):
        process_until(
            connection, lambda count=count: len(handled.numbers) == count, "three more came"
        )
        channel.basic_ack(handled.tags[-1], multiple=True)
    channel.queue_declare(name, passive=True)  # the channel is open at the broker, too
    connection.close()
    assert handled.numbers == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert left_in(broker, other) == [0]
    assert_empty(broker, name)


def test_consumers_on_one_channel_have_goals_of_their_own(
    broker: Broker, connection: Any, queue: DeclareQueue
) -> None:
    names = [queue("classic"), queue("classic"), queue("quorum")]
    handled = {name: Handled() for name in names}
    for name in names:
        fill(broker.parameters, name, 200)
    goals = {"goal": {names[0]: 50, names[1]: 90}}
    channel = wrap(connection.channel(), **LANES | goals)

    def consume(name: str, **goal: float) -> str:
        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            handled[name].note(method, properties, body)
            channel.basic_ack(method.delivery_tag)
            if all(len(each.numbers) == 200 for each in handled.values()):
                channel.stop_consuming()

        return str(channel.basic_consume(name, on_message, **goal))

    tags = [consume(names[0]), consume(names[1]), consume(names[2], goal=70)]
    assert [channel.adaptive_consumers[tag].goal for tag in tags] == [50, 90, 70]
    assert channel.consumer_tags == tags
    channel.start_consuming()
    for each in handled.values():
        each.assert_each_once_in_order(200)


def test_what_a_window_cannot_do_is_refused_with_a_sentence(
    connection: Any, queue_name: str
) -> None:
    channel = wrap(connection.channel(), prefetch=5)
    with pytest.raises(InputError, match="auto_ack=True leaves nothing to adapt"):
        channel.basic_consume(queue_name, print, auto_ack=True)
    with pytest.raises(InputError, match="global_qos=True is not for a wrapped channel"):
        channel.basic_qos(prefetch_count=5, global_qos=True)
    with pytest.raises(InputError, match="wrapped already"):
        wrap(channel)
    with pytest.raises(InputError, match="cannot wrap a BlockingConnection"):
        wrap(connection)
    with pytest.raises(InputError, match="needs a model"):
        wrap(connection.channel(), 400, "pi").basic_consume(queue_name, print)
    with pytest.raises(InputError, match="goal is '400/fortnight'; give messages per second"):
        wrap(connection.channel(), "400/fortnight")
    with pytest.raises(InputError, match="buffer_time is -1; give a number above 0"):
        wrap(connection.channel(), buffer_time=-1)
    with pytest.raises(InputError, match="goal is 0; give a number above 0"):
        channel.basic_consume(queue_name, print, goal=0)
    with pytest.raises(InputError, match="has no goal"):
        wrap(connection.channel(), controller=changing(3)).basic_consume(queue_name, print)


def test_errors_are_those_of_pika(connection: Any, queue_name: str) -> None:
    channel = wrap(connection.channel(), prefetch=5)
    channel.basic_consume(queue_name, print, consumer_tag="mine")
    with pytest.raises(pika.exceptions.DuplicateConsumerTag):
        channel.basic_consume(queue_name, print, consumer_tag="mine")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        wrap(connection.channel(), prefetch=5).basic_consume("no such queue", print)
    channel.close()
    with pytest.raises(pika.exceptions.ChannelWrongStateError):
        channel.basic_ack(1)
    with pytest.raises(pika.exceptions.ChannelWrongStateError):
        channel.basic_consume(queue_name, print)


def test_acknowledging_twice_closes_the_channel_as_ever(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 5)
    channel = wrap(connection.channel(), prefetch=0.01)

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue_name, on_message)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="unknown delivery tag"):
        channel.start_consuming()


def test_the_clock_is_looked_at_on_every_ack(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 5)
    steps: list[Step] = []
    channel = wrap(connection.channel(), prefetch=5, interval=0.2, on_step=steps.append)
    tags: list[int] = []
    tag = channel.basic_consume(queue_name, lambda _, method, *__: tags.append(method.delivery_tag))
    process_until(connection, lambda: len(tags) == 5, "all came")
    consumer = channel.adaptive_consumers[tag]
    for answer in (channel.basic_ack, channel.basic_nack, channel.basic_reject):
        told = len(steps)
        wait_until(lambda: clock() >= consumer.plant.next_sample, "a step is due")
        answer(tags.pop())
        assert len(steps) == told + 1


def test_no_ack_outlives_its_time_while_a_consume_loop_works_long(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 20)
    channel = wrap(connection.channel(), prefetch=8, max_hold=0.05)
    held_at_work: list[int] = []
    for method, _, _ in channel.consume(queue_name):
        (consumer,) = channel.adaptive_consumers.values()
        consumer.prefetch = 1
        held_at_work.append(consumer.held)
        until = clock() + 0.1
        wait_until(lambda until=until: clock() > until, "long work is done")
        channel.basic_ack(method.delivery_tag)
        if len(held_at_work) == 12:
            break
    # It takes two calls to see that the work is always long.
    assert held_at_work[3:] == [0] * 9
    channel.cancel()


def test_a_user_who_calls_basic_qos_starts_there(connection: Any, queue_name: str) -> None:
    channel = wrap(connection.channel())
    channel.basic_qos(prefetch_count=17)
    tag = channel.basic_consume(queue_name, print)
    assert channel.adaptive_consumers[tag].prefetch == 17


def test_a_message_fetched_before_wrapping_is_acknowledged_by_nobody_else(
    broker: Broker, queue: DeclareQueue
) -> None:
    name = queue("classic")
    fill(broker.parameters, name, 200)
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        fetched, _, _ = channel.basic_get(name)
        wrap(channel, prefetch=50)
        numbers: list[int] = []

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            numbers.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(numbers) == 199:
                channel.stop_consuming()

        channel.basic_consume(name, on_message)
        channel.start_consuming()
        channel.basic_nack(fetched.delivery_tag, requeue=True)
        # Had somebody acknowledged it before, the broker would close the channel now.
        wait_until(
            lambda: channel.queue_declare(name, passive=True).method.message_count == 1,
            "the message is back in its queue",
        )


def test_a_transaction_may_acknowledge_a_message_twice_over(
    broker: Broker, queue: DeclareQueue
) -> None:
    name = queue("classic")
    fill(broker.parameters, name, 4)
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=4)
        channel.tx_select()
        tags: list[int] = []
        channel.basic_consume(name, lambda ch, method, _, __: tags.append(method.delivery_tag))
        process_until(connection, lambda: len(tags) == 4, "four messages came")
        channel.basic_ack(tags[0])
        channel.basic_ack(tags[3], multiple=True)
        channel.tx_commit()
        assert channel.adaptive_consumers[channel.consumer_tags[0]].in_flight == 0


def test_a_transaction_begins_with_nothing_held(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 5)
    channel = wrap(connection.channel(), prefetch=0.01)
    taken: list[bytes] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if not taken:
            channel.basic_ack(method.delivery_tag)
        taken.append(body)

    tag = channel.basic_consume(queue_name, on_message)
    consumer = channel.adaptive_consumers[tag]
    process_until(connection, lambda: taken, "a message came")
    assert consumer.held == 1
    channel.tx_select()
    assert consumer.held == 0
    # The ack was not part of the transaction, which ends without a commit.
    connection.close()
    with connected(broker.parameters) as again:
        channel = again.channel()
        wait_until(
            lambda: channel.queue_declare(queue_name, passive=True).method.message_count == 4,
            "all but the first are in the queue",
        )


def test_no_controller_leaves_its_limits(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("classic")
    fill(broker.parameters, name, 300)
    with connected(broker.parameters) as connection:
        channel = wrap(
            connection.channel(),
            100,
            lambda sample, goal: 1e9,
            interval=0.05,
            limits=Limits(0.5, 10),
        )
        seen = 0

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            nonlocal seen
            seen += 1
            channel.basic_ack(method.delivery_tag)

        tag = channel.basic_consume(name, on_message)
        consumer = channel.adaptive_consumers[tag]
        process_until(
            connection,
            lambda: seen == 300 and consumer.prefetch == 10,
            "all were handled, and the limit is reached",
        )
        assert consumer.plant.window.granted <= 10
        process_until(connection, lambda: consumer.last.sample.prefetch == 10, "a step later")
        assert consumer.prefetch == 10
        assert consumer.plant.window.granted <= 10


def test_the_generator_notices_a_dry_queue(broker: Broker, queue: DeclareQueue) -> None:
    name = queue("classic")
    fill(broker.parameters, name, 200)
    steps: list[Step] = []
    with connected(broker.parameters) as connection:
        channel = wrap(
            connection.channel(),
            500,
            PI(Gains(0.0, 0.001), Limits(0.1, 50)),
            interval=0.2,
            on_step=steps.append,
        )
        taken = last = 0
        for method, _, _ in channel.consume(name, inactivity_timeout=0.05):
            if method is not None:
                channel.basic_ack(method.delivery_tag)
                taken += 1
                last = len(steps)
            if taken == 200 and len(steps) > last + 6:
                break
    assert [step.sample.window_limited for step in steps[-5:]] == [False] * 5


def test_what_a_consume_loop_in_a_callback_acknowledges_is_its_own(
    broker: Broker, connection: Any, queue: DeclareQueue
) -> None:
    name, other = queue("classic"), queue("classic")
    fill(broker.parameters, name, 5)
    fill(broker.parameters, other, 5)
    channel = wrap(connection.channel(), prefetch=5, window="lanes", interval=60)
    handled: list[int] = []

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        """Acknowledges all of the other queue while four messages of its own wait in pika."""
        handled.append(int(body))
        channel.basic_ack(method.delivery_tag)
        if len(handled) == 1:
            broker.management.wait_for_queue(
                name, lambda view: view.messages_unacknowledged == 4, "the others are out"
            )
            taken = 0
            for got, _, _ in channel.consume(other, inactivity_timeout=0.1):
                if got is not None:
                    channel.basic_ack(got.delivery_tag)
                    taken += 1
                if taken == 5:
                    break
            assert_empty(broker, other)
            waiting = broker.management.wait_for_queue(name)
            assert waiting.messages_unacknowledged == 4

    channel.basic_consume(name, on_message)
    process_until(connection, lambda: len(handled) == 5, "all are handled")
    assert handled == list(range(5))
    connection.close()
    assert_empty(broker, name)


def test_a_step_of_the_loop_may_close_the_channel(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 20)
    channel = connection.channel()
    pause = threading.Event()
    handled: list[int] = []
    wrap(channel, prefetch=5, interval=0.01, on_step=lambda _: handled and channel.close())

    def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        handled.append(int(body))
        channel.basic_ack(method.delivery_tag)
        pause.wait(0.05)  # so that the next message finds that a step is due

    channel.basic_consume(queue_name, on_message)
    channel.start_consuming()
    assert handled == [0]
    # The broker ends a connection that answers a message on a channel which is closed.
    connection.channel().close()
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == 19, "the others are back"
    )


def test_a_consume_loop_inside_a_callback_gets_messages(
    broker: Broker, connection: Any, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 5)
    channel = wrap(connection.channel(), prefetch=5)
    numbers: list[int | None] = []

    def loop() -> None:
        for method, _, body in channel.consume(queue_name, inactivity_timeout=0.1):
            numbers.append(int(body) if body is not None else None)
            if method is not None:
                channel.basic_ack(method.delivery_tag)
            if len([each for each in numbers if each is not None]) == 5 or len(numbers) > 100:
                break

    connection.call_later(0, loop)
    process_until(connection, lambda: numbers, "the loop ran")
    assert [each for each in numbers if each is not None] == list(range(5))
