"""A user's program with one wrapped channel: it drives a core as a client's adapter does.

It keeps books of its own, from what it saw alone, and compares them with those of the core.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from controlmq.consumer.commands import CancelLane, OpenLane
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.core import Core
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane
from controlmq.loop import Sample
from tests.worlds.broker import BrokerQueue, Violation
from tests.worlds.circumstances import draw_target
from tests.worlds.places import ANYWHERE, CLIENT

if TYPE_CHECKING:
    from tests.worlds.world import World

MOST_WAKES_AT_ONCE = 20
"""Changes of lanes that may follow each other without time passing."""

TIMING_SECONDS = 1e-6
"""By how much rounding may make a time longer."""

LATEST_ACK_SECONDS = 0.3
"""How late a late ack is at most."""

SAMPLES_TO_SPREAD = 3
"""Samples after which slots that started in a bunch are spread."""

PACE_KEPT = 0.98
"""Share of the openings that are due, at least, in messages."""

NO_LIMIT = 10**9
"""Slots of a consumer that stops: what is on its way to it goes back to its queue."""


class Subscription:
    """One consumer of the program, as its user and the network see it."""

    __slots__ = (
        "alive",
        "asked",
        "consumer",
        "doomed",
        "held",
        "lanes",
        "max_held",
        "pace",
        "paced",
        "queue",
        "received",
        "sampled",
        "sensors",
        "spacing",
        "target",
        "window",
    )

    def __init__(self, consumer: Consumer, queue: BrokerQueue) -> None:
        self.consumer = consumer
        self.queue = queue
        self.window = consumer.window
        self.sensors = consumer.sensors
        self.max_held = consumer.window.max_held
        self.target = consumer.window.target
        self.alive = True
        self.doomed = False
        """Whether the broker has cancelled a lane, of which the program may not know yet."""
        self.asked = 0
        """Slots asked for, and messages that cancelled lanes have and have not answered."""
        self.held = 0
        """Acks that the user gave and that are not on the wire."""
        self.lanes = 0
        self.received = 0
        self.sampled = 0
        self.spacing = 0.0
        self.pace = 0.0
        self.paced = 0


class Program:
    """The user's handlers, and the adapter between them, the core and the network."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.core = Core()
        self.subscriptions: list[Subscription] = []
        self.busy = False
        """Whether a handler runs in the client's thread, so that nothing else can happen."""
        self.inbox: deque[tuple[Callable[[Any, Any], None], Any, Any]] = deque()
        self.unacked: dict[int, tuple[Lane | None, Subscription | None]] = {}
        """What the user got and has not answered."""
        self.unanswered: dict[int, tuple[Lane | None, Subscription | None]] = {}
        """What the user got and whose answer is not on the wire (or not committed)."""
        self.owed: dict[int, float] = {}
        """Acks that the user gave, since when, and that are not on the wire."""
        self.committing: list[int] | None = None
        self.foreign = 0
        """Of ``unacked``, those that no consumer brought."""
        self.cancelled: set[Lane] = set()
        self.last_tag = 0
        self.free_handlers = world.circumstances.handlers
        self.waiting: deque[tuple[int, int]] = deque()
        self.max_hold = world.circumstances.max_hold

    # Consumers

    def subscribe(self, tag: str, target: float, queue: BrokerQueue) -> None:
        """A consumer with a random controller, or with none."""
        world = self.world
        given = world.circumstances
        now = world.now
        consumer = Consumer(tag, tag, target, given.shape(), now)
        subscription = Subscription(consumer, queue)
        self.subscriptions.append(subscription)
        self.open(self.core.subscribe(consumer, now), first=True)
        self.attend()

    def take_samples(self) -> None:
        """What the owner of the loops does at the end of an interval."""
        core = self.core
        while core.samples_due:
            consumer = core.samples_due.popleft()
            if self.world.circumstances.controlled and not consumer.cancelled:
                self.sample(self.world.subscription_of[consumer])
            core.sampled(consumer, self.world.now)

    def sample(self, subscription: Subscription) -> None:
        sample = subscription.consumer.observe()
        subscription.sampled += sample.arrivals
        if not (0 <= sample.starved <= 1 and sample.held >= 0 and sample.in_flight >= -1e-9):
            raise Violation(f"a sample is impossible: {sample}")
        if self.world.circumstances.paced:
            self._check_pace(subscription, sample)
        random_ = self.world.random
        if self.world.circumstances.moves and random_() < 0.5:
            self._aim(subscription, draw_target(random_))
            subscription.consumer.actuate(subscription.target)

    def _check_pace(self, subscription: Subscription, sample: Sample) -> None:
        """Where handlers are not the limit, a message comes with every opening that is due."""
        if sample.number >= SAMPLES_TO_SPREAD:
            subscription.paced += sample.arrivals
            subscription.pace += sample.interval / subscription.spacing
            if subscription.paced < PACE_KEPT * subscription.pace - 2:
                raise Violation(
                    f"{subscription.paced} messages came, {subscription.pace:.1f} were due"
                )
        subscription.spacing = subscription.window.spacing

    def retarget(self, subscription: Subscription, target: float) -> None:
        """The user moves the prefetch."""
        if subscription.alive:
            self._aim(subscription, target)
            self.core.retarget(subscription.consumer, target, self.world.now)
            self.attend()

    def fix(self, prefetch: float | None, _: Any) -> None:
        """The user takes the controller away."""
        self.core.fix(prefetch, self.world.now)
        for subscription in self.subscriptions:
            if subscription.alive:
                subscription.target = prefetch or subscription.asked
        self.attend()

    def stop(self, subscription: Subscription, _: Any) -> None:
        """The user cancels a consumer."""
        if subscription.alive:
            subscription.alive = False
            self.core.cancel(subscription.consumer, self.world.now)
            self.carry_out()
            self.attend()

    def _aim(self, subscription: Subscription, target: float) -> None:
        limits = subscription.consumer.limits
        subscription.target = limits.clamp(target) if limits else target

    # What the network brings

    def on_message(self, lane: Lane, delivery: tuple[int, int]) -> None:
        tag, message = delivery
        world = self.world
        now = world.now
        subscription = world.subscription_of[lane.consumer]
        if lane in self.cancelled:
            # As pika does with messages of a consumer that it has cancelled.
            if subscription.alive and not subscription.doomed:
                raise Violation(f"a change of lanes requeued message {message}")
            world.requeued += 1
            world.to_broker(self.refuse_at_broker, (tag, False, True), self._asked())
            return
        if tag <= self.last_tag:
            raise Violation(f"delivery tag {tag} came after {self.last_tag}")
        self.last_tag = tag
        if message in world.acknowledged:
            world.duplicates += 1
        self.unanswered[tag] = self.unacked[tag] = lane, subscription
        subscription.received += 1
        core = self.core
        consumer = subscription.consumer
        core.delivered(lane, tag, now, len(self.inbox))
        if consumer.unseen:
            stream = world.circumstances.stream
            core.first_message(lane, tag, {"x-stream-offset": 0} if stream else {})
        if core.outbox or now >= core.wake_at:
            self.attend()
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

    def on_done(self, delivery: tuple[int, int], _: Any) -> None:
        """A handler of the pool is done."""
        world = self.world
        if self.waiting:
            world.push(world.now + world.work(), CLIENT, self.on_done, self.waiting.popleft(), None)
        else:
            self.free_handlers += 1
        self.answer(*delivery)

    def on_opened(self, lane: Lane, _: Any) -> None:
        self.core.lane_opened(lane, self.world.now)

    def on_refused(self, lane: Lane, _: Any) -> None:
        subscription = self.world.subscription_of[lane.consumer]
        if lane not in self.cancelled:
            self.cancelled.add(lane)
            subscription.asked -= lane.size
            subscription.lanes -= 1
        self.core.lane_refused(lane, self.world.now)
        subscription.alive = subscription.alive and subscription.lanes > 0

    def on_cancelled(self, lane: Lane, _: Any) -> None:
        """The broker has cancelled a lane."""
        subscription = self.world.subscription_of[lane.consumer]
        if lane not in self.cancelled:
            subscription.alive = False
            self._lane_gone(lane, subscription)
        self.core.cancelled_by_broker(lane.tag, self.world.now)
        self.carry_out()

    def on_blocked(self, _: Any, __: Any) -> None:
        self.core.block(self.world.now)

    def on_unblocked(self, _: Any, __: Any) -> None:
        self.core.unblocked(self.world.now)

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
            self.acknowledge(tag, True)
        elif chosen < 0.87:
            self.refuse(tag, True, requeue=world.random() < 0.5)
        else:
            self.acknowledge(tag, False)
            queue = world.queues[int(world.random() * len(world.queues))]
            world.to_broker(self.get_at_broker, queue, None)

    def acknowledge(self, tag: int, multiple: bool) -> None:
        if tag not in self.unacked:
            return
        world = self.world
        now = world.now
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
        self.core.acknowledged(tag, multiple, now)

    def refuse(self, tag: int, multiple: bool, requeue: bool) -> None:
        sent = self.core.rejected(tag, multiple, self.world.now)
        self.send_acks()
        covered = [each for each in self.unanswered if each <= sent] if multiple else [sent]
        for each in covered:
            if self.committing is not None and each not in self.unacked:
                continue  # answered before in this transaction
            if each not in self.unacked:
                raise Violation(f"a refusal of {sent} covers {each}, which was acknowledged")
            _, subscription = self.unacked.pop(each)
            if subscription is None:
                self.foreign -= 1
            self._answered(each)
        self.world.to_broker(self.refuse_at_broker, (sent, multiple, requeue), self._asked())

    def begin(self) -> None:
        """A transaction, in which the channel stays."""
        self.core.transaction_begun(self.world.now)
        self.send_acks()
        self.committing = []
        self.world.to_broker(self.begin_at_broker, None, None)

    def commit(self, roll_back: bool, _: Any = None) -> None:
        """Commit, or roll back and answer everything at once."""
        world = self.world
        if roll_back:
            tags, self.committing = self.committing or [], []
            self.core.rolled_back()
            world.to_broker(self.roll_back_at_broker, None, None)
            for tag in sorted(tags):
                self.unacked[tag] = self.unanswered[tag]
                self.foreign += self.unanswered[tag][1] is None
                world.push(world.now, CLIENT, self.acknowledge, tag, False)
            self.unacked = dict(sorted(self.unacked.items()))
            return
        self.core.committed(world.now)
        tags, self.committing = self.committing or [], None
        for tag in tags:
            self._answered(tag)
        self.committing = []
        world.to_broker(self.commit_at_broker, None, self._asked())

    def _up_to(self, tag: int) -> list[int]:
        return [each for each in self.unacked if each <= tag]

    # What the core asks for

    def attend(self) -> None:
        """Send what was released, then do what is due."""
        core = self.core
        if core.outbox or core.verbatim:
            self.send_acks()
        now = self.world.now
        wakes = 0
        while now >= core.wake_at:
            core.wake(now)
            if core.samples_due:
                self.take_samples()
            if core.commands:
                self.carry_out()
            elif core.outbox:
                self.send_acks()
            wakes += 1
            if wakes > MOST_WAKES_AT_ONCE:
                raise Violation("the core asks to be woken again and again at one instant")

    def carry_out(self) -> None:
        """The commands of the core in their order; acks go before each."""
        core = self.core
        while core.commands:
            self.send_acks()
            command = core.commands.popleft()
            if isinstance(command, OpenLane):
                self.open(command.lane)
            elif isinstance(command, CancelLane):
                self.cancel(command.lane)
        self.send_acks()

    def open(self, lane: Lane, first: bool = False) -> None:
        world = self.world
        if lane.consumer.cancelled:
            self.core.lane_cancelled(lane, world.now)
            return
        if first:
            world.subscription_of[lane.consumer] = self.subscriptions[-1]
        subscription = world.subscription_of[lane.consumer]
        subscription.asked += lane.size
        subscription.lanes += 1
        allowed = max(1, math.ceil(subscription.target))
        if subscription.asked > allowed and not (first and subscription.consumer.kind == "single"):
            raise Violation(f"{subscription.asked} slots are asked for, {allowed} are allowed")
        world.to_broker(self.open_at_broker, lane, self._asked())

    def cancel(self, lane: Lane) -> None:
        if lane in self.cancelled or lane.cancelled:
            return
        subscription = self.world.subscription_of[lane.consumer]
        self._lane_gone(lane, subscription)
        if subscription.alive and not subscription.lanes:
            raise Violation("the last lane was retired")
        self.world.to_broker(self.cancel_at_broker, lane, self._asked())
        self.core.lane_cancelled(lane, self.world.now)

    def _lane_gone(self, lane: Lane, subscription: Subscription) -> None:
        self.cancelled.add(lane)
        subscription.lanes -= 1
        out = sum(each is lane for each, _ in self.unanswered.values())
        subscription.asked -= lane.size - out

    def send_acks(self) -> None:
        core = self.core
        if not (core.outbox or core.verbatim):
            return
        frames = core.take_acks()
        for tag, multiple in frames:
            if multiple:
                for each in [each for each in self.unanswered if each <= tag]:
                    self._sent(each)
            else:
                self._sent(tag)
        self.world.to_broker(self.acks_at_broker, frames, self._asked())

    def _sent(self, tag: int) -> None:
        """An ack is on the wire."""
        if self.owed.pop(tag, None) is None:
            if self.committing is not None and tag in self.committing:
                return
            state = "not given yet" if tag in self.unacked else "sent before"
            raise Violation(f"the ack of {tag} is on the wire, and was {state}")
        if self.committing is None:
            entry = self.unanswered[tag][1]
            if entry is not None:
                entry.held -= 1
        self._answered(tag)

    def _answered(self, tag: int) -> None:
        if self.committing is not None:
            self.committing.append(tag)
            return
        lane, subscription = self.unanswered.pop(tag)
        if lane in self.cancelled:
            subscription.asked -= 1  # type: ignore[union-attr]

    def _asked(self) -> list[int]:
        return [
            each.asked if each.alive and not each.doomed else NO_LIMIT
            for each in self.subscriptions
        ]

    # What arrives at the broker

    def acks_at_broker(self, frames: Sequence[Ack], asked: list[int]) -> None:
        broker = self.world.broker
        for tag, multiple in frames:
            broker.acknowledge(tag, multiple)
        self._limit(asked)

    def refuse_at_broker(self, refusal: tuple[int, bool, bool], asked: list[int]) -> None:
        self.world.broker.refuse(*refusal)
        self._limit(asked)

    def open_at_broker(self, lane: Lane, asked: list[int]) -> None:
        world = self.world
        subscription = world.subscription_of[lane.consumer]
        further = lane.tag != lane.consumer.tag
        if world.random() < world.circumstances.refusals * (1.0 if further else 0.05):
            world.to_client(self.on_refused, lane, None)
            return
        self._limit(asked)
        world.to_client(self.on_opened, lane, None)
        world.broker.consume(lane, subscription.queue)

    def cancel_at_broker(self, lane: Lane, asked: list[int]) -> None:
        self.world.broker.cancel(lane.tag)
        self._limit(asked)

    def get_at_broker(self, queue: BrokerQueue, _: Any) -> None:
        # The user's code waits for it, so that it overtakes messages that wait for that code.
        self.world.to_client(self.on_got, self.world.broker.get(queue), None, ANYWHERE)

    def begin_at_broker(self, _: Any, __: Any) -> None:
        self.world.broker.in_transaction = {}

    def commit_at_broker(self, _: Any, asked: list[int]) -> None:
        self.world.broker.commit()
        self._limit(asked)

    def roll_back_at_broker(self, _: Any, __: Any) -> None:
        self.world.broker.in_transaction = {}

    def _limit(self, asked: list[int]) -> None:
        """What was asked for when this was sent is what may be in flight from now on."""
        for subscription, slots in zip(self.subscriptions, asked, strict=False):
            queue = subscription.queue
            queue.limit = slots
            if queue.in_flight > slots:
                raise Violation(f"{queue.in_flight} are in flight, {slots} slots were asked for")

    # The books

    def check(self) -> None:
        """Compare the core's books with ours; called after every event of the program."""
        for each in self.subscriptions:
            window, held, asked = each.window, each.held, each.asked
            if window.held != held:
                raise Violation(f"{held} acks are held, the window has {window.held}")
            if window.granted != asked:
                raise Violation(f"{asked} slots are granted, the window has {window.granted}")
            if each.sensors._open != asked - held:
                raise Violation(
                    f"{asked - held} slots are open, the sensors have {each.sensors._open}"
                )
            if held > each.max_held:
                raise Violation(f"{held} acks are held, {each.max_held} are allowed")
            if held and not each.alive:
                raise Violation("a consumer that has stopped holds acks")
        if self.owed and not self.busy:
            since = next(iter(self.owed.values()))
            if self.world.now - since > self.max_hold + TIMING_SECONDS:
                raise Violation(f"an ack is held for {self.world.now - since:g} s")
        if self.committing is None:
            if len(self.core.ledger.unacked) != len(self.unacked) - self.foreign:
                raise Violation("the ledger does not have what the user has not answered")

    def check_all(self) -> None:
        """Compare all that is too long to compare after every event."""
        core = self.core
        for each in self.subscriptions:
            window = each.window
            tags = sorted(held.tag for held in window.all_held())
            ours = sorted(tag for tag in self.owed if self.unanswered[tag][1] is each)
            if tags != ours:
                raise Violation(f"held are {ours}, the window has {tags}")
            granted = sum(lane.unacked if lane.cancelled else lane.size for lane in window.lanes)
            if granted != window.granted:
                raise Violation(f"lanes have {granted} slots, the window {window.granted}")
            if each.received != each.sensors.total:
                raise Violation("the sensors have missed a message")
            if self.world.circumstances.controlled:
                if each.sampled + each.sensors.arrivals != each.received:
                    raise Violation("the samples have missed a message")
        if self.committing is None:
            ours = [tag for tag, entry in self.unacked.items() if entry[1] is not None]
            if list(core.ledger.unacked) != ours:
                raise Violation(f"not answered are {ours}, the ledger differs")
