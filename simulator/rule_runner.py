"""Runs the rules of a scenario: evaluates their conditions and makes their changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulator.scenario.rules import CONSUMER_ACTIONS, Rule

if TYPE_CHECKING:
    from simulator.metrics import Metrics
    from simulator.simulation import Simulation


class RuleRunner:
    """Evaluates every rule when it is due, and makes the changes that are due."""

    def __init__(self, simulation: Simulation, rules: Sequence[Rule]) -> None:
        self.simulation = simulation
        self.done: list[tuple[float, str]] = []
        """Time and name of the rule for every change that was made."""
        self._watches = [_Watch(simulation, rule) for rule in rules]

    @property
    def next_stop(self) -> float:
        """The next instant at which a rule is evaluated or a change takes effect."""
        return min(watch.next_stop for watch in self._watches)

    def act(self) -> None:
        """Evaluate every rule that is due now, and make the changes that are due."""
        now = self.simulation.now
        for watch in self._watches:
            if watch.next_stop <= now and watch.act():
                self.done.append((now, watch.rule.name))


class _Watch:
    """One rule: since when its condition holds, and when its next change takes effect."""

    def __init__(self, simulation: Simulation, rule: Rule) -> None:
        from simulator.meter import Meter

        self.simulation = simulation
        self.rule = rule
        self.evaluations = 0
        self.held_since = math.nan
        self.due = math.inf
        self.meter = Meter(simulation)
        self.overhead = {each.name: each.overhead for each in simulation.scenario.consumers}

    @property
    def next_evaluation(self) -> float:
        return (self.evaluations + 1) * self.rule.every

    @property
    def next_stop(self) -> float:
        return min(self.next_evaluation, self.due)

    def act(self) -> bool:
        """Evaluate the rule and make changes, as far as due; returns whether anything changed."""
        now = self.simulation.now
        changed = self._change_if_due(now)
        if self.next_evaluation <= now:
            self.evaluations += 1
            self._evaluate(now)
            changed = self._change_if_due(now) or changed
        return changed

    def _evaluate(self, now: float) -> None:
        value = self._reading(self.meter.read())
        if self.due < math.inf or not self.rule.holds(value):
            self.held_since = math.nan
            return
        if math.isnan(self.held_since):
            self.held_since = now
        if now - self.held_since >= self.rule.hold:
            self.held_since = math.nan
            self.due = now + self.rule.takes

    def _change_if_due(self, now: float) -> bool:
        """Make the change if it is due; returns whether anything changed."""
        if self.due > now:
            return False
        self.due = math.inf
        rule, simulation = self.rule, self.simulation
        of_consumers = rule.action in CONSUMER_ACTIONS
        there = (simulation.active if of_consumers else simulation.active_publishers)(rule.target)
        if rule.action.startswith("add-"):
            if rule.at_most is not None and len(there) >= rule.at_most:
                return False
            add = simulation.add_consumer if of_consumers else simulation.add_publishers
            add(rule.target)
        elif rule.action.startswith("remove-"):
            if len(there) <= rule.at_least:
                return False
            remove = simulation.remove_consumer if of_consumers else simulation.remove_publishers
            remove(there[-1])
        else:
            assert rule.value is not None
            for name in there:
                if rule.action == "set-publish-rate":
                    simulation.set_publish_rate(rule.value, name)
                elif rule.action == "set-prefetch":
                    simulation.set_prefetch(name, rule.value)
                else:
                    simulation.set_service_time(name, rule.value)
        return True

    def _reading(self, metrics: Metrics) -> float:
        """The value of the metric; nan, which is beyond no threshold, if there were no messages."""
        metric, of = self.rule.metric, self.rule.of
        row = getattr(metrics, self.rule.measures)[of]
        if metric == "latency":
            return float(row.latency.mean)
        if metric == "response-time":
            return float(row.buffer_time + row.work_time + self.overhead[of])
        return float(getattr(row, metric.replace("-", "_")))
