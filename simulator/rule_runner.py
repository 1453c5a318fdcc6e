"""Rules at work: they look at metrics while a scenario runs, and change it."""

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
    """Looks at every rule when its time has come, and does what is due."""

    def __init__(self, simulation: Simulation, rules: Sequence[Rule]) -> None:
        self.simulation = simulation
        self.done: list[tuple[float, str]] = []
        """When which rule changed the system."""
        self._watches = [_Watch(simulation, rule) for rule in rules]

    @property
    def next_stop(self) -> float:
        """The next instant at which a rule has to look or a change is in force."""
        return min(watch.next_stop for watch in self._watches)

    def act(self) -> None:
        """Let every rule whose time is now look and act."""
        now = self.simulation.now
        for watch in self._watches:
            if watch.next_stop <= now and watch.act():
                self.done.append((now, watch.rule.name))


class _Watch:
    """One rule: how long its condition has held, and the changes it has under way."""

    def __init__(self, simulation: Simulation, rule: Rule) -> None:
        from simulator.meter import Meter

        self.simulation = simulation
        self.rule = rule
        self.looks = 0
        self.held_since = math.nan
        self.under_way: list[float] = []
        self.meter = Meter(simulation)
        self.overhead = {each.name: each.overhead for each in simulation.scenario.consumers}

    @property
    def next_stop(self) -> float:
        look = (self.looks + 1) * self.rule.every
        return min(look, self.under_way[0]) if self.under_way else look

    def act(self) -> bool:
        """Look if it is time to, change the system if it is; whether anything changed."""
        now = self.simulation.now
        changed = False
        while self.under_way and self.under_way[0] <= now:
            heapq.heappop(self.under_way)
            changed = self._change() or changed
        if (self.looks + 1) * self.rule.every <= now:
            self.looks += 1
            self._look(now)
            if self.under_way and self.under_way[0] <= now:
                heapq.heappop(self.under_way)
                changed = self._change() or changed
        return changed

    def _look(self, now: float) -> None:
        value = self._reading(self.meter.read())
        if self.under_way or not self.rule.holds(value):
            self.held_since = math.nan
            return
        if math.isnan(self.held_since):
            self.held_since = now
        if now - self.held_since >= self.rule.hold:
            self.held_since = math.nan
            heapq.heappush(self.under_way, now + self.rule.takes)

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
        """The value of the metric; nan, which no threshold holds for, where nothing moved."""
        metric, of = self.rule.metric, self.rule.of
        row = getattr(metrics, self.rule.measures)[of]
        if metric == "latency":
            return float(row.latency.mean)
        if metric == "response-time":
            return float(row.buffer_time + row.work_time + self.overhead[of])
        return float(getattr(row, metric.replace("-", "_")))
