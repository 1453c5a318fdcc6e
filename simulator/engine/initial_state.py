"""The state of a scenario at time 0: the rows of its entities, and the tables that stay fixed."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.engine import rows
from simulator.engine.latency_bins import BINS
from simulator.engine.layout import TYPES, Layout, set_sizes, table
from simulator.engine.messages import MESSAGE, NONE, new_lines, with_room
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, new_timers
from simulator.scenario.broker import Broker
from simulator.scenario.distributions import Size
from simulator.scenario.scenario import Scenario

FIRST_POOL_ROWS = 1024
"""Messages that a run starts with room for; the pool doubles when it is full."""


def new_state(scenario: Scenario, seed: int) -> SimulationState:
    """A scenario at time 0: nothing published yet, every handler idle."""
    layout = Layout(scenario, seed)
    for group in scenario.publishers:
        layout.add_publishers(group, group.name)
    for consumer in scenario.consumers:
        layout.add_consumer(consumer, consumer.name)
    for queue in scenario.queues:
        layout.add_queue(queue)
    return _Tables(scenario, layout).state()


class _Tables:
    """The tables that do not change while a scenario runs (kinds, routes, costs), and the clock."""

    def __init__(self, scenario: Scenario, layout: Layout) -> None:
        self.scenario, self.layout, self.paths = scenario, layout, layout.paths
        self.routes: dict[tuple[int, ...], int] = {}

    def state(self) -> SimulationState:
        kinds = self._kinds()
        dead = self._dead()
        clock = self._clock()
        pairs = self.paths.pairs
        noted = len(pairs) + len(self.paths.chain_rows) + len(self.layout.work_rows)
        arrays = {name: self.layout.rows_of(name) for name in TYPES}
        places = np.searchsorted([queue for queue, _ in pairs], range(arrays["queues"].size + 1))
        arrays["queues"]["first_pair"], arrays["queues"]["pairs"] = places[:-1], np.diff(places)
        for queue, row in self.dead_rows.items():
            arrays["queues"][queue]["dead"] = row
        lengths = [len(route) for route in self.routes]
        set_sizes(clock[0], arrays)
        lines = new_lines(self.layout.lines)
        return SimulationState(
            clock=clock,
            timers=new_timers(np.full(arrays["slots"].size, NEVER)),
            pool=with_room(np.zeros(0, MESSAGE), lines, FIRST_POOL_ROWS),
            lines=lines,
            kinds=kinds,
            routes=np.array(
                list(zip(np.cumsum([0, *lengths[:-1]]), lengths, strict=True)), rows.ROUTE_ROW
            ),
            targets=np.array([queue for route in self.routes for queue in route], np.int64),
            dead=dead.ravel(),
            costs=self._costs(self.scenario.broker or Broker()),
            pairs=np.array([type_ for _, type_ in pairs], np.int64),
            resources=table(
                [(each.servers, NONE, NONE) for each in self.scenario.resources], rows.RESOURCE
            ),
            latencies=np.zeros(noted, rows.LATENCY),
            bins=np.zeros(noted * BINS, np.int64),
            **arrays,
        )

    def _route(self, targets: tuple[int, ...]) -> int:
        return self.routes.setdefault(targets, len(self.routes))

    def _kinds(self) -> Any:
        made = []
        chains = self.paths.chain_rows
        for kind in self.paths.kinds:
            message, route = kind.message, self._route(kind.targets)
            size = 0 if isinstance(message.size, Size) else message.size
            chain = chains.get(kind.type, NONE)
            made.append((kind.type, route, size, message.priority, chain, message.persistent, 0))
        return table(made, rows.KIND)

    def _dead(self) -> Any:
        self.dead_rows: dict[int, int] = {}
        for queue, _ in self.paths.dead:
            self.dead_rows.setdefault(queue, len(self.dead_rows))
        table = np.full((max(len(self.dead_rows), 1), len(self.paths.kinds)), NONE, np.int64)
        for (queue, kind), targets in self.paths.dead.items():
            table[self.dead_rows[queue], kind] = self._route(targets)
        return table

    def _clock(self) -> Any:
        broker = self.scenario.broker
        clock = np.zeros(1, rows.CLOCK)
        row = clock[0]
        row["changed"] = True
        row["unserved"] = NONE
        row["kinds"] = len(self.paths.kinds)
        row["first_process"] = row["last_process"] = NONE
        row["credit"] = row["memory_limit"] = rows.NO_BOUND
        sends = max(len(consumer.sends) for consumer in self.scenario.consumers)
        # A message with its row for the confirm or the disk, its copies, or its sends.
        row["reserve"] = 2 + max(sends, *(len(route) for route in self.routes))
        if broker is not None:
            row["cores"] = row["idle_cores"] = broker.cores
            row["credit"] = broker.credit
            row["more_credit"] = broker.credit - broker.more_credit_after
            if broker.memory_limit is not None:
                row["memory_limit"] = broker.memory_limit
            if broker.disk_write or broker.disk_per_byte:
                row["disk"] = True
                row["disk_slot"] = self.layout.slot(rows.WRITTEN, 0)
                row["disk_line"], row["disk_batch"] = self.layout.line(), self.layout.line()
                row["disk_write"] = broker.disk_write
                row["disk_per_byte"] = broker.disk_per_byte
        return clock

    def _costs(self, broker: Broker) -> Any:
        costs = np.zeros(rows.STORED + 1, rows.COST)
        costs[rows.ROUTE] = broker.publish, broker.per_byte, broker.copy
        costs[rows.ENTER] = broker.enqueue, 0.0, 0.0
        costs[rows.SEND] = broker.deliver, broker.per_byte, 0.0
        costs[rows.SETTLE] = broker.acknowledge, 0.0, 0.0
        return costs
