"""Tables for a terminal: what happened in an interval of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from simulator.metrics import PERCENTILES, Metrics

if TYPE_CHECKING:
    from rich.table import Table

    from simulator.simulation import Simulation

MOST_CHANGES_SHOWN = 40
"""If rules made more changes, half of these are shown from the start and half from the end."""


@dataclass(frozen=True)
class Column:
    """A number for every entity; with ``may_miss`` it is left out if all of them are 0."""

    title: str
    value: Callable[[Any], float]
    may_miss: bool = False

    def shown(self, entities: Sequence[Any]) -> bool:
        """Whether to show it for these entities."""
        return not self.may_miss or any(self.value(each) > 0 for each in entities)


def _column(title: str, key: str, scale: float = 1.0, *, may_miss: bool = False) -> Column:
    read = attrgetter(key)
    return Column(title, lambda entity: scale * read(entity), may_miss)


def _latencies(of: str = "") -> list[Column]:
    """Mean and percentiles in ms, of a latency or of an entity that has one."""
    return [
        _column("mean", f"{of}mean", 1000),
        *(_column(f"p{percent:g}", f"{of}{key}", 1000) for key, percent in PERCENTILES.items()),
    ]


QUEUES = [
    _column("in/s", "publish_rate"),
    _column("out/s", "deliver_rate"),
    _column("length", "mean_length"),
    _column("now", "length"),
    *_latencies("latency."),
]
SETTLED = [
    _column("acked/s", "acknowledge_rate"),
    _column("redelivered/s", "redeliver_rate", may_miss=True),
    _column("dropped/s", "drop_rate", may_miss=True),
    _column("expired/s", "expire_rate", may_miss=True),
    _column("rejected/s", "reject_rate", may_miss=True),
    _column("dead-lettered/s", "dead_letter_rate", may_miss=True),
    _column("growth/s", "growth"),
    _column("kB", "memory", 0.001, may_miss=True),
]
CONSUMERS = [
    _column("prefetch", "prefetch"),
    _column("rate/s", "arrival_rate"),
    _column("in flight", "in_flight"),
    _column("buffer ms", "buffer_time", 1000),
    _column("work ms", "work_time", 1000),
    _column("busy %", "utilisation", 100),
    _column("starved %", "starved", 100),
    _column("failed", "failures", may_miss=True),
    _column("crashes", "crashes", may_miss=True),
    _column("lost", "lost", may_miss=True),
]
PUBLISHERS = [
    _column("sent/s", "publish_rate"),
    _column("confirmed/s", "confirm_rate", may_miss=True),
    _column("refused/s", "refuse_rate", may_miss=True),
    _column("confirm ms", "confirm_time", 1000, may_miss=True),
    _column("blocked %", "blocked", 100),
    _column("late %", "late", 100),
]
TYPES = [_column("messages", "count"), *_latencies()]
BROKER = [
    _column("cores busy %", "core_utilisation", 100),
    _column("disk busy %", "disk_utilisation", 100, may_miss=True),
    _column("kB", "memory", 0.001, may_miss=True),
]


def tables(simulation: Simulation, metrics: Metrics) -> list[Table]:
    """Queues, consumers and publishers, and the other tables if they add something."""
    queues, name, broker = metrics.queues, simulation.scenario.name, simulation.scenario.broker
    found = [
        _table("queue", queues, QUEUES, f"{name}: messages, ms"),
        _table("queue", queues, SETTLED, "what became of them"),
        _table("consumer", metrics.consumers, CONSUMERS),
        _table("publishers", metrics.publishers, PUBLISHERS),
    ]
    if _types_differ_from_queues(simulation):
        found.append(_table("type", metrics.types, TYPES, "from publisher to handler, ms"))
    if metrics.chains:
        found.append(
            _table("type", metrics.chains, TYPES, "since the message they follow from, ms")
        )
    if broker is not None:
        cores = "1 core" if broker.cores == 1 else f"{broker.cores} cores"
        found.append(_table("broker", {cores: metrics.broker}, BROKER))
    since = metrics.time - metrics.interval
    if done := [each for each in changes_by_rules(simulation) if each["time"] > since]:
        found.append(_changes(done))
    return found


def _types_differ_from_queues(simulation: Simulation) -> bool:
    """Whether there are several types, and one is in several queues or two are in the same."""
    types, state = len(simulation.types), simulation.state
    several = state.pairs.size > types or bool((state.queues["pairs"] > 1).any())
    return types > 1 and several


def changes_by_rules(simulation: Simulation) -> list[dict[str, Any]]:
    """What rules did: time, rule, action, target and value of each change."""
    rules = {rule.name: rule for rule in simulation.scenario.rules}
    return [
        {
            "time": time,
            "rule": name,
            "action": rules[name].action,
            "target": rules[name].target,
            "value": rules[name].value,
        }
        for time, name in simulation.changes_by_rules
    ]


def _table(
    of: str, entities: Mapping[str, Any], columns: Sequence[Column], title: str | None = None
) -> Table:
    shown = [column for column in columns if column.shown(list(entities.values()))]
    table = _empty_table(title)
    table.add_column(of, no_wrap=True)
    for column in shown:
        word = max(map(len, column.title.split()))
        table.add_column(column.title, justify="right", min_width=word)
    for name, entity in entities.items():
        table.add_row(name, *(_cell(column.value(entity)) for column in shown))
    return table


def _empty_table(title: str | None) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _cell(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{round(value, 4):.4g}"


def _changes(done: Sequence[Mapping[str, Any]]) -> Table:
    table = _empty_table("what rules did")
    table.add_column("seconds", justify="right")
    table.add_column("rule")
    table.add_column("action")
    half = MOST_CHANGES_SHOWN // 2
    left_out = len(done) - MOST_CHANGES_SHOWN
    for each in done if left_out <= 0 else done[:half]:
        table.add_row(*_change(each))
    if left_out > 0:
        table.add_row("...", "...", f"{left_out} more")
        for each in done[-half:]:
            table.add_row(*_change(each))
    return table


def _change(done: Mapping[str, Any]) -> tuple[str, str, str]:
    value = "" if done["value"] is None else f" {done['value']:g}"
    return f"{done['time']:g}", done["rule"], f"{done['action']} {done['target']}{value}"
