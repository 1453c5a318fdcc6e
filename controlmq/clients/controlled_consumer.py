"""A consumer and the loop that drives it: who turns the loop, and what follows from a turn."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace

from controlmq.checks import prefetch_count
from controlmq.clients import kill_switch
from controlmq.clients.calendar_time import InCalendarTime
from controlmq.clients.channel_runner import Runner, clock
from controlmq.clients.controllers import check_goal, combined, hold
from controlmq.clients.followed_file import FollowedFile
from controlmq.clients.kill_switch import Off
from controlmq.clients.settings import Settings, check_shared_rate, limits_with
from controlmq.clients.shared_goal import SharedGoal
from controlmq.clients.stuck_at_limit import UpperLimit
from controlmq.consumer.consumer import Buckets, Consumer
from controlmq.controllers import Limits
from controlmq.controllers.selector import Selector
from controlmq.errors import InputError
from controlmq.goals import Given, Goals
from controlmq.loop import Controller, Loop, Step
from controlmq.observe.registry import registry

log = logging.getLogger("controlmq")

LANES_IN_VAIN = 2
"""Connections in a row that ended when a further lane was asked for, after which none is asked for.
One may be a coincidence."""


class ControlledConsumer:
    """One adaptive consumer, as the user sees it.

    ``goal`` and ``prefetch`` may be set at any time. ``last`` is the last step of the loop.
    ``plant`` is the consumer without a socket, which its loop drives.
    """

    def __init__(
        self,
        tag: str,
        queue: str,
        settings: Settings,
        controller: Controller | None,
        asked: float | None,
        runner: Runner,
        *,
        tag_is_new: bool = True,
    ) -> None:
        self._goals = settings.goals.of(queue)
        self._controlled = settings.controller is not None
        goal = self._goals.goal
        given = settings.controller
        limits = given.limits if given is not None else settings.limits
        limits = limits_with(controller, limits, settings.window)
        self._law: Controller = controller or hold
        """What moves the prefetch, unless the kill switch is on."""
        self._limits = limits
        self._off = kill_switch.look()
        self._before_off = start = settings.start(asked, goal, limits)
        """The prefetch to go back to where no law moves it."""
        self._ended = False
        """Whether control has ended, and with it the kill switch."""
        shape = settings.shape(limits, controller)
        if self._off is not None:
            # As plain as it can be from the start: one subscription of a whole prefetch. A window
            # that has but one never gets more slots, so there it has all that it will ever need.
            start, controller = self._off.whole(start), None
            if settings.window != "single" or self._off.for_good:
                shape = settings.shape(None, None)
        self.plant = Consumer(tag, queue, start, shape, clock(), tag_is_new=tag_is_new)
        self.last: Step | None = None
        self._group = settings.group
        self._runner = runner
        self._on_step = settings.on_step
        self._on_step_failed = False
        self.on_back: Callable[[ControlledConsumer], None] = _nothing
        """Called with this when the kill switch is off again and everything else is as before."""
        self._upper_limit = UpperLimit()
        self._lanes_in_vain = 0
        """Connections in a row that ended when a further lane was asked for."""
        self._limits_given = settings.limits is not None
        self._file: FollowedFile | None = None
        if given is not None and given.file is not None:
            self._file = FollowedFile(given.file, given, settings.sample_interval)
        self.loop = Loop(
            InCalendarTime(self.plant),
            controller or hold,  # none while the kill switch is on
            goal,
            record=settings.record,
            group=settings.group or queue,
            trace=uuid.uuid4().hex[:12],
        )
        self._shared_name = settings.shared
        self.shared: SharedGoal | None = None
        """Its part of a rate that several consumers share."""
        if settings.shared is not None and self._goals.at_most is not None:
            self.shared = SharedGoal(
                settings.shared, self._goals.at_most, self._goals.burst, runner, self.plant
            )
        elif self._off is None:
            self._begin_bounded()
        if self._off is not None:
            runner.core.fix_one(self.plant, start, self.plant.now)

    def keep_bound_of(self, last: Consumer) -> None:
        """Keep the bound on the rate over the end of ``last``; before this one is subscribed."""
        if self._off is None and self.shared is None:
            self._runner.core.follow_on(self.plant, last, self.plant.now)
            self._begin_bounded()

    def _begin_bounded(self) -> None:
        """Bound the rate as the goals ask for, before the consumer is subscribed."""
        pace = self._goals.pace(controlled=self._controlled)
        self._runner.core.pace(self.plant, *pace, self.plant.now)

    def join(self) -> None:
        """Ask for a share of the rate, where it is shared."""
        if self.shared is not None and self._off is None:
            self.shared.join()

    @property
    def tag(self) -> str:
        """The consumer's tag, as the user knows it."""
        return self.plant.tag

    @property
    def queue(self) -> str:
        """The queue it consumes."""
        return self.plant.queue

    @property
    def name(self) -> str:
        """What it is called in traces and metrics: the group that the user gave, or its queue."""
        return self._group or self.queue

    @property
    def running(self) -> bool:
        """Whether it consumes: it was not cancelled, and its channel is open."""
        return not (self.plant.cancelled or self._runner.stopped)

    @property
    def switched_off(self) -> bool:
        """Whether the kill switch holds its prefetch."""
        return self._off is not None

    @property
    def goal(self) -> float:
        """The rate to hold, messages/second; not a number where there is none."""
        return self.loop.goal

    @goal.setter
    def goal(self, goal: Given) -> None:
        self.goals = replace(self._goals, goal=goal)  # type: ignore[arg-type] # it is read there

    @property
    def goals(self) -> Goals:
        """All that the consumer is to do. Set them, and it goes on from where it is.

        They may be set from any thread; another than the connection's leaves it to that one to
        bound the rate, as soon as it can.
        """
        return self._goals

    @goals.setter
    def goals(self, goals: Goals) -> None:
        if not isinstance(goals, Goals):
            raise InputError(
                f"goals is {goals!r}; give controlmq.goals.Goals(...) with the words of wrap."
            )
        if self._ended:
            raise InputError(
                f"control of consumer {self.tag} has ended, because its channel was unwrapped; "
                "consume on a wrapped channel to give it goals."
            )
        if self._law is hold:
            raise InputError(
                f"the prefetch of consumer {self.tag} is fixed; wrap without prefetch= to give it "
                "goals."
            )
        if self._shared_name is not None and goals.at_most is not None:
            check_shared_rate(self._shared_name, goals.at_most, goals.goal)
        law = self._law
        own = law.controller if isinstance(law, Selector) else law
        if own is not None:
            check_goal(self.queue, goals, own)
        if isinstance(law, Selector):
            law.goals = goals
        else:
            self._law = combined(goals, self._limits, law)
            if self._off is None:
                self.loop.controller = self._law
        self.loop.goal = goals.goal
        self._goals = goals
        self._runner.call_in_thread(self._pace)

    def _pace(self) -> None:
        """Let the consumer keep to the rate itself, unless a controller holds it."""
        if self._off is not None or not self.running:
            return
        if self.shared is not None and self._goals.at_most is not None:
            self.shared.follow(self._goals.at_most, self._goals.burst)
            self.shared.join()
            return
        self._unshare()
        self._runner.pace(self.plant, *self._goals.pace(controlled=self._controlled))

    def bound_together(self, buckets: Buckets, *, empty: bool = False) -> None:
        """Take tokens of these from now on: other consumers do too, and have one rate together.

        ``empty``: they begin without a burst.
        """
        self._runner.use_buckets(self.plant, buckets, empty=empty)

    def _unshare(self) -> None:
        if self.shared is not None:
            self.shared.leave()

    def _follow_share(self) -> None:
        """Let the law find the prefetch for the share, and not for the rate of all."""
        share = self.shared.share if self.shared is not None else 0.0
        if share and isinstance(self._law, Selector):
            self._law.share(share)

    @property
    def prefetch(self) -> float:
        """The prefetch in force. Set it by hand, and the controller goes on from there.

        It may be set from any thread; from another than the connection's, it is put in force
        by that one as soon as it can.
        """
        return self.plant.window.target

    @prefetch.setter
    def prefetch(self, prefetch: float) -> None:
        self._runner.retarget(self.plant, prefetch_count("prefetch", prefetch))

    @property
    def in_flight(self) -> int:
        """Messages delivered and not acknowledged, those with a held ack included."""
        return sum(lane.unacked for lane in self.plant.window.lanes)

    @property
    def held(self) -> int:
        """Acks given by the handler and held."""
        return self.plant.window.held

    def turn(self) -> None:
        """One turn of the loop, now that the interval is over."""
        if self._file is not None:
            self._follow(self._file)
        self._follow_share()
        self.last = self.loop.step()
        missed = self._upper_limit.missed(self.last, self.plant.limits)
        if missed is not None and self.loop.controller is not hold:
            log.warning("queue %s: %s", self.queue, missed)
            self.last = replace(self.last, told=(*self.last.told, missed))
        self._obey(kill_switch.look())
        registry.sampled(self, self.last)
        if self._on_step is not None:
            self._report(self._on_step, self.last)

    def _obey(self, off: Off | None) -> None:
        """Stop adapting, or adapt again, if the kill switch was turned."""
        if self._ended:
            return
        before, self._off = self._off, off
        if off == before:
            return
        core, plant = self._runner.core, self.plant
        if off is not None:
            if before is None:
                self._before_off = self.prefetch
                self._unshare()
            self.loop.controller = hold
            core.fix_one(plant, off.whole(self.prefetch), plant.now)
            return
        core.unfix(plant, self._limits, plant.now, controlled=self.adapts)
        if self.adapts:
            self.loop.controller = self._law
        else:
            core.retarget(plant, self._before_off, plant.now)
        self._pace()
        self.on_back(self)

    # From one connection to the next

    @property
    def adapts(self) -> bool:
        """Whether anything moves the prefetch, or will when the kill switch is off again."""
        return self._law is not hold

    @property
    def law(self) -> Controller | None:
        """What moves the prefetch, with its memory; None where nothing does."""
        return self._law if self.adapts else None

    @property
    def limits(self) -> Limits | None:
        """The limits of the prefetch; None where nothing limits it."""
        return self._limits

    def limits_for(self, window: str) -> Limits | None:
        """The limits of the prefetch where another window takes over."""
        return limits_with(self._law, self._limits, window)

    def go_on_from(self, last: ControlledConsumer) -> None:
        """Take up the prefetch, the goals and the law with its memory where ``last`` had them.

        What was logged of the goals' costs is not logged again.
        """
        self.give_up_lanes_in_vain(last.lanes_in_vain)
        self._law = last._law
        self._limits = last.limits_for(self.plant.kind)
        self._file, self._limits_given = last._file, last._limits_given
        self.loop.told = last.loop.told
        self._before_off = last._before_off if last.switched_off else last.prefetch
        if self._off is None:
            self.loop.controller = self._law
            self._runner.core.limited(self.plant, self._limits, self.plant.now)
            self.prefetch = last.prefetch if self.adapts else self._before_off
        if self.adapts:
            self.goals = last.goals

    @property
    def lanes_in_vain(self) -> int:
        """Connections in a row, up to this one, that ended when a further lane was asked for."""
        if self._lanes_in_vain >= LANES_IN_VAIN:
            return self._lanes_in_vain
        return self._lanes_in_vain + 1 if self.plant.lane_in_vain else 0

    def give_up_lanes_in_vain(self, connections: int) -> None:
        """Keep to one subscription where each further one ended the connection.

        ``connections`` in a row have ended like that. AMQP has no other answer to a consumer that
        is not allowed. Every growth of the window would end the connection, and messages would come
        again until their queue drops them.
        """
        self._lanes_in_vain = connections
        if connections >= LANES_IN_VAIN:
            why = "the broker ends the connection when a further consumer is added"
            self._runner.core.be_single(self.plant, why, clock())

    def end_control(self) -> None:
        """Turn nothing any more: no controller, no recording, no ``on_step``."""
        self._unshare()
        self.shared = None
        self._off, self._ended = None, True
        self.loop.controller = self._law = hold
        self.loop.record = self._on_step = self._file = None

    def _follow(self, file: FollowedFile) -> None:
        """Take the controller from the file again if that has changed."""
        found = file.changed()
        if found is not None:
            # Every law goes on from the prefetch in force, so this causes no bump.
            if isinstance(self._law, Selector):
                self._law.controller = found.make()
                if not self._limits_given:
                    self._law.limits = found.limits or Limits.widest()
            else:
                self._law = found.make()
            if not self._limits_given:
                self._limits = limits_with(self._law, found.limits, self.plant.kind)
            if self._off is None:
                self.loop.controller = self._law
                self._runner.core.limited(self.plant, self._limits, self.plant.now)

    def _report(self, on_step: Callable[[Step], None], step: Step) -> None:
        """Call the user's code, whose failure must not stop the consumer: it is logged once."""
        try:
            on_step(step)
        except Exception as error:
            if not self._on_step_failed:
                log.error("on_step failed (%s: %s); consuming goes on", type(error).__name__, error)
            self._on_step_failed = True
        else:
            if self._on_step_failed:
                log.warning("on_step recovered")
            self._on_step_failed = False


def _nothing(_consumer: ControlledConsumer) -> None:
    """Does nothing; default of ``on_back``."""
