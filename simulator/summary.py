"""Tables for a terminal: what happened in an interval of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    """``scale`` times the attribute ``key`` of every entity.

    With ``may_miss`` the column is left out if all values are 0.
    """

    title: str
    key: str
    scale: float = 1.0
    may_miss: bool = False

    def value(self, entity: Any) -> float:
        """The number of one entity."""
        return self.scale * float(attrgetter(self.key)(entity))

    def shown(self, entities: Sequence[Any]) -> bool:
        """Whether to show it for these entities."""
        return not self.may_miss or any(self.value(each) > 0 for each in entities)


def _latencies(of: str = "") -> list[Column]:
    """Mean and percentiles in ms, of a latency or of an entity that has one."""
    return [
        Column("mean", f"{of}mean", 1000),
        *(Column(f"p{percent:g}", f"{of}{key}", 1000) for key, percent in PERCENTILES.items()),
    ]


QUEUES = [
    Column("in/s", "publish_rate"),
    Column("out/s", "deliver_rate"),
    Column("length", "mean_length"),
    Column("now", "length"),
    *_latencies("latency."),
]
SETTLED = [
    Column("acked/s", "acknowledge_rate"),
    Column("redelivered/s", "redeliver_rate", may_miss=True),
    Column("dropped/s", "drop_rate", may_miss=True),
    Column("expired/s", "expire_rate", may_miss=True),
    Column("rejected/s", "reject_rate", may_miss=True),
    Column("dead-lettered/s", "dead_letter_rate", may_miss=True),
    Column("growth/s", "growth"),
    Column("kB", "memory", 0.001, may_miss=True),
]
CONSUMERS = [
    Column("prefetch", "prefetch"),
    Column("rate/s", "arrival_rate"),
    Column("in flight", "in_flight"),
    Column("buffer ms", "buffer_time", 1000),
    Column("work ms", "work_time", 1000),
    Column("busy %", "utilisation", 100),
    Column("starved %", "starved", 100),
    Column("failed", "failures", may_miss=True),
    Column("crashes", "crashes", may_miss=True),
    Column("lost", "lost", may_miss=True),
]
PUBLISHERS = [
    Column("sent/s", "publish_rate"),
    Column("confirmed/s", "confirm_rate", may_miss=True),
    Column("refused/s", "refuse_rate", may_miss=True),
    Column("confirm ms", "confirm_time", 1000, may_miss=True),
    Column("blocked %", "blocked", 100),
    Column("late %", "late", 100),
]
TYPES = [Column("messages", "count"), *_latencies()]
BROKER = [
    Column("cores busy %", "core_utilisation", 100),
    Column("disk busy %", "disk_utilisation", 100, may_miss=True),
    Column("kB", "memory", 0.001, may_miss=True),
]


def tables(simulation: Simulation, metrics: Metrics) -> list[Table]:
    """Queues, consumers and publishers; then what adds something.

    Types of messages if they differ from the queues, what consumers pass on, the broker if its work
    takes time, and what rules did.
    """
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
        {"time": time, "rule": name}
        | {key: getattr(rules[name], key) for key in ("action", "target", "value")}
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
    rows = [_change(each) for each in done]
    half, left_out = MOST_CHANGES_SHOWN // 2, len(done) - MOST_CHANGES_SHOWN
    if left_out > 0:
        rows[half:-half] = [("...", "...", f"{left_out} more")]
    for row in rows:
        table.add_row(*row)
    return table


def _change(done: Mapping[str, Any]) -> tuple[str, str, str]:
    value = "" if done["value"] is None else f" {done['value']:g}"
    return f"{done['time']:g}", done["rule"], f"{done['action']} {done['target']}{value}"
