"""The live consumer as a plant: observed by its sensors, actuated through its window."""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controlmq.checks import MOST_PREFETCH, prefetch_count
from controlmq.controllers.limits import Limits
from controlmq.errors import InputError
from controlmq.loop import Controller, Loop, Sample, Step
from controlmq.rabbitmq.lanes import Lane
from controlmq.rabbitmq.model_file import ModelFile
from controlmq.rabbitmq.sensors import Sensors
from controlmq.rabbitmq.settings import Settings
from controlmq.rabbitmq.window import Window

log = logging.getLogger("controlmq")

LINGER = 3.0
"""Intervals for which a lane must have been superfluous before it is retired; a controller
that moves about its goal would otherwise open and retire lanes for ever."""

SHORTEST = 0.9
"""Intervals. After a late tick the next may come so much early, to be in step again."""

START = 1.0
"""Messages. The prefetch to start from when nothing says which."""

MAX_HELD = 250
"""Acks held at most unless the user says otherwise: what a crash could deliver twice. Also the
size of a single subscription that is controlled and has no limits."""

USED = 0.75
"""Share of the slots beyond the first that are spread over a message's way. The rest is a reserve:
with none, whatever delays one message delays the window."""

ENOUGH = 20
"""Arrivals in an interval that tell how long a message's way is."""

LEAST_SPACING = 0.0005
"""Seconds. Below, there is nothing to spread."""

PROBE_WINDOWS = 3
"""Windows' worth of messages that pass a new lane by before the queue counts as one that
serves a single consumer."""


