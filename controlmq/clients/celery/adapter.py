"""How lanes, acks and timers reach the broker through a channel of py-amqp.

py-amqp writes at once and in the order of the calls, so no ack overtakes the cancel of its lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amqp import spec

from controlmq.clients.celery.timers import Timer
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane

if TYPE_CHECKING:
    from controlmq.clients.celery.channel import AdaptiveChannel


class CeleryAdapter:
    """Sends frames on a channel of py-amqp; called with the lock of the channel held."""

    def __init__(self, channel: AdaptiveChannel, timer: Timer) -> None:
        self._channel = channel
        self.timer = timer
        self.openings: dict[str, Lane] = {}
        """Lanes that the broker has not confirmed, by their tags."""

    def send_acks(self, acks: Sequence[Ack]) -> None:
        """Send one frame for each."""
        send = self._channel.send_method
        for tag, multiple in acks:
            send(spec.Basic.Ack, "Lb", (tag, multiple))

    def flush(self) -> None:
        """Everything is written when it is sent."""

    def give_back(self, tags: Sequence[int]) -> None:
        """Send nacks: RabbitMQ 4.3 and newer do not count them as failed deliveries."""
        for tag in tags:
            self._channel.send_method(spec.Basic.Nack, "Lbb", (tag, False, True))

    def open_lane(self, lane: Lane) -> None:
        """Send both requests, and do not wait for the answers."""
        channel = self._channel
        channel.callbacks[lane.tag] = channel.receiver_of(lane)
        channel.cancel_callbacks[lane.tag] = channel.lane_lost
        self.openings[lane.tag] = lane
        arguments = channel.subscriptions[lane.consumer.tag].arguments
        channel.send_method(spec.Basic.Qos, "lBb", (0, lane.size, False))
        channel.send_method(
            spec.Basic.Consume,
            "BssbbbbF",
            (0, lane.consumer.queue, lane.tag, False, False, False, False, arguments),
        )

    def cancel_lanes(self, lanes: Sequence[Lane]) -> None:
        """Send the cancels, asking for no answer; the channel asks if messages may still come."""
        channel = self._channel
        for lane in lanes:
            channel.send_method(spec.Basic.Cancel, "sb", (lane.tag, True))
        for lane in lanes:
            channel.cancel_callbacks.pop(lane.tag, None)
            if lane.saturated:
                channel.callbacks.pop(lane.tag, None)

    def write_now(self) -> None:
        """Everything is written when it is sent."""

    def reports_cycle_end(self) -> bool:
        """No: pools acknowledge outside of any cycle of the connection."""
        return False

    def buffered(self) -> int:
        """None: py-amqp hands over what it reads."""
        return 0

    def take_in(self) -> None:
        """Do nothing: py-amqp hands over what it reads."""

    def call_threadsafe(self, callback: Callable[[], None]) -> None:
        """Call it at once: the lock of the channel keeps threads apart."""
        with self._channel.window_lock:
            callback()

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set the one timer."""
        return self.timer.call_later(delay, lambda: self._channel.on_timer(callback))

    def cancel_timer(self, timer: Any) -> None:
        """Unset the timer."""
        self.timer.cancel(timer)
