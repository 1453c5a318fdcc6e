"""How a wrapped channel adapts its consumers: what the user said, checked once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, get_args

from controlmq.checks import above_zero, not_negative, prefetch_count
from controlmq.consumer.consumer import Shape, WindowChoice
from controlmq.consumer.handler_pool import HandlerPool, SharedPool
from controlmq.controllers.beyond_range import BeyondRange
from controlmq.controllers.limits import Limits
from controlmq.controllers.resolve import ControllerSpec, ModelSpec, ResolvedController, resolve
from controlmq.controllers.selector import Selector
from controlmq.errors import ControlmqError, InputError
from controlmq.goals import WORDS, GivenByQueue, Goals, GoalsByQueue
from controlmq.loop import Controller, Step, Transition

log = logging.getLogger("controlmq")

START_PREFETCH = 1.0
"""Messages. The prefetch to start from when nothing says which."""

DEFAULT_INTERVAL_SECONDS = 1.0

LONGEST_SHARED_BYTES = 200
"""Of the name of a shared rate; that of a stream at the broker may have 255."""

CONSUMER_TIMEOUT_SHARE = 0.5
"""Share of the broker's consumer timeout for which an ack is held at most, where the consumer is
subscribed with one; the rest is for handling the message."""

USUAL_CONSUMER_TIMEOUT_SECONDS = 1800.0
"""The consumer timeout of a broker where nobody has set another."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What :func:`controlmq.wrap` was given; see there."""

    goals: GoalsByQueue = field(default_factory=GoalsByQueue)
    controller: ResolvedController | None = None
    interval: float | None = None
    prefetch: float | None = None
    limits: Limits | None = None
    window: WindowChoice = "auto"
    max_held: int | None = None
    max_hold: float = 10.0
    handlers: int | HandlerPool | SharedPool | None = None
    record: Callable[[Transition], None] | None = None
    on_step: Callable[[Step], None] | None = None
    group: str | None = None
    shared: str | None = None
    fixed: bool = False
    """Whether no law moves a prefetch, because control has ended or the client moves it: every
    consumer from now on keeps what it starts with or is given."""

    def __post_init__(self) -> None:
        if self.interval is not None:
            above_zero("interval", self.interval)
        if self.controller is not None:
            self.controller.check_interval(self.sample_interval)
        if self.prefetch is not None:
            above_zero("prefetch", self.prefetch)
            prefetch_count("prefetch", self.prefetch)
        if self.limits is not None and not isinstance(self.limits, Limits):
            raise InputError(
                f"limits is {self.limits!r}; give controlmq.Limits(low, high), in messages."
            )
        if self.window not in get_args(WindowChoice):
            raise InputError(f"window is {self.window!r}; give 'auto', 'lanes' or 'single'.")
        if self.max_held is not None:
            if not_negative("max_held", self.max_held) % 1:
                raise InputError(f"max_held is {self.max_held:g}; give a whole number of acks.")
        above_zero("max_hold", self.max_hold)
        if self.shared is not None:
            self._check_shared(self.shared)
        if self.handlers is not None and not _are_handlers(self.handlers):
            raise InputError(
                f"handlers is {self.handlers!r}; give how many messages your program works on "
                "at once, or the controlmq.WorkerPool that they run in."
            )

    def _check_shared(self, name: str) -> None:
        if not isinstance(name, str) or not name or len(name.encode()) > LONGEST_SHARED_BYTES:
            raise InputError(
                f"shared is {name!r}; give a name of up to {LONGEST_SHARED_BYTES} bytes, the same "
                "for all consumers that share the rate."
            )
        given = self.goals.given
        check_shared_rate(name, given.get("at_most"), given.get("goal"))

    @property
    def sample_interval(self) -> float:
        """Seconds a sample: what was given, else the model's."""
        if self.interval is not None:
            return self.interval
        model = self.controller.model if self.controller is not None else None
        return model.interval if model is not None else DEFAULT_INTERVAL_SECONDS

    def within_timeout(self, arguments: Mapping[str, Any] | None) -> Settings:
        """The same for a consumer subscribed with these arguments, which may have a timeout."""
        timeout = (arguments or {}).get("x-consumer-timeout")
        if not timeout:
            if self.max_hold > CONSUMER_TIMEOUT_SHARE * USUAL_CONSUMER_TIMEOUT_SECONDS:
                _warn_of_long_hold(self.max_hold)
            return self
        longest = CONSUMER_TIMEOUT_SHARE * timeout / 1000  # given in milliseconds
        return replace(self, max_hold=min(self.max_hold, longest))

    def read_again(self) -> Settings:
        """The same with the controller that its file holds now.

        Where the file is missing or invalid this is logged, and the controller stays what it was.
        """
        if self.controller is None or self.controller.file is None:
            return self
        try:
            return replace(self, controller=self.controller.read_again())
        except ControlmqError as error:
            log.error("%s; the controller read before is used", str(error).rstrip("."))
            return self

    def adapts(self, goals: Goals) -> bool:
        """Whether the prefetch of a consumer with these goals moves."""
        if self.fixed:
            return False
        return self.controller is not None or self.prefetch is None or goals != Goals()

    def start(self, asked: float | None, goal: float | None, limits: Limits | None) -> float:
        """The prefetch to start from; ``asked`` is what ``basic_qos`` said.

        What a model expects is taken up to the end of its range, from where a search goes on.
        """
        if self.prefetch is not None:
            prefetch = self.prefetch
        elif asked:
            prefetch = asked
        elif goal is not None and self.controller is not None and self.controller.model is not None:
            model = self.controller.model
            prefetch = (limits or Limits.of(model)).clamp(model.prefetch_for(goal))
        else:
            prefetch = START_PREFETCH
        return limits.clamp(prefetch) if limits else prefetch

    def shape(self, limits: Limits | None, controller: Controller | None) -> Shape:
        """How the window of a consumer may be made.

        Spreading makes a rate steadier, but a window then gives less than its slots could. So it is
        off for the least prefetch and for a time in the buffer, where each slot counts.
        """
        handlers = self.handlers
        only_goals = isinstance(controller, Selector) and controller.controller is None
        return Shape(
            window=self.window,
            controlled=controller is not None,
            spreads=not only_goals,
            limits=limits,
            max_held=self.max_held,
            max_hold=self.max_hold,
            interval=self.sample_interval,
            handlers=handlers.part() if isinstance(handlers, SharedPool) else handlers,
        )


