"""What an adapter of a client library must provide.

An adapter translates: it reports events to the runner of its channel
(:mod:`controlmq.clients.channel_runner`) and does on the wire what the runner asks for. All
decisions are made in :mod:`controlmq.consumer`. Besides, every client reads the user's words with
``settings_from`` (:mod:`controlmq.clients.settings`) and makes its consumers with ``new_consumer``
(:mod:`controlmq.clients.new_consumer`). ``docs/writing-an-adapter.md`` says how to write
one and what went wrong in others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane


class Adapter(Protocol):
    """One channel of a client library.

    Besides these, an adapter calls its runner: the function of ``runner.receiver`` with every
    message of a lane, ``runner.acknowledge`` and ``runner.reject`` when the user does,
    ``runner.received`` before that, if it receives a message some time before,
    ``runner.lane_opened`` when the broker confirms a lane, ``runner.cancelled_by_broker``,
    ``runner.blocked`` and ``runner.unblocked`` when the broker stops reading from the connection
    and reads again, ``runner.cycle_ended`` where :meth:`reports_cycle_end` said so,
    ``runner.cancel_all`` before the channel closes and ``runner.stop`` when it is closed. Around
    a commit it calls ``core.committing`` before, ``core.committed`` and ``runner.commit_answered``
    after, because RabbitMQ allows nothing between a commit and its answer. Where :meth:`buffered`
    cannot tell how many messages were read, it sets ``runner.waited``.

    It reads the books of the core and writes to none; what it asks of a consumer it asks the core
    for. It calls ``core.missed_a_message`` where an
    interrupt or another method of the client may have taken a message that was not reported, and
    ``core.subscribed_without_window`` where the channel gets a plain consumer. A lane that is
    refused only after :meth:`open_lane` has returned is reported with ``core.lane_refused``.

    Optional: ``open_log(stream, reader)`` opens the log of consumers that share a rate
    (:mod:`controlmq.clients.shared_goal`). Without it they are refused.
    """

    def send_acks(self, acks: Sequence[Ack]) -> None:
        """Put these on the wire, in this order, or in a buffer that :meth:`flush` writes."""

    def flush(self) -> None:
        """Write what is buffered, unless that happens soon by itself. It may have to wait."""

    def open_lane(self, lane: Lane) -> None:
        """Put a lane's prefetch and its subscription on the wire, nothing between them.

        If this raises, the lane counts as refused.
        """

    def cancel_lanes(self, lanes: Sequence[Lane]) -> None:
        """Put the cancels of these lanes on the wire, then give back what they have not got.

        Nothing goes back to a queue before the last cancel, and no ack either.
        """

    def give_back(self, tags: Sequence[int]) -> None:
        """Let these messages, which nobody has seen, go back to their queues."""

    def write_now(self) -> None:
        """Write what is buffered, as far as the socket takes it: the connection may end here."""

    def reports_cycle_end(self) -> bool:
        """Whether ``runner.cycle_ended`` will be called once this batch is dispatched."""

    def buffered(self) -> int:
        """Messages received and not yet handed over."""

    def take_in(self) -> None:
        """Receive what can be read now and hand nothing over, where these are two steps."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> object:
        """Set a timer."""

    def call_threadsafe(self, callback: Callable[[], None]) -> None:
        """Have the thread that drives the connection call this soon; for any other thread."""

    def cancel_timer(self, timer: object) -> None:
        """Remove a timer that has not fired."""
