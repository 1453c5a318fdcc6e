"""What a user wants of a consumer: goals with their units, from numbers or from words.

The same words everywhere: ``goal``, ``at_most``, ``buffer_time`` and ``protect`` in Python, on the
command line and in scenarios. A rate is a number of messages/second or a text such as ``"400/s"``
or ``"5/minute"``; a time is a number of seconds or a text such as ``"100 ms"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controlmq.checks import above_zero
from controlmq.errors import InputError

SECONDS = {
    **dict.fromkeys(("us", "microsecond"), 1e-6),
    **dict.fromkeys(("ms", "millisecond"), 1e-3),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86400.0),
}
"""The seconds of each unit of time; a longer word may have an ``s`` at its end."""

GOAL_STALL_SECONDS = 0.1
"""Seconds. How long a stall may be for a goal to be made up for; a ceiling makes up for less."""

LEAST_GOAL_BURST = 5.0
"""Messages. A goal makes up for this number at least: while long work keeps handlers busy, tokens
are not taken. With exponential work and a handler that the goal keeps busy for 50, 80 or 90 % of
its time, a burst of 1 holds 93, 88 or 77 % of the goal, and this one 100, 98 or 95 %. A larger one
would hold a little more, and let a slow goal begin with more at once."""

LEAST_MESSAGES_PER_SECOND = 1e-9
"""Messages/second: one in some thirty years. Beyond it numbers would no longer be exact."""

WORDS = ("goal", "at_most", "burst", "buffer_time", "protect")
"""The words of :class:`Goals`."""

Given = float | str | None
"""A rate or a time as a user gives it; None for no such goal."""

GivenByQueue = Given | Mapping[str, Given]
"""The same for all queues, or one for each queue by its name."""

BURST_SECONDS = 0.05
"""Seconds whose messages may start at once, unless another burst is given: timers are late by some
milliseconds, and what that costs is made up for."""

LEAST_BURST, MOST_BURST = 1.0, 1e9
"""Messages. A bucket with less would never have a whole token. More are more than a queue holds,
and the time that a slow rate takes for them may be too large for a number."""


def usual_burst(rate: float) -> float:
    """Messages that may start at once where ``rate`` is bounded and no burst is given."""
    return max(LEAST_BURST, BURST_SECONDS * rate)


def rate_of(name: str, value: object) -> float:
    """Messages/second, from a number or a text such as ``"400/s"`` or ``"5 per minute"``."""
    if not isinstance(value, str):
        return _usual(name, value, above_zero(name, value))
    number, _, unit = value.replace(" per ", "/").partition("/")
    seconds = _unit(unit.strip() or "s")
    if seconds is None:
        raise InputError(
            f"{name} is {value!r}; give messages per second, minute, hour or day, as in '5/minute'."
        )
    return _usual(name, value, above_zero(name, _number(name, value, number, "400/s")) / seconds)


def _usual(name: str, value: object, rate: float) -> float:
    if rate < LEAST_MESSAGES_PER_SECOND:
        raise InputError(f"{name} is {value!r}; give at least 1 message in 30 years.")
    return _finite(name, value, rate)


def _finite(name: str, value: object, found: float) -> float:
    if math.isinf(found):
        raise InputError(f"{name} is {value!r}, which is too large for a number; give less.")
    return found


def seconds_of(name: str, value: object) -> float:
    """Seconds, from a number or a text such as ``"100 ms"``."""
    if not isinstance(value, str):
        return above_zero(name, value)
    text = value.strip()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ")
    seconds = _unit(text[len(number) :] or "s")
    if seconds is None:
        raise InputError(f"{name} is {value!r}; give seconds, or a time such as '100 ms'.")
    found = above_zero(name, _number(name, value, number, "100 ms")) * seconds
    if not found:
        raise InputError(f"{name} is {value!r}, which is too short to tell from 0; give more.")
    return _finite(name, value, found)


def _unit(word: str) -> float | None:
    """The seconds of a unit of time, by its name in the singular or the plural."""
    return SECONDS.get(word, SECONDS.get(word.removesuffix("s")) if len(word) > 3 else None)


def _number(name: str, value: str, number: str, example: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise InputError(
            f"{name} is {value!r}; give a number, or a text as in {example!r}."
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Goals:
    """What one consumer is to do; without any of these, the least prefetch that loses nothing.

    - ``goal``: hold this rate, messages/second, and make up for stalls of a tenth of a second or
      for 5 messages, whichever is more;
    - ``at_most``: never start more than this rate, messages/second, and ``burst`` at once: by
      default what 50 ms allow, at least 1;
    - ``buffer_time``: let a message wait about this long in the client, seconds;
    - ``protect``: take less when handlers slow down because what is behind them is congested.

    They combine: the smallest prefetch that one of them asks for is in force.
    """

    goal: float | None = None
    at_most: float | None = None
    burst: float | None = None
    buffer_time: float | None = None
    protect: bool = False

    def __post_init__(self) -> None:
        read = {"goal": rate_of, "at_most": rate_of, "buffer_time": seconds_of}
        for name, reading in read.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, reading(name, value))
        if self.burst is not None:
            if self.at_most is None:
                raise InputError(
                    "burst is for at_most, which is not given; give both, or no burst."
                )
            burst = above_zero("burst", self.burst)
            if burst < LEAST_BURST:
                raise InputError(f"burst is {burst:g}; give at least 1 message.")
            if burst > MOST_BURST:
                raise InputError(f"burst is {burst:g}; give at most {MOST_BURST:g} messages.")
            object.__setattr__(self, "burst", burst)
        if not isinstance(self.protect, bool):
            raise InputError(f"protect is {self.protect!r}; give True or False.")
        if self.goal is not None and self.at_most is not None and self.goal > self.at_most:
            raise InputError(
                f"goal is {self.goal:g}/s and at_most is {self.at_most:g}/s, which never lets the "
                "goal be reached; give a goal up to at_most, or one of the two."
            )

    def pace(self, *, controlled: bool) -> tuple[float | None, float | None]:
        """The rate that a bucket keeps the consumer to, messages/second, and its burst.

        A controller holds the goal by itself. A goal beside a ceiling makes up for as little as
        that; a burst of None is the usual one.
        """
        if self.goal is None or controlled:
            return self.at_most, self.burst
        burst = max(LEAST_GOAL_BURST, GOAL_STALL_SECONDS * self.goal)
        return self.goal, burst if self.at_most is None else self.burst

    @property
    def ceiling(self) -> float | None:
        """The rate that the openings of slots are paced to, messages/second; None for any."""
        return self.at_most if self.goal is None else self.goal


@dataclass(frozen=True, slots=True)
class GoalsByQueue:
    """The goals of every queue: each one value for all, or a mapping from queues to values.

    ``given`` has them by the words of :class:`Goals`; None is the same as nothing.
    """

    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for word, value in self.given.items():
            for queue in value if _mapped(value) else ():
                if not isinstance(queue, str):
                    raise InputError(
                        f"{word} names the queue {queue!r}; give the names of queues as text."
                    )
        named = {queue for value in self.given.values() if _mapped(value) for queue in value}
        self.of("")
        for queue in named:
            try:
                self.of(queue)
            except InputError as error:
                raise InputError(f"queue {queue}: {error}") from None

    def passed_over(self, queue: str) -> str:
        """What to tell of a queue that the mappings do not name; empty where one of them does.

        It may be misspelt, and has no such goal. One that is named with None is meant so.
        """
        by_queue = {word: value for word, value in self.given.items() if _mapped(value)}
        by_queue.pop("burst", None)
        named = sorted({each for value in by_queue.values() for each in value})
        if not named or queue in named:
            return ""
        return (
            f"consumed without {' and '.join(by_queue)}, given for {', '.join(map(repr, named))} "
            "only; name it there too, with None if that is meant"
        )

    def of(self, queue: str) -> Goals:
        """The goals of consumers on ``queue``."""
        own = {
            name: value.get(queue) if _mapped(value) else value
            for name, value in self.given.items()
        }
        bounds, burst = self.given.get("at_most"), self.given.get("burst")
        if own.get("at_most") is None and _mapped(bounds) and not _mapped(burst):
            own.pop("burst", None)  # of those queues that are bounded
        return Goals(**{name: value for name, value in own.items() if value is not None})


def _mapped(value: object) -> bool:
    return isinstance(value, Mapping)
