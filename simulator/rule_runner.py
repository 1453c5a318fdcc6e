"""Runs the rules of a scenario: evaluates their conditions and makes their changes."""

from __future__ import annotations

import heapq
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
    """One rule: since when its condition holds, and its changes that take effect later."""

    def __init__(self, simulation: Simulation, rule: Rule) -> None:
        from simulator.meter import Meter

        self.simulation = simulation
        self.rule = rule
        self.evaluations = 0
        self.held_since = math.nan
        self.pending: list[float] = []
        self.meter = Meter(simulation)
        self.overhead = {each.name: each.overhead for each in simulation.scenario.consumers}

    @property
    def next_stop(self) -> float:
        evaluation = (self.evaluations + 1) * self.rule.every
        return min(evaluation, self.pending[0]) if self.pending else evaluation

    def act(self) -> bool:
        """Evaluate the rule and make changes, as far as due; returns whether anything changed."""
        now = self.simulation.now
        changed = False
        while self.pending and self.pending[0] <= now:
            heapq.heappop(self.pending)
            changed = self._change() or changed
        if (self.evaluations + 1) * self.rule.every <= now:
            self.evaluations += 1
            self._evaluate(now)
            if self.pending and self.pending[0] <= now:
                heapq.heappop(self.pending)
                changed = self._change() or changed
        return changed

    def _evaluate(self, now: float) -> None:
        value = self._reading(self.meter.read())
        if self.pending or not self.rule.holds(value):
            self.held_since = math.nan
            return
        if math.isnan(self.held_since):
            self.held_since = now
        if now - self.held_since >= self.rule.hold:
            self.held_since = math.nan
            heapq.heappush(self.pending, now + self.rule.takes)

    def _change(self) -> bool:
        rule, simulation = self.rule, self.simulation
        of_consumers = rule.action in CONSUMER_ACTIONS
        there = (simulation.active if of_consumers else simulation.active_publishers)(rule.target)
        if rule.action in ("add-consumer", "add-publishers"):
            if rule.at_most is not None and len(there) >= rule.at_most:
                return False
            if rule.action == "add-consumer":
                simulation.add_consumer(rule.target)
            else:
                simulation.add_publishers(rule.target)
        elif rule.action in ("remove-consumer", "remove-publishers"):
            if len(there) <= rule.at_least:
                return False
            if rule.action == "remove-consumer":
                simulation.remove_consumer(there[-1])
            else:
                simulation.remove_publishers(there[-1])
        else:
            assert rule.value is not None
            for name in there:
                if rule.action == "set-prefetch":
                    simulation.set_prefetch(name, rule.value)
                elif rule.action == "set-service-time":
                    simulation.set_service_time(name, rule.value)
                else:
                    simulation.set_publish_rate(rule.value, name)
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
