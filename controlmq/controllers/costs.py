"""What goals cost, as sentences for the user."""

from __future__ import annotations

from controlmq.goals import Goals
from controlmq.sample import Sample

COSTLY_SHARE = 0.05
"""Share of handlers' time, or of tokens, from which on a cost is worth telling."""

RANDOM_WORK_IDLE_SHARE = 0.6
"""Idle share of handlers below which tokens may be lost because work takes longer now and then:
a burst of 1 loses 7 % of them where handlers are idle for half of their time."""

TOLD_AFTER_SAMPLES = 5
"""Samples in a row for which it must have been so: a single one may be noise."""


class Costs:
    """The costs of goals that have stood for some samples, by the goal and its value.

    Between two messages of a slow rate there are samples without any: they show nothing, and what
    was found before them stands.
    """

    def __init__(self) -> None:
        self._goals = Goals()
        self._seen: dict[str, int] = {}
        self._found: dict[str, str] = {}

    def __call__(
        self,
        sample: Sample,
        goals: Goals,
        in_force: str,
        rate: float | None = None,
        *,
        in_vain: bool = False,
    ) -> dict[str, str]:
        """One sentence for each goal that has cost something in this sample and those before."""
        if goals != self._goals:
            self._goals, self._seen, self._found = goals, {}, {}
        if sample.arrivals or not sample.window_limited:
            self._found = costs(sample, goals, in_force, rate, in_vain=in_vain)
            self._seen = {key: self._seen.get(key, 0) + 1 for key in self._found}
        return {
            key: sentence
            for key, sentence in self._found.items()
            if self._seen[key] >= TOLD_AFTER_SAMPLES
        }


def costs(
    sample: Sample,
    goals: Goals,
    in_force: str,
    rate: float | None = None,
    *,
    in_vain: bool = False,
) -> dict[str, str]:
    """What goals have cost in this sample, by the goal and its value.

    ``in_force`` is the word of the goal whose law decides, and ``rate`` what the consumer is to
    reach or to keep to, in messages/second: its part of a rate that is shared. ``in_vain`` says
    that idle handlers did not get more by more prefetch.
    """
    found: dict[str, str] = {}
    if not sample.window_limited or not sample.arrivals:
        return found
    idle = 1 - sample.busy
    if in_force == "buffer_time" and goals.buffer_time is not None:
        # For the rest of the time a rate keeps them idle, whatever the buffer has.
        lost = idle if rate is None else min(idle, sample.busy * (rate / sample.rate - 1))
        if lost > COSTLY_SHARE and sample.buffer_time > goals.buffer_time / 2:
            found[f"buffer_time {goals.buffer_time:g}"] = (
                f"a buffer time of {goals.buffer_time:g} s leaves handlers idle for "
                f"{100 * lost:.0f} % of their time; give more, or accept the loss"
            )
    # A controller needs no tokens, so they tell nothing of what it reaches. Where protection keeps
    # the prefetch low, more handlers would not help.
    above = goals.goal is not None and sample.rate < (1 - COSTLY_SHARE) * goals.goal
    if above and sample.unused > COSTLY_SHARE and in_force != "protect":
        words = f"the goal of {goals.goal:g}/s is above the {sample.rate:.4g}/s that"
        if idle < COSTLY_SHARE:
            found[f"goal {goals.goal:g}"] = (
                f"{words} {sample.handlers} busy handlers do; give a lower goal or more handlers"
            )
        elif in_vain and in_force == "least":
            why, more = "", "consumers"
            if idle < RANDOM_WORK_IDLE_SHARE:
                why, more = "work that takes longer now and then needs that time, or ", "handlers"
            found[f"goal {goals.goal:g}"] = (
                f"{words} come whatever the prefetch, though handlers are idle for "
                f"{100 * idle:.0f} % of their time: {why}network, broker or this process do no "
                f"more; give a lower goal or more {more}"
            )
    if goals.at_most is not None and goals.ceiling == goals.at_most:  # no lower goal binds
        if idle > COSTLY_SHARE and sample.unused < COSTLY_SHARE:
            found[f"at_most {goals.at_most:g}"] = (
                f"the queue offers more than at_most, {goals.at_most:g}/s: messages wait in the "
                f"queue while handlers are idle for {100 * idle:.0f} % of their time"
            )
    return found
