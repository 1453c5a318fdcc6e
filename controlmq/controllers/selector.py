"""Combines several goals: the smallest prefetch that any law asks for wins (override control).

It does not choose among tuned controllers: :mod:`controlmq.experiments.tuning_search` does.
"""

from __future__ import annotations

from controlmq.controllers.buffer_time import BufferTime
from controlmq.controllers.costs import Costs
from controlmq.controllers.least import LeastPrefetch
from controlmq.controllers.limits import Limits
from controlmq.controllers.probe import Probe
from controlmq.controllers.protect import Protect
from controlmq.goals import Goals
from controlmq.loop import Controller
from controlmq.sample import Sample


class Selector:
    """One law for each goal; the smallest prefetch wins.

    Every law goes on from the prefetch in force, which the sample carries, or stands still while
    something else is in force. So none winds up while another one decides, and a change from one
    law to another makes no bump. ``in_force`` names the law whose prefetch it is.

    ``goals`` may be set at any time; laws of goals that stay keep what they have learnt. Where
    messages are to wait for some time, the law for that takes the place of the least prefetch; so
    does a ``controller`` that holds the rate, which may be replaced at any time.
    """

    def __init__(self, goals: Goals, limits: Limits, controller: Controller | None = None) -> None:
        self._limits = limits
        self.controller = controller
        self.in_force = ""
        self.told: dict[str, str] = {}
        """What goals cost at present, by the goal and its value, and what a controller tells."""
        self._costs = Costs()
        self._probe = Probe()
        self._least = LeastPrefetch(limits)
        self._buffer_time: BufferTime | None = None
        self._protect: Protect | None = None
        self.goals = goals

    @property
    def limits(self) -> Limits:
        """What its own laws keep the prefetch within; a controller has limits of its own."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        for law in (self._least, self._buffer_time, self._protect):
            if law is not None:
                law.limits = limits

    @property
    def goals(self) -> Goals:
        """What the consumer is to do."""
        return self._goals

    @goals.setter
    def goals(self, goals: Goals) -> None:
        self._goals = goals
        self._least.rate = goals.ceiling
        # A buffer of the size that is wanted keeps handlers busy by itself.
        self._least.capped = goals.buffer_time is None
        if goals.buffer_time is None:
            self._buffer_time = None
        elif self._buffer_time is None:
            self._buffer_time = BufferTime(self.limits, goals.buffer_time)
        else:
            self._buffer_time.buffer_time = goals.buffer_time
        if self._buffer_time is not None:
            self._buffer_time.rate = goals.ceiling
        if not goals.protect:
            self._protect = None
        elif self._protect is None:
            self._protect = Protect(self.limits)

    def share(self, rate: float) -> None:
        """The ceiling is shared: find the prefetch for this part of it, messages/second."""
        self._least.rate = rate
        if self._buffer_time is not None:
            self._buffer_time.rate = rate

    @property
    def laws(self) -> dict[str, Controller]:
        """The laws that have a say, by the words of their goals."""
        waits = self._goals.buffer_time is not None and self._goals.ceiling is None
        laws: dict[str, Controller | None] = {
            "goal": self.controller,
            "least": None if self.controller is not None or waits else self._least,
            "buffer_time": self._buffer_time,
            "protect": self._protect,
        }
        return {word: law for word, law in laws.items() if law is not None}

    def __call__(self, sample: Sample, goal: float) -> float:
        """The least prefetch that any law asks for."""
        asked = {word: law(sample, goal) for word, law in self.laws.items()}
        tried = self._probe(sample, self._least.rate)
        if tried is not None and self.controller is None:
            for word in asked.keys() - {"protect"}:
                asked[word] = self.limits.clamp(tried)
        self.in_force = min(asked, key=lambda word: asked[word])
        self.told = {
            **self._costs(
                sample,
                self._goals,
                self.in_force,
                self._least.rate,
                in_vain=self._least.grew_in_vain,
            ),
            **getattr(self.controller, "told", {}),
        }
        return asked[self.in_force]