class Consumer:
    """One adaptive consumer: its queue, its goal, and the window that moves towards it.

    ``goal`` may be set at any time. ``shape`` says how the window is made: ``"lanes"``,
    ``"single"`` (one subscription, held acks alone) or, until the queue has shown which it
    allows, ``"auto"``. ``last`` is the last step of the loop.
    """

    def __init__(
        self,
        tag: str,
        queue: str,
        settings: Settings,
        controller: Controller | None,
        start: float | None,
        clock: Callable[[], float],
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.clock = clock
        self.subscription: dict[str, Any] = {}
        """Arguments with which every lane is subscribed."""
        self.deliver: Callable[..., None] = _nowhere
        """Where messages go: the user's callback."""
        self.wake: Callable[[], None] = _nowhere
        """Have the change of the window carried out soon."""
        self.shape = settings.window
        self.last: Step | None = None
        self.cancelled = False
        self.unsent = False
        self.unseen = True
        now = clock()
        self._since_1970 = time.time() - now
        goal = settings.goal_for(queue)
        self.limits = settings.limits or getattr(controller, "limits", None)
        target = _start(settings, start, goal, self.limits)
        self.most = _most(target, self.limits, controlled=controller is not None)
        self.window = Window(
            target,
            now,
            max_held=_max_held(settings, self.most, self.limits),
            max_hold=settings.max_hold,
            linger=LINGER * settings.interval,
        )
        self.window.may_grow = self.window.may_retire = settings.window == "lanes"
        self.sensors = Sensors(now, settings.interval)
        self.interval = settings.interval
        self.next_tick = now + settings.interval
        self._on_step = settings.on_step
        self._on_step_failed = False
        self._said_too_small = False
        self._model_file = settings.model_file()
        self._limits_given = settings.limits is not None
        self.loop = Loop(
            self,
            controller or _hold,
            goal if goal is not None else 1.0,
            record=settings.record,
            group=settings.group or queue,
            trace=uuid.uuid4().hex[:12],
        )
        self._lane_count = 0
        self._probe: tuple[Lane, int] | None = None

    @property
    def goal(self) -> float:
        """Messages/second."""
        return self.loop.goal

    @goal.setter
    def goal(self, goal: float) -> None:
        self.loop.goal = goal

    @property
    def prefetch(self) -> float:
        """The prefetch in force. Set it by hand, and the controller goes on from there."""
        return self.window.target

    @prefetch.setter
    def prefetch(self, prefetch: float) -> None:
        self.actuate(prefetch_count("prefetch", prefetch))
        self.window.spacing = 0.0  # that of another prefetch; the next interval tells anew
        self.wake()

    @property
    def in_flight(self) -> int:
        """Messages delivered and not acknowledged, those with a held ack included."""
        return sum(lane.unacked for lane in self.window.lanes)

    @property
    def held(self) -> int:
        """Acks given by the handler and kept back."""
        return self.window.held

    # The plant

    def observe(self) -> Sample:
        """Close the interval; it bears the calendar's time, by which traces can be compared."""
        sample = self.sensors.close(self.clock(), self.window.target)
        return replace(sample, time=sample.time + self._since_1970)

    def actuate(self, prefetch: float) -> None:
        """Aim the window at ``prefetch``, or the nearest that is allowed."""
        prefetch = min(prefetch, MOST_PREFETCH)
        if self.limits is not None:
            prefetch = self.limits.clamp(prefetch)
        if self.shape == "single" and prefetch > self.window.granted > 0:
            self._say_too_small(prefetch)
        self.window.retarget(prefetch, self.clock())

    def _say_too_small(self, prefetch: float) -> None:
        """Once: the only subscription there may be has fewer slots than are asked for."""
        if not self._said_too_small:
            log.warning(
                "queue %s: prefetch %g is asked for, but its one subscription has %d slots and "
                "stays so; wrap with limits to choose the maximum",
                self.queue,
                prefetch,
                self.window.granted,
            )
        self._said_too_small = True

    def tick(self, now: float) -> None:
        """One turn of the loop, now that the interval is over."""
        # A late tick does not shift the following ones, unless a short interval would follow.
        self.next_tick = max(self.next_tick + self.interval, now + SHORTEST * self.interval)
        if self._model_file is not None:
            self._follow(self._model_file)
        self.last = self.loop.step()
        self.window.spacing = self._spacing(self.last.sample)
        if self._on_step is not None:
            self._tell(self._on_step, self.last)

    def _spacing(self, sample: Sample) -> float:
        """Seconds between slots that are spread evenly over a message's way, or 0."""
        if self.loop.controller is _hold or self.prefetch <= 1:
            return 0.0
        if sample.starved > 0 or sample.arrivals < ENOUGH:
            return 0.0  # how long the way is, a queue that may be dry does not tell
        way = self.sensors.turnaround.usual + sample.handler_time
        spacing = way / (1 + USED * (self.prefetch - 1))
        return spacing if spacing >= LEAST_SPACING else 0.0

    def _follow(self, model_file: ModelFile) -> None:
        """Take the controller from the file anew if that has changed."""
        controller = model_file.changed()
        if controller is not None:
            # Every law goes on from the prefetch in force, so this causes no bump.
            self.loop.controller = controller
            if not self._limits_given:
                self.limits = getattr(controller, "limits", None)

    def _tell(self, on_step: Callable[[Step], None], step: Step) -> None:
        """Call the user, whose failure must not stop the consumer: it is logged, once in a row."""
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

    # Lanes

    @property
    def first_size(self) -> int:
        """Slots of the first lane: all there will be, where there can be no other."""
        if self.shape == "single":
            return self.most
        slots = max(1, math.ceil(self.window.target))
        # Without a controller nothing is going to shrink, and one lane is as good as plain.
        return slots if self.loop.controller is _hold else self.window.lane_size(slots)

    def new_lane(self, size: int) -> Lane:
        """Enter a lane in the books; the first bears the user's tag, no tag is used twice."""
        self._lane_count += 1
        tag = self.tag if self._lane_count == 1 else f"{self.tag}.{uuid.uuid4().hex[:8]}"
        lane = self.window.opened(tag, size)
        if self.shape == "auto" and self._lane_count == 2:
            self._probe = lane, self.sensors.total
            self.window.may_grow = False
        return lane

    def first_message(self, properties: Any) -> None:
        """Learn from a first message whether lanes are possible."""
        self.unseen = False
        headers = getattr(properties, "headers", None) or {}
        if "x-stream-offset" in headers:
            self.be_single("it is a stream, which delivers every message to every consumer")
        elif self.shape == "auto":
            self.window.may_grow = True

    def barren_lane(self) -> Lane | None:
        """The second lane, if it gets nothing while the first is served; then it has to go."""
        if self._probe is None:
            return None
        lane, total = self._probe
        if lane.received:
            self._probe = None
            self.shape = "lanes"
            self.window.may_grow = self.window.may_retire = True
        elif self.sensors.total - total > PROBE_WINDOWS * self.window.granted:
            self._probe = None
            self.be_single("it serves one consumer at a time")
            return lane
        return None

    def be_single(self, why: str) -> None:
        """Keep to one subscription from now on."""
        if self.shape == "auto":
            log.warning(
                "queue %s: %s, so the prefetch stays at most %d; "
                "wrap with window='single' and limits to choose the maximum",
                self.queue,
                why,
                self.window.lanes[0].size if self.window.lanes else 0,
            )
            self._said_too_small = True
        self.shape = "single"
        self.window.may_grow = self.window.may_retire = False

    def fix(self, prefetch: float) -> None:
        """Control no more: stay at ``prefetch``, record nothing, tell nobody."""
        self.loop.controller = _hold
        self.loop.record = self._on_step = self._model_file = None
        self.window.linger = self.window.spacing = 0.0
        self.window.retarget(prefetch, self.clock())

    @property
    def plain(self) -> bool:
        """Whether one consumer with the user's tag and the whole prefetch is all there is."""
        lanes = self.window.lanes
        return (
            len(lanes) == 1
            and lanes[0].tag == self.tag
            and lanes[0].size == self.window.target
            and not self.held
        )


def _nowhere(*_message: Any) -> None:
    """Before a consumer is subscribed nothing is delivered, and nothing is to be done."""


def _hold(sample: Sample, goal: float) -> float:
    """The controller of a consumer with a fixed prefetch."""
    return sample.prefetch


def _start(
    settings: Settings, start: float | None, goal: float | None, limits: Limits | None
) -> float:
    if settings.prefetch is not None:
        prefetch = settings.prefetch
    elif start:
        prefetch = start
    elif goal is not None and (model := settings.known_model()) is not None:
        prefetch = model.prefetch_for(goal)
    elif settings.controller is None:
        raise InputError(
            "there is no prefetch to hold; give wrap a prefetch or a goal and a controller, "
            "or call basic_qos before basic_consume."
        )
    else:
        prefetch = START
    return limits.clamp(prefetch) if limits else prefetch


def _most(target: float, limits: Limits | None, *, controlled: bool) -> int:
    """Slots of a single subscription, which is never changed."""
    if limits is not None:
        return math.ceil(limits.high)
    return max(MAX_HELD, math.ceil(target)) if controlled else math.ceil(target)


def _max_held(settings: Settings, most: int, limits: Limits | None) -> int:
    if settings.max_held is not None:
        return settings.max_held
    if settings.window == "single":
        return most
    return MAX_HELD if limits is None else min(MAX_HELD, most)
