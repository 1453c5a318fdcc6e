"""How lanes, acks and timers reach the broker through a channel of aiormq."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pamqp import commands as spec

from controlmq.clients.aio_pika.log import AioPikaLog
from controlmq.clients.aio_pika.outbox import Outbox
from controlmq.clients.channel_runner import clock
from controlmq.clients.shared_goal import SharedGoal
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane

if TYPE_CHECKING:
    from controlmq.clients.aio_pika.channel import AdaptiveChannel


ON_BLOCKED = "_Connection__handle_connection_blocked"
ON_UNBLOCKED = "_Connection__handle_connection_unblocked"
"""Private names of aiormq, which has no others: what its reader calls when the broker says so."""


class AioPikaAdapter:
    """Puts all frames into one outbox, so that no ack overtakes the cancel of its lane."""

    def __init__(self, channel: AdaptiveChannel) -> None:
        self.outbox = Outbox(channel)
        self.openings: dict[str, Any] = {}
        """The tasks that open lanes, by the tags of these."""
        self.log_opening: Any = None
        """The task that opens the log of the last consumer that shares a rate."""
        self._channel = channel
        self._cycle_end_due = False

    def open_log(self, stream: str, reader: SharedGoal) -> AioPikaLog:
        """Open the log on a further channel of the same connection."""
        log = AioPikaLog(self._channel, stream, reader)
        self.log_opening = log.opening
        return log

    def send_acks(self, acks: Sequence[Ack]) -> None:
        """Put all these frames into the outbox, nothing between them."""
        self.outbox.put(*(spec.Basic.Ack(tag, multiple) for tag, multiple in acks))

    def flush(self) -> None:
        """Do nothing: the writer of the outbox flushes."""

    def give_back(self, tags: Sequence[int]) -> None:
        """Send nacks: RabbitMQ 4.3 and newer do not count them as failed deliveries."""
        self.outbox.put(*(spec.Basic.Nack(tag, requeue=True) for tag in tags))

    def open_lane(self, lane: Lane) -> None:
        """Send both requests at once; a task of the channel waits for the answers."""
        channel = self._channel
        channel.consumers[lane.tag] = channel.receiver_of(lane)
        opening = channel.create_task(self._open(lane))
        self.openings[lane.tag] = opening
        opening.add_done_callback(lambda _: self.openings.pop(lane.tag, None))

    async def _open(self, lane: Lane) -> Any:
        channel = self._channel
        subscription = channel.subscriptions[lane.consumer.tag]
        try:
            async with channel.lock:
                self.outbox.put(
                    spec.Basic.Qos(prefetch_count=lane.size),
                    spec.Basic.Consume(
                        queue=lane.consumer.queue,
                        consumer_tag=lane.tag,
                        exclusive=subscription.exclusive,
                        arguments=subscription.arguments,
                    ),
                )
                await channel.answer()
                answer = await channel.answer()
        except BaseException:
            channel.consumers.pop(lane.tag, None)
            channel.runner.core.lane_refused(lane, clock())
            raise
        channel.runner.lane_opened(lane)
        channel.runner.carry_out()
        return answer

    def cancel_lanes(self, lanes: Sequence[Lane]) -> None:
        """Send the cancels, asking for no answer; the channel asks if messages may still come."""
        self.outbox.put(*(spec.Basic.Cancel(lane.tag, nowait=True) for lane in lanes))
        for lane in lanes:
            # The user's tag stays in aiormq's books: aio-pika subscribes to what is not there.
            if lane.saturated and lane.tag != lane.consumer.tag:
                self._channel.consumers.pop(lane.tag, None)

    def write_now(self) -> None:
        """Do nothing: the writer writes as soon as the event loop lets it."""

    def reports_cycle_end(self) -> bool:
        """Yes: once the event loop has called what is ready now."""
        if not self._cycle_end_due:
            self._cycle_end_due = True
            self._channel.loop.call_soon(self._end_cycle)
        return True

    def _end_cycle(self) -> None:
        self._cycle_end_due = False
        if not self._channel.runner.stopped:
            self._channel.runner.cycle_ended()

    def buffered(self) -> int:
        """None: each message becomes a task as it comes."""
        return 0

    def take_in(self) -> None:
        """Do nothing: aiormq hands over what it reads."""

    def call_threadsafe(self, callback: Callable[[], None]) -> None:
        """Have the event loop call it."""
        self._channel.loop.call_soon_threadsafe(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set a timer of the event loop."""
        return self._channel.loop.call_later(delay, callback)

    def cancel_timer(self, timer: Any) -> None:
        """Remove the timer from the event loop."""
        timer.cancel()


def watch_blocking(connection: Any) -> None:
    """Tell the channels of an aiormq connection when the broker stops reading from it.

    An aiormq that lacks these functions stays as it is: changes of lanes then wait in the buffers
    of the connection.
    """
    if ON_BLOCKED in vars(connection):
        return  # since another of its channels
    for name in (ON_BLOCKED, ON_UNBLOCKED):
        plain = getattr(connection, name, None)
        if plain is not None:
            setattr(connection, name, _telling(connection, plain, name == ON_BLOCKED))


def _telling(connection: Any, plain: Callable[[Any], Any], blocked: bool) -> Callable[[Any], Any]:
    async def told(frame: Any) -> None:
        await plain(frame)
        for channel in list(connection.channels.values()):
            runner = getattr(channel, "runner", None)  # plain channels have none
            if runner is not None and not runner.stopped:
                runner.blocked() if blocked else runner.unblocked()

    return told
