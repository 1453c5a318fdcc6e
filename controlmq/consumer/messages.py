"""The messages of one channel, each from its delivery to the ack that goes on the wire.

Everything that happens with every message is here, and so in one place;
:class:`~controlmq.consumer.core.Core` adds samples and lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from controlmq.consumer.consumer import Consumer
from controlmq.consumer.delivery_tags import Ack, Ledger
from controlmq.consumer.hand_over_gate import Arrived
from controlmq.consumer.lanes import Held, Lane

FIRST_LONGEST_CALL_SECONDS = 0.002
"""Seconds that the user's code is assumed to take before it was called for the first time."""

LONGEST_CALL_FADES_TO = 0.99
"""Factor by which the remembered longest call shrinks with each message."""

LONG_CALL_SHARE = 0.1
"""Share of ``max_hold``. Where the user's code takes longer, the acks whose time would end
meanwhile are sent before it starts."""


class Messages:
    """What is unacknowledged, what is held, and what goes on the wire next."""

    def __init__(self, uninterrupted: Callable[[], AbstractContextManager[object]]) -> None:
        self.consumers: dict[str, Consumer] = {}
        self.leaving: list[Consumer] = []
        """Consumers that are cancelled and still have a lane."""
        self.wake_at = math.inf
        self.hand_over_at = math.inf
        """When to ask :meth:`hand_over` for a message that is here."""
        self.ledger = Ledger()
        self.outbox: list[int] = []
        """Tags whose acks have been released and not been taken yet."""
        self.verbatim: list[Ack] = []
        """Acks to send as the user gave them, after those of the outbox."""
        self.returns: list[int] = []
        """Tags of messages that nobody has got and that go back to their queues, before any ack."""
        self.longest_call = FIRST_LONGEST_CALL_SECONDS
        """Seconds: the longest call of the user's code lately."""
        self.repeated_call = FIRST_LONGEST_CALL_SECONDS
        """Seconds: the second longest, which one call that took very long does not change."""
        self.commits = 0
        """Commits that the broker has not answered: it closes the connection of a client that
        sends anything else meanwhile."""
        self._transaction: dict[int, bool] | None = None
        """What the transaction has answered, and whether by a refusal."""
        self.uninterrupted = uninterrupted
        """A context in which no interrupt comes. Several acks move from one book to another in it:
        an interrupt in between would lose them all. With a single one it costs too much."""

    # Delivered

    def received(self, lane: Lane) -> None:
        """A message of ``lane`` has come to the client, which calls :meth:`delivered` later.

        A client that hands over at once what it reads does not have to report it here.
        """
        lane.received += 1
        lane.waiting += 1
        if lane.retiring and lane.saturated:
            self._attend_by(lane.consumer, lane.consumer.now)  # at once, without reading a clock

    def delivered(self, lane: Lane, tag: int, now: float, buffered: int = 0) -> None:
        """A message of ``lane`` is about to be handed over; ``buffered`` more wait behind it."""
        ledger = self.ledger
        if tag == ledger.next_tag:  # here and in arrived, to spare every message a call
            ledger.next_tag = tag + 1
        else:
            ledger.delivered_out_of_turn(tag)
        if ledger.ordered:
            ledger.unacked[tag] = lane
        else:
            ledger.enter(tag, lane)
        if lane.waiting:
            lane.waiting -= 1
        else:
            lane.received += 1
        consumer = lane.consumer
        consumer.sensors.delivered(now, buffered)
        window = consumer.window
        if window.idle:
            window.wake(now)
        if lane.retiring and lane.received - lane.answered == lane.size:
            self._attend_by(consumer, now)
        if self.repeated_call > LONG_CALL_SHARE * window.max_hold:
            self.give_back_due(now + self.repeated_call, now)

    def waited(self, consumer: Consumer, seconds: float) -> None:
        """The message that comes next was read at least so long ago, and had to wait for others.

        For clients that cannot say how many more wait; they report 0 as buffered.
        """
        consumer.sensors.message_waited(seconds)

    def arrived(self, lane: Lane, tag: int, now: float, message: Any) -> None:
        """A message of ``lane`` is here, and waits for :meth:`hand_over`, which returns it."""
        if tag == self.ledger.next_tag:
            self.ledger.next_tag = tag + 1
        else:
            self.ledger.delivered_out_of_turn(tag)
        self.ledger.gated[tag] = lane
        if lane.waiting:
            lane.waiting -= 1
        else:
            lane.received += 1
        consumer = lane.consumer
        consumer.sensors.delivered(now, 0, gated=True)
        consumer.gate.waiting.append(Arrived(tag, lane, now, message))
        window = consumer.window
        if window.idle:
            window.wake(now)
        if lane.retiring and lane.received - lane.answered == lane.size:
            self._attend_by(consumer, now)
        self.hand_over_at = min(self.hand_over_at, consumer.gate.ask_at)

    def hand_over(self, consumer: Consumer, now: float) -> Any:
        """The next message to hand over to the user now, which counts as delivered; or None."""
        gate, window = consumer.gate, consumer.window
        arrived = gate.take(now)
        self._find_hand_over_at()
        if arrived is None:
            return None
        self.ledger.hand_over(arrived.tag)
        consumer.sensors.handed_over(arrived.since, now)
        if window.bucket is not None:
            surplus = gate.surplus(now, consumer.sensors.turnaround.usual)
            if surplus:
                window.bucket.take(now, surplus)
        if self.repeated_call > LONG_CALL_SHARE * window.max_hold:
            self.give_back_due(now + self.repeated_call, now)
        return arrived.message

    def _find_hand_over_at(self) -> None:
        gates = (each.gate.ask_at for each in self.consumers.values())
        self.hand_over_at = min(gates, default=math.inf)

    def redelivered(self, consumer: Consumer) -> None:
        """A message is here that the broker had delivered before."""
        consumer.redelivered += 1

    def calling(self, consumer: Consumer, now: float) -> None:
        """The user's code is about to get a message that was delivered before."""
        consumer.gate.count(consumer.sensors.active_at, now)
        consumer.sensors.calling(now)
        if self.repeated_call > LONG_CALL_SHARE * consumer.window.max_hold:
            self.give_back_due(now + self.repeated_call, now)

    def first_message(self, lane: Lane, tag: int, headers: dict[str, Any]) -> None:
        """A consumer's first message, which tells what kind of queue it has."""
        self.ledger.saw(tag)
        lane.consumer.first_message(headers)

    def returned(self, consumer: Consumer, since: float, now: float) -> None:
        """The user's code, called with a message of ``consumer`` at ``since``, has returned."""
        sensors = consumer.sensors
        sensors.active_at, sensors.in_call = now, False
        call = now - since
        longest = LONGEST_CALL_FADES_TO * self.longest_call
        if call > longest:
            self.longest_call, self.repeated_call = call, longest
        else:
            self.longest_call = longest
            repeated = LONGEST_CALL_FADES_TO * self.repeated_call
            self.repeated_call = call if call > repeated else repeated

    def fetched(self, tag: int, acknowledged: bool = False) -> None:
        """A message was fetched outside of any consumer, and perhaps acknowledged by that."""
        self.ledger.saw(tag)
        self.ledger.taken(tag)
        if not acknowledged:
            self.ledger.fetched.add(tag)

    def missed_a_message(self) -> None:
        """Note that a message may be out that is not in the books, or that comes after later ones.

        An interrupt came when the client had read it, or it was fetched without our knowledge.
        """
        self.ledger.ordered = False

    def subscribed_without_window(self) -> None:
        """The channel has a plain consumer, or one that the broker cancelled: no book has all."""
        self.ledger.whole = False

    # What the user says of them

    def acknowledged(self, tag: int, multiple: bool, now: float) -> None:
        """The user acknowledged ``tag``, or everything up to it."""
        if self._transaction is not None:
            self._ack_in_transaction(tag, multiple)
        elif multiple:
            with self.uninterrupted():
                self._ack_up_to(tag, now)
        elif (lane := self.ledger.unacked.pop(tag, None)) is not None:
            consumer = lane.consumer
            window = consumer.window
            shaped = window.held or window.spacing or window.granted != window.target
            if shaped or window.bucket is not None or lane.retiring or lane.cancelled:
                if lane.retiring:
                    self._attend_by(consumer, now)  # the client may have read on meanwhile
                window.hold(tag, lane, now)
                consumer.sensors.answered(window.held, now)
                self._release(consumer, now)
            else:
                # Nothing to hold, at once or later: the slot is open again.
                lane.answered += 1
                consumer.sensors.reopened(now)
                self.outbox.append(tag)
        elif tag in self.ledger.fetched:
            self._ack_fetched([tag])
        else:
            # Unknown or already acknowledged: pass it on and let the broker decide, as plain
            # pika does.
            self.give_back_all(now)
            self.verbatim.append(Ack(tag, False))

    def acknowledged_at_once(self, tag: int, now: float) -> None:
        """The user acknowledged ``tag`` before handling it: that ack must not be held."""
        if tag in self.ledger.unacked:
            lane = self.ledger.unacked[tag]
            self._answered([tag], now)
            self.outbox.append(tag)
            if lane.retiring or lane.consumer.window.held:
                self._attend_by(lane.consumer, now)
        else:
            self.acknowledged(tag, False, now)

    def park(self, tag: int, now: float) -> None:
        """The user has put the message aside for later: others may come in its place.

        Take it back with :meth:`unpark`, before it is answered at the latest.
        """
        self._park(tag, 1, now)

    def unpark(self, tag: int, now: float) -> None:
        """The user has turned to a message that was parked."""
        self._park(tag, -1, now)

    def _park(self, tag: int, count: int, now: float) -> None:
        lane = self.ledger.unacked[tag]
        consumer = lane.consumer
        consumer.window.parked(lane, count, now)
        consumer.sensors.parked(count, now)
        self._attend_by(consumer, now)

    def rejected(self, tag: int, multiple: bool, now: float) -> Sequence[Ack]:
        """The user refused ``tag``, or everything up to it: what to put on the wire.

        Refusals are never held.
        """
        ledger = self.ledger
        if multiple or tag not in ledger:
            self.give_back_all(now)
        self._make_frames()
        fetched = ledger.fetched_up_to(tag) if multiple else [tag]
        tags = ledger.up_to(tag) if multiple else [tag]
        ledger.fetched.difference_update(fetched)
        # Tag 0 would include messages on their way to us, which we still deliver.
        sent = max([0, *tags, *fetched]) if multiple and tag == 0 else tag
        tags = [each for each in tags if each in ledger.unacked]
        frames = [Ack(sent, multiple)]
        if multiple and ledger.covers_unseen(sent):
            frames = self._singly(tags, fetched)
        if self._transaction is not None:
            self._answer_in_transaction(tags, refused=True)
        else:
            self._answered(tags, now, refused=True)
        return frames

    def came_too_late(self, tag: int) -> None:
        """A message came for a consumer that is cancelled: it goes back when no lane is left."""
        self.ledger.taken(tag)
        self.ledger.unwanted.append(tag)
        self._return_unwanted()

    def not_handed_over(self, lane: Lane, tag: int, now: float) -> None:
        """An interrupt came before a message could be handed over: it goes back to its queue."""
        if lane.consumer.cancelled:
            self.came_too_late(tag)
        else:
            self.delivered(lane, tag, now)
            self.rejected(tag, False, now)
            self.returns.append(tag)

    def recovered(self, now: float) -> None:
        """Everything unacknowledged goes back to its queue, also what was fetched."""
        for consumer in (*self.consumers.values(), *self.leaving):
            self._forget_gated(consumer, now)
        self._answered(list(self.ledger.unacked), now, refused=True)
        self.ledger.fetched.clear()
        self.ledger.unwanted.clear()
        # Acks may overtake the request, so none may stand for several from now on.
        self.ledger.whole = False

    def take_acks(self) -> Sequence[Ack]:
        """The frames to send now, in as few as is safe."""
        tags, self.outbox = self.outbox, []
        if not self.verbatim and len(tags) == 1:
            return (Ack(tags[0], False),)
        frames = self.ledger.frames(tags, self._held_tags()) if tags else []
        verbatim, self.verbatim = self.verbatim, []
        return frames + verbatim

    def take_returns(self) -> list[int]:
        """The tags to give back to their queues now."""
        tags, self.returns = self.returns, []
        return tags

    def give_back_all(self, now: float) -> None:
        """Release all held acks of the channel."""
        for consumer in (*self.consumers.values(), *self.leaving):
            self._give_back(consumer, now)

    # Transactions

    def transaction_begun(self, now: float) -> None:
        """From now on acks count when they are committed, and none is held."""
        if self._transaction is None:
            self.give_back_all(now)
            self._transaction = {}

    def committed(self, now: float) -> None:
        """What the transaction acknowledged is acknowledged now."""
        for tag, refused in (self._transaction or {}).items():
            if tag in self.ledger.unacked:
                self._answered([tag], now, refused=refused)
        self._transaction = {}

    def rolled_back(self) -> None:
        """The acks of the transaction were never given."""
        self._transaction = {}

    # Time

    def wake(self, now: float) -> None:
        """Do what is due: acks to release and, less often, samples and lanes to change."""
        wake_at = math.inf
        for consumer in self.consumers.values():
            if now >= consumer.attend_at:
                self._attend(consumer, now)
            elif consumer.window.held:
                self._release_unless_cancelling(consumer, now)
            wake_at = min(wake_at, consumer.attend_at, consumer.window.deadline(now))
        self.wake_at = wake_at
        for consumer in self.leaving:
            self._release(consumer, now)

    def _attend(self, consumer: Consumer, now: float) -> None:
        """See to a consumer's sample and its lanes."""
        raise NotImplementedError

    def _release_unless_cancelling(self, consumer: Consumer, now: float) -> None:
        if consumer.pending is None or not consumer.pending.retiring:
            self._release(consumer, now)
        # Else the cancel of a lane comes first, and its acks with it.

    # Bookkeeping

    def _attend_by(self, consumer: Consumer, when: float) -> None:
        """Look at the lanes of a consumer then, or before."""
        consumer.attend_at = min(when, consumer.attend_at)
        self.wake_at = min(when, self.wake_at)

    def _release(self, consumer: Consumer, now: float) -> None:
        window = consumer.window
        released = window.release(now, several=False)
        if released:
            self._send(consumer, released, now)
        if window.more:
            with self.uninterrupted():
                self._send(consumer, window.release(now), now)
        if window.held:
            due = window.deadline(now)
            if due < self.wake_at:
                self.wake_at = due

    def _give_back(self, consumer: Consumer, now: float) -> None:
        with self.uninterrupted():
            consumer.plan.stop_retiring()
            self._send(consumer, consumer.window.drain(now), now)

    def give_back_due(self, by: float, now: float) -> None:
        """Release the acks whose time ends by then, because the user's code runs until then."""
        for consumer in self.consumers.values():
            if consumer.window.held:
                with self.uninterrupted():
                    consumer.plan.give_up_by(by)
                    self._send(consumer, consumer.window.release_due(by, now), now)
                # Acks that are no longer kept for a lane may be due before the others.
                self.wake_at = min(self.wake_at, consumer.window.deadline(now))

    def _send(self, consumer: Consumer, released: list[Held], now: float) -> None:
        slots = 0
        for tag, lane, _ in released:
            self.outbox.append(tag)
            if lane.cancelled:
                self._attend_by(consumer, now)  # slots that a new lane may take
            else:
                slots += 1
        consumer.sensors.released(slots, consumer.window.held, now)

    def _ack_in_transaction(self, tag: int, multiple: bool) -> None:
        """Send an ack of a transaction at once; it opens a slot only after the commit."""
        ledger = self.ledger
        tags = ledger.up_to(tag) if multiple else [tag]
        fetched = ledger.fetched_up_to(tag) if multiple else [tag]
        if multiple and ledger.covers_unseen(tag):
            self.verbatim += self._singly(tags, fetched)
        else:
            self.verbatim.append(Ack(tag, multiple))
        self._answer_in_transaction(tags, refused=False)
        ledger.fetched.difference_update(fetched)

    def _singly(self, tags: list[int], fetched: list[int]) -> list[Ack]:
        """A frame for each of these that is not yet answered in a transaction."""
        answered = self._transaction or ()
        return [Ack(tag, False) for tag in sorted([*tags, *fetched]) if tag not in answered]

    def _answer_in_transaction(self, tags: list[int], refused: bool) -> None:
        """Note what to settle at the commit; of two answers to one message the first counts."""
        assert self._transaction is not None
        for tag in tags:
            if tag in self.ledger.unacked:
                self._transaction.setdefault(tag, refused)

    def _ack_up_to(self, tag: int, now: float) -> None:
        ledger = self.ledger
        tags = ledger.up_to(tag)
        fetched = ledger.fetched_up_to(tag)
        if not ledger.covers_unseen(tag) and not (ledger.whole and (tags or fetched)):
            # Also for messages that are not in our books: as the user gave it.
            self.give_back_all(now)
            ledger.fetched.difference_update(fetched)
            self.verbatim.append(Ack(tag, True))
            self._answered(tags, now)
            return
        # Messages from before the channel was wrapped stay out where others are unseen: no frame
        # covers these and not those, and their tags are not known.
        affected: dict[Consumer, int] = {}
        for each in tags:
            lane = ledger.unacked.pop(each)
            lane.consumer.window.hold(each, lane, now)
            lane.consumer.sensors.answered(lane.consumer.window.held, now)
            affected[lane.consumer] = affected.get(lane.consumer, 0) + 1
        for consumer, count in affected.items():
            consumer.acknowledged_together(count)
            self._release(consumer, now)
        if fetched:
            self._ack_fetched(fetched)

    def _ack_fetched(self, tags: list[int]) -> None:
        """Acknowledge fetched messages one by one: the client may have lower tags not seen here."""
        self._make_frames()
        self.ledger.fetched.difference_update(tags)
        self.verbatim += [Ack(tag, False) for tag in tags]

    def _make_frames(self) -> None:
        """Make frames of what is released, none of which includes what is still in the books."""
        if self.outbox:
            with self.uninterrupted():
                self.verbatim = [*self.take_acks()]

    def _answered(self, tags: list[int], now: float, refused: bool = False) -> None:
        """Note that these are no longer unacknowledged at the broker."""
        for tag in tags:
            lane = self.ledger.unacked.pop(tag)
            consumer = lane.consumer
            window = consumer.window
            consumer.refused += refused
            consumer.sensors.answered(window.held, now)
            window.answered(lane)
            consumer.sensors.released(int(not lane.cancelled), window.held, now)
            if lane.cancelled:
                self._attend_by(consumer, now)  # a slot that a new lane may take

    def _forget_gated(self, consumer: Consumer, now: float) -> list[int]:
        """What has not been handed over is no longer unacknowledged at the broker."""
        forgotten = [*consumer.gate.waiting]
        consumer.gate.waiting.clear()
        for tag, lane, _, _ in forgotten:
            del self.ledger.gated[tag]
            consumer.sensors.forgotten(now)
            consumer.window.answered(lane)
            consumer.sensors.released(int(not lane.cancelled), consumer.window.held, now)
        self._find_hand_over_at()
        return [each.tag for each in forgotten]

    def _return_unwanted(self) -> None:
        """Give back what came too late, once no lane of a leaving consumer could get it again."""
        if not self.leaving and not self.commits:
            self.returns += sorted(self.ledger.unwanted)
            self.ledger.unwanted.clear()

    def _held_tags(self) -> list[int]:
        consumers = [*self.consumers.values(), *self.leaving]
        return [held.tag for each in consumers for held in each.window.all_held()]