WRAP_WORDS = {*WORDS, "model", *(each.name for each in fields(Settings))} - {"goals", "fixed"}
"""The words of :func:`controlmq.wrap`, but for the channel and the one before it."""


def check_shared_rate(name: str, at_most: GivenByQueue, goal: GivenByQueue) -> None:
    """Refuse a rate to share that is none to keep to, or beside a rate to hold."""
    if at_most is None or goal is not None:
        raise InputError(
            f"shared={name!r} is for at_most, the rate of all consumers together; give "
            "at_most and no goal."
        )


@cache
def _warn_of_long_hold(max_hold: float) -> None:
    """Log once that acks are held for longer than a broker may allow; AMQP does not tell that."""
    usual = USUAL_CONSUMER_TIMEOUT_SECONDS
    log.warning(
        "acks may be held for %g s (max_hold), and unless it is told otherwise RabbitMQ ends a "
        "consumer that has kept a message for %g s: choose a max_hold of at most %g s, or "
        "subscribe with the argument x-consumer-timeout of a quorum queue, in milliseconds",
        max_hold,
        usual,
        CONSUMER_TIMEOUT_SHARE * usual,
    )


def limits_with(law: Controller | None, limits: Limits | None, window: str) -> Limits | None:
    """What the prefetch stays within where ``limits``, or none, are given to it and this law.

    A single subscription has all its slots from the start and never gets more. So a law that may
    go on beyond the range of its model keeps to it there.
    """
    own = law.controller if isinstance(law, Selector) else law
    beyond: BeyondRange | None = getattr(own, "beyond", None)
    if limits is None and beyond is not None and window == "single":
        return beyond.within
    return limits


def _are_handlers(given: object) -> bool:
    """Whether these are a whole number of handlers, or a pool of them."""
    if isinstance(given, int):
        return not isinstance(given, bool) and given >= 1
    return isinstance(given, HandlerPool | SharedPool)


def settings_from(
    goal: GivenByQueue = None, controller: ControllerSpec | None = None, **words: Any
) -> Settings:
    """What the words of :func:`controlmq.wrap` mean, for every client the same."""
    unknown = sorted(words.keys() - WRAP_WORDS)
    if unknown:
        raise InputError(
            f"there is no setting {unknown[0]!r}; see controlmq.wrap for those there are."
        )
    goals = {"goal": goal} | {word: words.pop(word) for word in WORDS if word in words}
    model: ModelSpec | None = words.pop("model", None)
    if controller is None and model is not None:
        if goal is None:
            raise InputError(
                "a model is for holding a goal; give a goal in messages/second, or no model."
            )
        controller = model
    resolved = None
    if controller is not None:
        resolved = resolve(controller, model=model, limits=words.get("limits"))
    return Settings(goals=GoalsByQueue(goals), controller=resolved, **words)
