"""A user's program with one wrapped channel: its handlers, and how they answer messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from controlmq.consumer.consumer import Consumer
from controlmq.consumer.lanes import Lane
from tests.worlds.adapter import Adapter
from tests.worlds.books import Subscription
from tests.worlds.broker import BrokerQueue, Violation
from tests.worlds.places import ANYWHERE, CLIENT

if TYPE_CHECKING:
    from tests.worlds.world import World

LATEST_ACK_SECONDS = 0.3
"""How late a late ack is at most."""


class Program(Adapter):
    """The user's handlers, on top of the adapter that connects them with core and network."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.inbox: deque[tuple[Callable[[Any, Any], None], Any, Any]] = deque()
        self.last_tag = 0
        self.free_handlers = world.circumstances.handlers
        self.waiting: deque[tuple[int, int]] = deque()

    # What the user gets

    def on_message(self, lane: Lane, delivery: tuple[int, int]) -> None:
        tag, message = delivery
        world = self.world
        now = world.now
        subscription = world.subscription_of[lane.consumer]
        known = tag in self.announced
        if lane.consumer.cancelled or (lane in self.cancelled and not known):
            if subscription.alive and not subscription.doomed:
                raise Violation(f"a change of lanes requeued message {message}")
            self.late.add(tag)
            self.core.came_too_late(tag)
            self.send_acks()
            return
        self.announced.pop(tag, None)
        if tag <= self.last_tag:
            raise Violation(f"delivery tag {tag} came after {self.last_tag}")
        self.last_tag = tag
        if message in world.acknowledged:
            world.duplicates += 1
        core = self.core
        consumer = subscription.consumer
        if message in world.broker.redelivered:
            core.redelivered(consumer)
            subscription.redelivered += 1
        if consumer.unseen:
            stream = world.circumstances.stream
            core.first_message(lane, tag, {"x-stream-offset": 0} if stream else {})
        if consumer.gate.bucket is not None or consumer.gate.waiting:
            self.gated[tag] = lane, subscription
            subscription.wait(now, 1)
            core.arrived(lane, tag, now, delivery)
            self.hand_over_due()
            return
        self.unanswered[tag] = self.unacked[tag] = lane, subscription
        subscription.handed_over(now)
        core.delivered(lane, tag, now, len(self.inbox))
        if core.outbox or now >= core.wake_at:
            self.attend()
        self._work_on(delivery, consumer)

    def hand_over_due(self) -> None:
        """Take from the core what may be handed over now."""
        world, core = self.world, self.core
        for subscription in self.subscriptions:
            if self.busy or not subscription.alive:
                continue
            while not self.busy:
                delivery = core.hand_over(subscription.consumer, world.now)
                if delivery is None:
                    break
                tag = delivery[0]
                if tag != next(
                    each for each, entry in self.gated.items() if entry[1] is subscription
                ):
                    raise Violation(f"message {tag} overtook others")
                entry = self.gated.pop(tag)
                subscription.wait(world.now, -1)
                for books in (self.unanswered, self.unacked):
                    overtaken = bool(books) and next(reversed(books)) > tag
                    books[tag] = entry
                    if overtaken:
                        ascending = sorted(books.items())
                        books.clear()
                        books.update(ascending)
                subscription.handed_over(world.now)
                if core.outbox or world.now >= core.wake_at:
                    self.attend()
                self._work_on(delivery, subscription.consumer)

    def _work_on(self, delivery: tuple[int, int], consumer: Consumer) -> None:
        world, core = self.world, self.core
        now = world.now
        if not world.circumstances.handlers:
            self.busy = True
            world.push(now + world.work(), ANYWHERE, self.on_return, delivery, (consumer, now))
            return
        core.returned(consumer, now, now)
        if self.free_handlers:
            self.free_handlers -= 1
            world.push(now + world.work(), CLIENT, self.on_done, delivery, None)
        else:
            self.waiting.append(delivery)

    def on_return(self, delivery: tuple[int, int], call: tuple[Consumer, float]) -> None:
        """A handler in the client's thread answers and returns."""
        self.busy = False
        if self.world.random() < 0.5:
            self.take_in()  # as a flush of acks does
        self.answer(*delivery)
        self.attend()
        self.core.returned(*call, self.world.now)
        inbox = self.inbox
        while inbox and not self.busy:
            self.check()
            self.world.events += 1
            happen, first, second = inbox.popleft()
            happen(first, second)
            self.attend()

    def take_in(self) -> None:
        """Receive what waits: messages for their turn, answers to take note of at once."""
        if not self.world.circumstances.door:
            return
        answers = (self.on_opened, self.on_refused)
        for event in [event for event in self.inbox if event[0] in answers]:
            self.inbox.remove(event)
            event[0](*event[1:])
        for happen, lane, delivery in self.inbox:
            new = happen == self.on_message and delivery[0] not in self.announced
            if new and lane not in self.cancelled:
                self.announced[delivery[0]] = lane
                self.core.received(lane)

    def on_done(self, delivery: tuple[int, int], _: Any) -> None:
        """A handler of the pool is done."""
        world = self.world
        if self.waiting:
            world.push(world.now + world.work(), CLIENT, self.on_done, self.waiting.popleft(), None)
        else:
            self.free_handlers += 1
        self.answer(*delivery)

    def on_got(self, delivery: tuple[int, int] | None, _: Any) -> None:
        """``basic_get`` brought a message, or none."""
        if delivery is None:
            return
        tag, message = delivery
        self.unanswered[tag] = self.unacked[tag] = None, None
        self.foreign += 1
        self.core.fetched(tag)
        when = self.world.now + self.world.work() * self.world.random()
        self.world.push(when, ANYWHERE, self.answer, tag, message)

    def forget_undelivered(self, lanes: list[Lane]) -> list[int]:
        """As a blocking client does: it has received them, and dispatches them no more."""
        mine = [
            event
            for event in self.inbox
            if event[0] == self.on_message and event[1] in lanes and event[1].consumer.cancelled
        ]
        for event in mine:
            self.inbox.remove(event)
        return [tag for _, _, (tag, _) in mine]

    # What the user answers

    def answer(self, tag: int, message: int) -> None:
        """Acknowledge as most do, or do something else."""
        if tag not in self.unacked:
            return  # answered together with others
        world = self.world
        oddities = world.circumstances.oddities
        if self.committing is not None and world.random() < 0.3:
            # What the client itself has refused for a consumer that stops, it refuses once.
            stopping = not all(each.alive for each in self.subscriptions)
            self.commit(world.random() < 0.3 and not stopping)
            if tag not in self.unacked:
                return
        if not oddities or message in world.broker.redelivered or world.random() >= oddities:
            self.acknowledge(tag, False)
            return
        chosen = world.random()
        if self.unacked[tag][0] is None and chosen >= 0.4:
            # Several up to a fetched one would include messages that the user has not got.
            self.acknowledge(tag, self.core.ledger.whole is True and self.committing is None)
        elif chosen < 0.25:
            late = world.now + LATEST_ACK_SECONDS * world.random()
            world.push(late, CLIENT, self.acknowledge, tag, False)
        elif chosen < 0.4:
            self.refuse(tag, False, requeue=True)
        elif chosen < 0.55:
            self.refuse(tag, False, requeue=False)
        elif chosen < 0.8:
            self.acknowledge(tag, self._may_answer_several())
        elif chosen < 0.87:
            self.refuse(tag, self._may_answer_several(), requeue=world.random() < 0.5)
        else:
            self.acknowledge(tag, False)
            queue = world.queues[int(world.random() * len(world.queues))]
            world.to_broker(self.get_at_broker, queue, None)

    def _may_answer_several(self) -> bool:
        """Not with messages out from before the channel was wrapped while others are unseen.

        An answer for several would have to leave out the former, of which the core does not know.
        """
        fetched = self.core.ledger.fetched
        old = any(lane is None and tag not in fetched for tag, (lane, _) in self.unanswered.items())
        return not (old and (self.gated or self.late))

    def acknowledge(self, tag: int, multiple: bool) -> None:
        if tag not in self.unacked:
            return
        world = self.world
        now = world.now
        together: list[Subscription | None] = []
        for each in self._up_to(tag) if multiple else (tag,):
            _, subscription = self.unacked.pop(each)
            self.owed[each] = now
            if subscription is None:
                self.foreign -= 1
            elif self.committing is None:
                subscription.held += 1
            if each not in world.broker.unacked:
                raise Violation(f"{each} is acknowledged, and was not by the user")
            world.acknowledged.add(world.broker.unacked[each][0])
            together.append(subscription)
        for subscription in self.subscriptions if multiple else ():
            subscription.acknowledged_together(together.count(subscription))
        self.core.acknowledged(tag, multiple, now)

    def refuse(self, tag: int, multiple: bool, requeue: bool) -> None:
        frames = self.core.rejected(tag, multiple, self.world.now)
        self.send_acks()
        for each, several in frames:
            self._refuse(each, several, requeue)

    def _refuse(self, sent: int, multiple: bool, requeue: bool) -> None:
        """A refusal goes on the wire."""
        if multiple:
            self._check_covers_none(sent)
        covered = [each for each in self.unanswered if each <= sent] if multiple else [sent]
        for each in covered:
            if self.committing is not None and each not in self.unacked:
                continue  # answered before in this transaction
            if each not in self.unacked:
                raise Violation(f"a refusal of {sent} covers {each}, which was acknowledged")
            _, subscription = self.unacked.pop(each)
            if subscription is None:
                self.foreign -= 1
            self.refused.add(each)
            self._answered(each)
        self.world.to_broker(self.refuse_at_broker, (sent, multiple, requeue), self._asked())

    def begin(self) -> None:
        """A transaction, in which the channel stays."""
        self.core.transaction_begun(self.world.now)
        self.send_acks()
        self.committing = []
        self.world.to_broker(self.begin_at_broker, None, None)

    def commit(self, roll_back: bool, _: Any = None) -> None:
        """Commit, or roll back and answer everything at once.

        Not before the broker has answered the last commit: it allows no command until then.
        """
        if self.commits:
            return
        world = self.world
        if roll_back:
            tags, self.committing = self.committing or [], []
            self.core.rolled_back()
            world.to_broker(self.roll_back_at_broker, None, None)
            for tag in sorted(tags):
                self.unacked[tag] = self.unanswered[tag]
                self.refused.discard(tag)
                self.foreign += self.unanswered[tag][1] is None
                world.push(world.now, CLIENT, self.acknowledge, tag, False)
            self.unacked = dict(sorted(self.unacked.items()))
            return
        self.core.committing()
        self.commits += 1
        self.core.committed(world.now)
        tags, self.committing = self.committing or [], None
        for tag in tags:
            self._answered(tag)
        self.committing = []
        world.to_broker(self.commit_at_broker, None, self._asked())

    # What arrives at the broker

    def get_at_broker(self, queue: BrokerQueue, _: Any) -> None:
        # The user's code waits for it, so that it overtakes messages that wait for that code.
        self.world.to_client(self.on_got, self.world.broker.get(queue), None, ANYWHERE)

    def begin_at_broker(self, _: Any, __: Any) -> None:
        self.world.broker.in_transaction = {}

    def commit_at_broker(self, _: Any, asked: list[int]) -> None:
        self.world.broker.commit()
        self._limit(asked)
        self.world.to_client(self.on_committed, None, None, ANYWHERE)

    def on_committed(self, _: Any, __: Any) -> None:
        self.commits -= 1
        self.core.commit_answered(self.world.now)
        self.carry_out()

    def roll_back_at_broker(self, _: Any, __: Any) -> None:
        self.world.broker.in_transaction = {}
