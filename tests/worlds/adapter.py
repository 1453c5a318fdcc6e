"""The adapter of a world: it drives a core as the adapter of a client library does."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from controlmq.consumer.commands import CancelLanes, OpenLane
from controlmq.consumer.consumer import Consumer
from controlmq.consumer.delivery_tags import Ack
from controlmq.consumer.lanes import Lane
from controlmq.loop import Sample
from tests.worlds.books import Books, Subscription
from tests.worlds.broker import BrokerQueue, Violation
from tests.worlds.circumstances import draw_target

MOST_WAKES_AT_ONCE = 20
"""Changes of lanes that may follow each other without time passing."""

SAMPLES_TO_SPREAD = 3
"""Samples after which slots that started in a bunch are spread."""

STUCK_LANE = re.compile(r"slots of consumer (\S+), while its other lanes were served")
"""How the log names a lane whose messages the broker keeps."""

PACE_KEPT = 0.98
"""Share of the openings that are due, at least, in messages."""


class Adapter(Books):
    """Consumers and lanes: between the core and the network."""

    # Consumers

    def subscribe(self, tag: str, target: float, queue: BrokerQueue) -> None:
        """A consumer with a random controller, or with none."""
        world = self.world
        given = world.circumstances
        now = world.now
        consumer = Consumer(tag, tag, target, given.shape(), now)
        consumer.stuck_lanes.after = given.stuck_after
        if given.at_most:
            consumer.pace(given.at_most, given.burst)
        subscription = Subscription(consumer, queue, target, given)
        subscription.limit_rate(given.at_most, now)
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
        subscription.interval_ends()
        subscription.sampled += sample.arrivals
        if not (0 <= sample.starved <= 1 and sample.held >= 0 and sample.in_flight >= -1e-9):
            raise Violation(f"a sample is impossible: {sample}")
        if self.world.circumstances.paced:
            self._check_pace(subscription, sample)
        law = self.world.circumstances.law
        if law is not None:
            subscription.aim(law(sample, math.nan))
            subscription.consumer.actuate(subscription.target)
            subscription.samples.append(sample)
        random_ = self.world.random
        if self.world.circumstances.moves and random_() < 0.5:
            target = draw_target(random_)
            subscription.aim(target)
            subscription.consumer.actuate(target)

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
            subscription.aim(target)
            self.core.retarget(subscription.consumer, target, self.world.now)
            self.attend()

    def pace(self, subscription: Subscription, rate: float) -> None:
        """The user asks for another bound."""
        if subscription.alive and subscription.bound:
            now = self.world.now
            self.core.pace(subscription.consumer, rate, self.world.circumstances.burst, now)
            subscription.limit_rate(rate, now)
            self.attend()

    def fix(self, prefetch: float | None, _: Any) -> None:
        """The user takes the controller away; the next time it is given back."""
        if self.fixed:
            self._unfix()
            return
        for subscription in self.subscriptions:
            consumer = subscription.consumer
            self.fixed[consumer] = consumer.controlled, consumer.limits, subscription.bound
        self.core.fix(prefetch, self.world.now)
        self.send_acks()
        for subscription in self.subscriptions:
            subscription.limit_rate(0.0, self.world.now)
            if subscription.alive:
                subscription.aim(prefetch or subscription.asked)
        self.attend()

    def _unfix(self) -> None:
        for subscription in self.subscriptions:
            consumer = subscription.consumer
            if subscription.alive and consumer in self.fixed:
                controlled, limits, bound = self.fixed[consumer]
                if not controlled:
                    continue
                now = self.world.now
                self.core.unfix(consumer, limits, now, controlled=True)
                if bound:
                    self.core.pace(consumer, bound, self.world.circumstances.burst, now)
                    subscription.limit_rate(bound, now)
                subscription.aim(subscription.target)
        self.fixed.clear()
        self.attend()

    def stop(self, subscription: Subscription, _: Any) -> None:
        """The user cancels a consumer."""
        if subscription.alive:
            subscription.alive = False
            self.core.cancel([subscription.consumer])
            self.carry_out()
            self.attend()

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
            if core.listening:
                self.take_in()
            if core.samples_due:
                self.take_samples()
            if core.commands:
                self.carry_out()
            elif core.outbox:
                self.send_acks()
            wakes += 1
            if wakes > MOST_WAKES_AT_ONCE:
                raise Violation("the core asks to be woken again and again at one instant")

    def notice(self, text: str) -> None:
        """What an operator would find in the log."""
        stuck = STUCK_LANE.search(text)
        if stuck:
            lane = self.world.broker.lanes.get(stuck[1])
            if lane is None or not lane.keeps or lane.tag in self.noticed:
                raise Violation(f"the log says without a reason: {text}")
            self.noticed[lane.tag] = self.world.now

    def take_in(self) -> None:
        """Receive what has come, where that is a step before handing it over."""
        raise NotImplementedError

    def carry_out(self) -> None:
        """The commands of the core in their order; acks go before a lane is opened."""
        core = self.core
        while core.commands:
            command = core.commands.popleft()
            if isinstance(command, OpenLane):
                self.send_acks()
                self.open(command.lane)
            elif isinstance(command, CancelLanes):
                self.cancel([lane for lane in command.lanes if not lane.cancelled])
            else:
                self.notice(command.text)
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
        subscription.largest_lane = max(lane.size, subscription.largest_lane)
        allowed = max(1, math.ceil(subscription.target))
        single = first and subscription.consumer.kind == "single"
        beside_the_last = subscription.lanes == 2 and lane.size == 1
        if subscription.asked > allowed and not (single or beside_the_last):
            raise Violation(f"{subscription.asked} slots are asked for, {allowed} are allowed")
        self.unconfirmed.add(lane)
        world.to_broker(self.open_at_broker, lane, self._asked())

    def cancel(self, lanes: list[Lane]) -> None:
        world, core = self.world, self.core
        self._check_no_commit()
        for lane in lanes:
            subscription = world.subscription_of[lane.consumer]
            if lane in self.unconfirmed:
                raise Violation(f"{lane.tag} is cancelled before the broker has confirmed it")
            self._lane_gone(lane, subscription)
            if subscription.alive and not subscription.lanes:
                raise Violation("the last lane was retired")
            world.to_broker(self.cancel_at_broker, lane, self._asked())
        for tag in self.forget_undelivered(lanes):
            self.late.add(tag)
            core.came_too_late(tag)
        for lane in lanes:
            core.lane_cancelled(lane, world.now)
        for tag, (_, subscription) in list(self.gated.items()):
            if not subscription.lanes:
                del self.gated[tag]
                subscription.wait(world.now, -1)
                self.late.add(tag)
                subscription.asked -= 1

    def forget_undelivered(self, lanes: list[Lane]) -> list[int]:
        """Tags of the messages that the client has and has not handed over."""
        raise NotImplementedError

    def send_acks(self) -> None:
        core = self.core
        for tag in core.take_returns():
            self._given_back(tag)
        if not (core.outbox or core.verbatim):
            return
        frames = core.take_acks()
        for tag, multiple in frames:
            if multiple:
                self._check_covers_none(tag)
                for each in [each for each in self.unanswered if each <= tag]:
                    self._sent(each)
            else:
                self._sent(tag)
        self.world.to_broker(self.acks_at_broker, frames, self._asked())

    def _given_back(self, tag: int) -> None:
        """A message that the user has not got goes back to its queue."""
        self._check_no_commit()
        if tag not in self.late:
            raise Violation(f"message {tag} goes back, and its consumer would get it again")
        self.late.remove(tag)
        self.world.requeued += 1
        self.world.to_broker(self.return_at_broker, tag, self._asked())

    def _check_no_commit(self) -> None:
        if self.commits:
            raise Violation("504: unexpected command while processing 'tx.commit'")

    def _check_covers_none(self, tag: int) -> None:
        if min([*self.gated, *self.late], default=tag + 1) <= tag:
            raise Violation(f"a frame up to {tag} answers for what the user has not got")

    def refuse_at_broker(self, refusal: tuple[int, bool, bool], asked: list[int]) -> None:
        self.world.broker.refuse(*refusal)
        self._limit(asked)

    # What the network brings

    def on_opened(self, lane: Lane, _: Any) -> None:
        self.unconfirmed.remove(lane)
        self.core.lane_opened(lane, self.world.now)
        self.carry_out()

    def on_refused(self, lane: Lane, _: Any) -> None:
        subscription = self.world.subscription_of[lane.consumer]
        self.unconfirmed.remove(lane)
        self.cancelled.add(lane)
        subscription.asked -= lane.size
        subscription.lanes -= 1
        self.core.lane_refused(lane, self.world.now)
        subscription.alive = subscription.alive and subscription.lanes > 0
        self.carry_out()

    def on_cancelled(self, lane: Lane, _: Any) -> None:
        """The broker has cancelled a lane."""
        if lane not in self.cancelled:
            self.world.subscription_of[lane.consumer].alive = False
        self.core.cancelled_by_broker(lane.tag)
        self.carry_out()

    def on_blocked(self, _: Any, __: Any) -> None:
        self.core.block(self.world.now)

    def on_unblocked(self, _: Any, __: Any) -> None:
        self.core.unblocked(self.world.now)

    # What arrives at the broker

    def acks_at_broker(self, frames: Sequence[Ack], asked: list[int]) -> None:
        broker = self.world.broker
        for tag, multiple in frames:
            broker.acknowledge(tag, multiple)
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

    def return_at_broker(self, tag: int, asked: list[int]) -> None:
        broker = self.world.broker
        message, lane, _ = broker.unacked[tag]
        if lane is not None:
            broker.given_back[message] = lane.lane.consumer
        broker.refuse(tag, False, True)
        self._limit(asked)

    def cancel_at_broker(self, lane: Lane, asked: list[int]) -> None:
        self.world.broker.cancel(lane.tag)
        self._limit(asked)
