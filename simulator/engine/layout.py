"""Lays a scenario out in rows, and adds rows to a run when entities join it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.engine import rows
from simulator.engine.draws import source
from simulator.engine.factors import phases
from simulator.engine.messages import AT_BROKER, NONE, new_lines
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, leaves, new_timers
from simulator.scenario.changes import Change
from simulator.scenario.consumers import ACKNOWLEDGEMENTS, Consumer
from simulator.scenario.distributions import Duration, Size
from simulator.scenario.links import Link
from simulator.scenario.message_paths import MessagePaths
from simulator.scenario.publishers import Publishers
from simulator.scenario.queues import Queue
from simulator.scenario.scenario import Scenario

OUTCOMES = {"requeue": rows.RETURN, "reject": rows.REJECT, "no-answer": rows.SILENT}

GROWING = (
    *("slots", "sources", "replayed", "publishers", "choices", "phases"),
    *("ports", "queues", "consumers", "handlers", "sends", "processes"),
)
TYPES = {name: SimulationState.ROWS[name] for name in GROWING}
"""The arrays that get new rows when an entity joins a run."""


class Layout:
    """Numbers lines, slots, sources and rows as entities are added, after those of a run."""

    def __init__(self, scenario: Scenario, seed: int, state: SimulationState | None = None) -> None:
        self.seed = seed
        self.paths: MessagePaths = scenario.message_paths()
        self.types = {name: number for number, name in enumerate(self.paths.types)}
        self.queues = {queue.name: index for index, queue in enumerate(scenario.queues)}
        self.links = {link.name: link for link in scenario.links}
        self.resources = {each.name: index for index, each in enumerate(scenario.resources)}
        first = len(self.paths.pairs) + len(self.paths.chain_rows)
        limited = [each.name for each in scenario.consumers if each.resource is not None]
        self.work_rows = {name: first + number for number, name in enumerate(limited)}
        self.broker = scenario.broker
        self.state = state
        self.new: dict[str, list[Any]] = {name: [] for name in TYPES}
        self.before = {name: 0 if state is None else getattr(state, name).size for name in TYPES}
        self.lines = AT_BROKER + 1 if state is None else state.lines.size

    def add_publishers(self, group: Publishers, like: str) -> list[int]:
        """Add rows for publishers that send what ``like`` sends; returns their numbers."""
        first_choice, up_to = self._count("choices"), 0.0
        kinds = self.paths.published[like]
        for number, (message, kind) in enumerate(zip(group.kinds, kinds, strict=True)):
            up_to += message.probability
            # The probabilities add up to 1 only up to rounding.
            last = number + 1 == len(kinds)
            size = self._size(message.size, f"publishers/{group.name}/size/{number}")
            self.new["choices"].append((2.0 if last else up_to, kind, size))
        first_phase, count = self._phases(group.schedule)
        added = []
        for number in range(group.count):
            owner = f"publishers/{group.name}/{number}"
            row = self._new("publishers")
            row["slot"] = self.slot(rows.PUBLISH, self._count("publishers") - 1)
            row["every"] = self.source(group.every, f"{owner}/every")
            # Publishers do not start in step: each begins at a random point of its cycle.
            phase = source(Duration(0.0), self.seed, f"{owner}/phase")[0] / 2**64
            row["left"] = phase * group.every.mean
            if group.every.values:
                row["left"] = self._replay_from_second(int(row["every"]))
            row["first_choice"], row["choices"] = first_choice, len(group.kinds)
            row["first_phase"], row["phases"] = first_phase, count
            row["wanted_rate"] = 1.0
            if len(group.kinds) > 1:
                row["choose"] = self.source(Duration(0.0), f"{owner}/kind")
            row["port"] = self._port(group.link, owner)
            if group.confirms is not None:
                row["window"] = group.confirms
                row["confirm_line"] = self.line()
                row["confirm_slot"] = self.slot(rows.CONFIRM, self._count("publishers") - 1)
                link = self._link(group.link)
                row["confirm_jitter"] = self._jitter(link, f"{owner}/jitter/confirm")
            added.append(self._count("publishers") - 1)
        return added

    def add_queue(self, queue: Queue) -> None:
        """Add a row for a queue."""
        index = self._count("queues")
        row = self._new("queues")
        row["line"] = self.line(queue.priorities)
        row["priorities"] = queue.priorities
        row["max_length"] = rows.NO_BOUND if queue.max_length is None else queue.max_length
        row["drop_head"] = queue.overflow == "drop-head"
        row["ttl"] = np.inf
        if queue.message_ttl is not None:
            row["ttl"] = queue.message_ttl
            row["expire_slot"] = self.slot(rows.EXPIRE, index)
        row["visibility"] = np.inf
        if queue.visibility_timeout is not None:
            row["visibility"] = queue.visibility_timeout
            row["appear_slot"] = self.slot(rows.APPEAR, index)
            row["hidden_line"] = self.line()
        row["in_order"], row["next_index"] = queue.in_order, 1
        row["slowdown"] = queue.slowdown
        limit = queue.delivery_limit
        row["delivery_limit"] = rows.NO_BOUND if limit is None else limit
        row["dead"] = NONE
        if index in self.paths.circle:
            row["visited"] = np.uint64(1) << np.uint64(self.paths.circle[index])
        if queue.dispatch == "random":
            row["random"] = True
            row["choose"] = self.source(Duration(0.0), f"queues/{queue.name}/choose")
        row["durable"], row["write_first"] = queue.durable, queue.write_before_delivery
        row["first_ready"] = row["last_ready"] = NONE
        row["process"] = self._process()

    def add_consumer(self, consumer: Consumer, like: str) -> int:
        """Add rows for a consumer that sends what ``like`` sends; returns the number of its row."""
        owner, index = f"consumers/{consumer.name}", self._count("consumers")
        row, link = self._new("consumers"), self._link(consumer.link)
        row["queue"] = self.queues[consumer.queue]
        for direction, event in (("down", rows.DELIVER), ("up", rows.ACKNOWLEDGE)):
            row[f"{direction}_line"] = self.line()
            row[f"{direction}_slot"] = self.slot(event, index)
            row[f"{direction}_jitter"] = self._jitter(link, f"{owner}/jitter/{direction}")
        row["delay"], row["seconds_per_byte"] = _speed(link)
        row["buffer_line"], row["done_line"], row["lost_line"] = (self.line() for _ in range(3))
        row["work"] = self.source(consumer.work, f"{owner}/work")
        row["overhead"] = consumer.overhead
        row["release_slot"] = self.slot(rows.RELEASE, index)
        row["held_line"] = self.line()
        row["wanted_prefetch"] = consumer.prefetch
        row["slot_at"] = row["least_since"] = -1.0
        row["listening"] = row["wanted"] = row["up"] = True
        row["crash_slot"] = NONE
        row["first_phase"], row["phases"] = self._phases(consumer.work_schedule)
        row["acknowledge"] = ACKNOWLEDGEMENTS.index(consumer.acknowledge)
        row["batch"], row["multiple"] = consumer.ack_batch, consumer.ack_multiple
        row["on_failure"] = OUTCOMES[consumer.on_failure]
        if consumer.failure:
            row["failure"] = consumer.failure
            row["fail"] = self.source(Duration(0.0), f"{owner}/failure")
        row["resource"] = NONE
        if consumer.resource is not None:
            row["resource"] = self.resources[consumer.resource]
            row["work_row"] = self.work_rows[like]
        self._add_handlers(row, index, consumer.handlers)
        self._add_crashes(row, index, consumer)
        self._add_sends(row, consumer, like)
        return index

    def _add_handlers(self, row: Any, consumer: int, handlers: int) -> None:
        row["first_handler"] = row["idle"] = self._count("handlers")
        row["handlers"] = handlers
        row["last_handler"] = row["first_handler"] + handlers
        for number in range(handlers):
            handler = self._count("handlers")
            slot = self.slot(rows.FINISH, handler)
            next_idle = handler + 1 if number + 1 < handlers else NONE
            self.new["handlers"].append((slot, consumer, NONE, next_idle, 0.0, 0.0))

    def _add_crashes(self, row: Any, index: int, consumer: Consumer) -> None:
        if consumer.crash_every is None or consumer.restart is None:
            return
        owner = f"consumers/{consumer.name}"
        row["crash"] = self.source(consumer.crash_every, f"{owner}/crash")
        row["restart"] = self.source(consumer.restart, f"{owner}/restart")
        row["crash_slot"] = self.slot(rows.CRASH, index)
        row["notice_slot"] = self.slot(rows.NOTICE, index)
        row["restart_slot"] = self.slot(rows.RESTART, index)

    def _add_sends(self, row: Any, consumer: Consumer, like: str) -> None:
        owner = f"consumers/{consumer.name}"
        row["first_send"], row["sends"] = self._count("sends"), len(consumer.sends)
        if not consumer.sends:
            return
        row["port"] = self._port(consumer.link, owner)
        kinds = self.paths.sent[like]
        for number, (send, kind) in enumerate(zip(consumer.sends, kinds, strict=True)):
            on = NONE if send.on is None else self.types[send.on]
            chance = self.source(Duration(0.0), f"{owner}/sends/{number}")
            size = self._size(send.size, f"{owner}/size/{number}")
            self.new["sends"].append((on, kind, send.probability, chance, size))

    def _port(self, link_name: str | None, owner: str) -> int:
        row, link = self._new("ports"), self._link(link_name)
        row["direct"] = link_name is None
        row["process"] = self._process()
        if link_name is not None:
            row["line"] = self.line()
            row["slot"] = self.slot(rows.REACH, self._count("ports") - 1)
            row["jitter"] = self._jitter(link, f"{owner}/jitter/out")
            row["delay"], row["seconds_per_byte"] = _speed(link)
        return self._count("ports") - 1

    def _process(self) -> int:
        if self.broker is None:
            return NONE
        index = self._count("processes")
        slot = self.slot(rows.WORKED, index)
        self.new["processes"].append((self.line(2), slot, NONE, False, NONE))
        return index

    def _phases(self, changes: Sequence[Change]) -> tuple[int, int]:
        pieces = phases(changes)
        first = self._count("phases")
        self.new["phases"] += pieces
        return first, len(pieces)

    def _jitter(self, link: Link, owner: str) -> int:
        return NONE if link.jitter is None else self.source(link.jitter, owner)

    def _size(self, size: int | Size, owner: str) -> int:
        return self.source(size, owner) if isinstance(size, Size) else NONE

    def _link(self, name: str | None) -> Link:
        return Link("none") if name is None else self.links[name]

    def _count(self, name: str) -> int:
        return self.before[name] + len(self.new[name])

    def _new(self, name: str) -> Any:
        row = np.zeros(1, TYPES[name])[0]
        self.new[name].append(row)
        return row

    def line(self, count: int = 1) -> int:
        """Add ``count`` lines; returns the number of the first."""
        self.lines += count
        return self.lines - count

    def slot(self, event: int, entity: int) -> int:
        """Add a timer for an event of an entity; returns its slot."""
        self.new["slots"].append((event, entity))
        return self._count("slots") - 1

    def source(self, value: Duration | Size, owner: str) -> int:
        """Add a source of random values with its own stream; returns its number."""
        first = self._count("replayed")
        self.new["replayed"] += value.values or ()
        self.new["sources"].append(source(value, self.seed, owner, first))
        return self._count("sources") - 1

    def _replay_from_second(self, index: int) -> float:
        """Take the first value of a replay, which then continues with the second."""
        place = index - self.before["sources"]
        *row, first, count, _ = self.new["sources"][place]
        self.new["sources"][place] = (*row, first, count, 1 % count)
        return float(self.new["replayed"][first - self.before["replayed"]])

    def rows_of(self, name: str) -> Any:
        """All rows of one kind, those of the run first."""
        new = table(self.new[name], TYPES[name])
        return new if self.state is None else np.concatenate([getattr(self.state, name), new])

    def extended(self) -> SimulationState:
        """The state of the run with the added rows, which take effect when it continues."""
        assert self.state is not None
        arrays = {name: self.rows_of(name) for name in TYPES}
        lines = new_lines(self.lines)
        lines[: self.state.lines.size] = self.state.lines
        clock = self.state.clock.copy()
        set_sizes(clock[0], arrays)
        clock[0]["changed"] = True
        due = np.full(arrays["slots"].size, NEVER)
        before = self.before["slots"]
        width = int(self.state.clock[0]["leaves"])
        due[:before] = self.state.timers["due"][width : width + before]
        state: SimulationState = self.state.replaced(
            clock=clock, timers=new_timers(due), lines=lines, **arrays
        )
        return state


def _speed(link: Link) -> tuple[float, float]:
    """Seconds that a message takes one way, and that each of its bytes occupies the connection."""
    return link.round_trip / 2, 1 / link.bytes_per_second if link.bytes_per_second else 0.0


def table(values: Sequence[Any], dtype: np.dtype[Any]) -> Any:
    """Rows of a type, with zeros between their fields, so that runs can be compared bytewise."""
    made = np.zeros(len(values), dtype)
    for row, value in enumerate(values):
        made[row] = value
    return made


def set_sizes(clock: Any, arrays: dict[str, Any]) -> None:
    """Note the sizes of the tables that grow, for compiled code."""
    clock["leaves"] = leaves(arrays["slots"].size)
    clock["publishers"] = arrays["publishers"].size
    clock["consumers"] = arrays["consumers"].size
