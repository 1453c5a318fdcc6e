"""A simulation of a scenario: it runs to any instant, can be changed there, and runs on."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from controlmq.checks import above_zero, finite, not_negative, prefetch_count
from controlmq.errors import InputError
from simulator.engine.event_loop import FINISHED, STANDING_STILL, run_until
from simulator.engine.initial_state import new_state
from simulator.engine.latency_bins import BINS
from simulator.engine.layout import Layout
from simulator.engine.messages import NONE, with_room
from simulator.engine.rows import AFTER_PROCESSING
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER
from simulator.metrics import Latency
from simulator.rule_runner import RuleRunner
from simulator.scenario import checks
from simulator.scenario.consumers import Consumer
from simulator.scenario.knobs import fastest, rate_factor, service_time, stretch
from simulator.scenario.publishers import Publishers
from simulator.scenario.scenario import Scenario

MOST_MESSAGES_IN_SYSTEM = 2**25
"""34 million messages take 3 GB. A queue without a bound stops the run here, before it uses up the
machine's memory."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages since time 0, over all queues, and where they are now.

    A message counts once for every queue it reached. None is lost: ``published`` is
    ``dropped + expired + queued + delivered - returned``, and ``delivered`` is ``acknowledged +
    rejected + returned + in_flight + hidden``. ``dead_lettered`` of those dropped, expired and
    rejected were sent on, each to one or more queues. A copy counts as published when it enters
    its queue. A copy that would return to a queue that dead-lettered it is discarded before it
    enters, unless a consumer has rejected it since, and counts only as ``cycled``. ``hidden`` are
    those that no consumer holds and that are not visible again yet, minus those that are visible
    again while a consumer still holds them.
    """

    published: int
    dropped: int
    queued: int
    delivered: int
    acknowledged: int
    in_flight: int
    expired: int
    returned: int
    rejected: int
    dead_lettered: int
    cycled: int
    hidden: int


@dataclass(frozen=True, slots=True)
class ConsumerTotals:
    """What one consumer did since time 0.

    ``arrivals`` messages were handed to its business logic and ``finished`` messages left it.
    Times are in seconds: ``starved_time`` with room in the window and an empty queue,
    ``in_flight_time`` summed over messages in flight, ``held_time`` over held acks, ``open_time``
    over open slots, ``work_time`` over finished messages, ``buffer_time`` over arrivals,
    ``busy_time`` over handlers. ``acks_given`` are those of handlers, held ones included.
    ``turnaround_time`` is summed over the ``turnarounds``: messages whose slot was filled as soon
    as the broker knew that it was free. ``openings_awaited`` and ``starts_awaited`` are tokens of
    the buckets that an ack or a message was waiting for, ``gated_time`` the time in seconds that
    messages were here while the next token was not. ``batch_time`` is summed over finished messages
    that waited until their batch was acknowledged.
    ``in_flight_time`` is the broker's: what is under way in either direction is in it.
    """

    arrivals: int
    finished: int
    acks_given: int
    starved_time: float
    in_flight_time: float
    held_time: float
    open_time: float
    work_time: float
    buffer_time: float
    busy_time: float
    turnaround_time: float
    turnarounds: int
    openings_awaited: int
    starts_awaited: int
    gated_time: float
    batch_time: float


class Simulation:
    """Runs a scenario from time 0; the same scenario and seed give the same run, bit for bit.

    Stopping a run and continuing it does not change it. Changes take effect at the instant that
    the run has reached.
    """

    def __init__(self, scenario: Scenario, seed: int = 0) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InputError(f"seed is {seed!r}; give a whole number.")
        self.scenario = scenario
        self.seed = seed
        self._state = new_state(scenario, seed)
        paths = scenario.message_paths()
        self._types, self._kinds, self.chain_rows = paths.types, paths.kinds, paths.chain_rows
        rows = enumerate(scenario.consumers)
        self._consumers = {consumer.name: (consumer, row) for row, consumer in rows}
        self._publishers: dict[str, tuple[Publishers, list[int]]] = {}
        first = 0
        for group in scenario.publishers:
            self._publishers[group.name] = group, list(range(first, first + group.count))
            first += group.count
        # For every entity that is or was there, the one in the scenario that it is a copy of.
        self._consumers_like = {name: name for name in self._consumers}
        self._publishers_like = {name: name for name in self._publishers}
        self._rates: dict[str, float] = {}
        self._paused: set[str] = set()
        self._removed: set[str] = set()
        self._rules = RuleRunner(self, scenario.rules) if scenario.rules else None

    @property
    def now(self) -> float:
        """Seconds simulated so far."""
        return float(self._state.clock[0]["now"])

    @property
    def state(self) -> SimulationState:
        """The arrays of the run, to read."""
        return self._state

    def run_until(self, time: float) -> None:
        """Simulate up to and including ``time`` seconds; a time in the past changes nothing."""
        end = finite("time", time)
        if self._rules is not None:
            while (stop := self._rules.next_stop) <= end:
                self._run(stop)
                self._rules.act()
        self._run(end)

    def _run(self, end: float) -> None:
        if end < self.now:
            return
        while (status := run_until(self._state, end)) != FINISHED:
            if status == STANDING_STILL:
                raise InputError(
                    f"messages go in a circle at {self.now:g} seconds and time stands still; "
                    "give the work or the links of the circle more than 0 seconds."
                )
            rows = 2 * self._state.pool.size
            if rows > MOST_MESSAGES_IN_SYSTEM:
                raise InputError(
                    f"{rows // 2} messages are in the system at {self.now:g} seconds; "
                    "give the queue a max_length or publish less."
                )
            pool = with_room(self._state.pool, self._state.lines, rows)
            self._state = self._state.replaced(pool=pool)

    def set_prefetch(self, consumer: str, prefetch: float) -> None:
        """Put a real-valued prefetch in force; messages in flight stay until acknowledged."""
        self._row(consumer)["wanted_prefetch"] = prefetch_count("prefetch", prefetch)
        self._state.clock[0]["changed"] = True

    def set_spacing(self, consumer: str, spacing: float) -> None:
        """Keep the acks that open slots ``spacing`` seconds apart from now on; 0 for none."""
        self._row(consumer)["wanted_spacing"] = not_negative("spacing", spacing)
        self._state.clock[0]["changed"] = True

    def set_pace(self, consumer: str, rate: float | None, burst: float = 1.0) -> None:
        """Let at most ``rate`` messages/second start from now on, ``burst`` at once; None for any.

        The acks that open slots are paced to the same rate, as a live consumer does it.
        """
        row = self._row(consumer)
        row["wanted_pace"] = 0.0 if rate is None else above_zero("rate", rate)
        row["wanted_early"] = 0.0 if rate is None else (max(burst, 1.0) - 1) / rate
        self._state.clock[0]["changed"] = True

    def set_service_time(self, consumer: str, mean: float) -> None:
        """Make work take ``mean`` seconds on average from now on, by scaling its distribution."""
        scale = stretch(self._consumer(consumer)[0], service_time("service time", mean))
        self._state.sources[int(self._row(consumer)["work"])]["scale"] = scale

    def set_publish_rate(self, factor: float, publishers: str | None = None) -> None:
        """Make publishers, all or those named, send at ``factor`` times the scenario's rate."""
        chosen = self._groups(publishers)
        most = min(fastest(self._publishers[name][0]) for name in chosen)
        rate = rate_factor("publish rate factor", factor, most)
        for name in chosen:
            self._rates[name] = rate
        self._put_rates_in_force(chosen)

    def pause_publishers(self, publishers: str | None = None) -> None:
        """Pause all publishers, or those named, until :meth:`resume_publishers`."""
        chosen = self._groups(publishers)
        self._paused.update(chosen)
        self._put_rates_in_force(chosen)

    def resume_publishers(self, publishers: str | None = None) -> None:
        """Let all publishers, or those named, continue where they were paused."""
        chosen = self._groups(publishers)
        self._paused.difference_update(chosen)
        self._put_rates_in_force(chosen)

    def _put_rates_in_force(self, names: list[str]) -> None:
        for name in names:
            silent = name in self._paused or name in self._removed
            rate = 0.0 if silent else self._rates.get(name, 1.0)
            self._state.publishers["wanted_rate"][self._publishers[name][1]] = rate
        self._state.clock[0]["changed"] = True

    def add_consumer(self, like: str, name: str | None = None) -> str:
        """Add a consumer, with the scenario's description of ``like``; returns its name."""
        model = self._consumers_like[self._consumer(like)[0].name]
        new = _new_name(model, name, self._consumers_like)
        consumer = replace(self._consumers[model][0], name=new)
        layout = Layout(self.scenario, self.seed, self._state)
        row = layout.add_consumer(consumer, model)
        self._state = layout.extended()
        self._state.consumers[row]["since"] = self.now
        self._consumers[new] = consumer, row
        self._consumers_like[new] = model
        return new

    def remove_consumer(self, name: str) -> None:
        """Remove a consumer: it gets no more messages and finishes those it has."""
        self._row(name)["wanted"] = False
        self._state.clock[0]["changed"] = True

    def add_publishers(self, like: str, name: str | None = None) -> str:
        """Add a group of publishers like ``like``; returns its name."""
        model = self._publishers_like[self._groups(like)[0]]
        new = _new_name(model, name, self._publishers_like)
        group = replace(self._publishers[model][0], name=new)
        layout = Layout(self.scenario, self.seed, self._state)
        rows = layout.add_publishers(group, model)
        self._state = layout.extended()
        self._publishers[new] = group, rows
        self._publishers_like[new] = model
        return new

    def remove_publishers(self, name: str) -> None:
        """Remove a group of publishers: it sends nothing from now on."""
        self._removed.update(self._groups(name))
        self._put_rates_in_force([name])

    @property
    def counts(self) -> Counts:
        """Where all messages are or went."""
        queues = self._state.queues
        elsewhere = {"queued": queues["length"], "in_flight": self._state.consumers["in_flight"]}
        names = [each.name for each in fields(Counts)]
        columns = (elsewhere[name] if name in elsewhere else queues[name] for name in names)
        return Counts(*(int(column.sum()) for column in columns))

    def prefetch(self, consumer: str) -> float:
        """The prefetch in force."""
        return float(self._row(consumer)["wanted_prefetch"])

    def handlers(self, consumer: str) -> int:
        """How many handlers of a consumer may work."""
        row = self._row(consumer)
        return int(row["last_handler"]) - int(row["first_handler"])

    def set_handlers(self, consumer: str, handlers: int) -> None:
        """Let this number of the scenario's handlers work; one at work finishes its message."""
        row = self._row(consumer)
        first, most = int(row["first_handler"]), int(row["handlers"])
        checks.whole("handlers", handlers, 1, most)
        row["last_handler"] = first + handlers
        row["idle"] = NONE
        for number in range(first + handlers - 1, first - 1, -1):
            if self._state.handlers[number]["message"] == NONE:
                self._state.handlers[number]["next"] = row["idle"]
                row["idle"] = number

    def set_round_trip(self, consumer: str, seconds: float) -> None:
        """Let the link of a consumer take this long in both directions, for what is sent now on."""
        checks.seconds("round trip", seconds)
        self._row(consumer)["delay"] = seconds / 2

    def handler_times(self, consumer: str) -> Latency:
        """How long handlers of a consumer with a resource had each message, since time 0."""
        place = int(self._row(consumer)["work_row"])
        noted = self._state.latencies[place]
        count = int(noted["count"])
        counts = self._state.bins[place * BINS : (place + 1) * BINS].copy()
        return Latency(count, float(noted["sum"]) / count if count else math.nan, counts)

    def check_adapts(self, consumer: str) -> None:
        """Refuse to adapt a consumer that has no prefetch."""
        self._consumer(consumer)[0].check_adapts()

    def spreads_acks(self, consumer: str) -> bool:
        """Whether a consumer spreads its acks while a controller drives it."""
        return self._consumer(consumer)[0].spread_acks

    def totals(self, consumer: str) -> ConsumerTotals:
        """What a consumer did up to now."""
        row = self._row(consumer)
        # The engine adds up times when the window changes; this is the time since then.
        rest = self.now - float(row["since"])
        held = int(self._state.lines[int(row["held_line"])]["length"])
        slots = max(int(row["high"]), int(row["in_flight"]))
        first, count = int(row["first_handler"]), int(row["handlers"])
        handlers = self._state.handlers[first : first + count]
        busy = handlers["slot"][handlers["message"] >= 0]
        due = self._state.timers["due"][int(self._state.clock[0]["leaves"]) + busy]
        # Of those who wait for a resource, busy_time has nothing yet.
        since = handlers["since"][handlers["message"] >= 0]
        begun = float(np.sum(np.where(due < NEVER, due, since) - self.now))
        return ConsumerTotals(
            arrivals=int(row["arrivals"]),
            finished=int(row["finished"]),
            acks_given=int(row["given"]),
            starved_time=float(row["starved_time"]) + (rest if row["starved"] else 0.0),
            in_flight_time=float(row["in_flight_time"]) + int(row["in_flight"]) * rest,
            held_time=float(row["held_time"]) + held * rest,
            open_time=float(row["open_time"]) + (slots - held) * rest,
            work_time=float(row["work_time"]),
            buffer_time=float(row["buffer_time"]),
            busy_time=float(row["busy_time"]) - begun,
            turnaround_time=float(row["turnaround_time"]),
            turnarounds=int(row["turnarounds"]),
            openings_awaited=int(row["openings_awaited"]),
            starts_awaited=int(row["starts_awaited"]),
            gated_time=self._gated_time(row),
            batch_time=float(row["batch_time"]),
        )

    def _gated_time(self, row: Any) -> float:
        waiting = int(self._state.lines[int(row["buffer_line"])]["length"])
        starts_at = float(row["starts_full_at"] - row["early"]) if row["pace"] > 0 else 0.0
        rest = min(self.now, starts_at) - float(row["gated_since"])
        return float(row["gated_time"]) + waiting * max(rest, 0.0)

    def unacked_time(self, consumer: str, totals: ConsumerTotals) -> float:
        """Seconds up to now, summed over the messages that a consumer had not acknowledged.

        Each counts from its arrival to when its ack is sent; ``totals`` are those of now.
        """
        row, state = self._row(consumer), self._state
        if row["acknowledge"] != AFTER_PROCESSING:
            return totals.held_time
        # Those that still wait for a handler or for their batch are in no sum yet.
        since, behind = state.pool["since"], state.pool["next"]
        waiting = 0.0
        for name in ("buffer_line", "done_line"):
            line = state.lines[int(row[name])]
            message = int(line["first"])
            for _ in range(int(line["length"])):
                waiting += self.now - float(since[message])
                message = int(behind[message])
        done = totals.buffer_time + totals.busy_time + totals.batch_time + totals.held_time
        return done + waiting

    def most_in_flight(self, consumer: str) -> int:
        """The most messages in flight to a consumer at once since this was last called."""
        row = self._row(consumer)
        most = int(row["most_in_flight"])
        row["most_in_flight"] = row["in_flight"]
        return most

    @property
    def consumers(self) -> list[str]:
        """All present and removed consumers, in the order in which they joined."""
        return list(self._consumers)

    @property
    def publishers(self) -> list[str]:
        """All present and removed groups of publishers, in the order in which they joined."""
        return list(self._publishers)

    @property
    def types(self) -> list[str]:
        """The types of messages."""
        return list(self._types)

    @property
    def sent(self) -> dict[tuple[str, str], int]:
        """Messages sent since time 0, by publishers and consumers, by type and routing key."""
        counts: dict[tuple[str, str], int] = {}
        for kind, sent in zip(self._kinds, self._state.kinds["sent"], strict=True):
            place = self._types[kind.type], kind.message.routing_key
            counts[place] = counts.get(place, 0) + int(sent)
        return counts

    @property
    def changes_by_rules(self) -> list[tuple[float, str]]:
        """Time and name of the rule, for every change that a rule of the scenario made."""
        return [] if self._rules is None else list(self._rules.done)

    def active(self, like: str) -> list[str]:
        """``like`` and the consumers added like it, oldest first, without those removed."""
        model = self._consumers_like[self._consumer(like)[0].name]
        alike = [name for name, each in self._consumers_like.items() if each == model]
        return [name for name in alike if self._row(name)["wanted"]]

    def active_publishers(self, like: str) -> list[str]:
        """``like`` and the publishers added like it, without those removed."""
        model = self._publishers_like[self._groups(like)[0]]
        alike = [name for name, each in self._publishers_like.items() if each == model]
        return [name for name in alike if name not in self._removed]

    def publisher_rows(self, name: str) -> Any:
        """The rows of a group of publishers, copied."""
        return self._state.publishers[self._publishers[self._groups(name)[0]][1]]

    def _row(self, consumer: str) -> Any:
        return self._state.consumers[self._consumer(consumer)[1]]

    def _consumer(self, name: str) -> tuple[Consumer, int]:
        if name not in self._consumers:
            names = ", ".join(map(repr, self._consumers))
            raise InputError(f"there is no consumer {name!r}; give one of {names}.")
        return self._consumers[name]

    def _groups(self, name: str | None) -> list[str]:
        if name is None:
            return list(self._publishers)
        if name not in self._publishers:
            names = ", ".join(map(repr, self._publishers))
            raise InputError(f"there are no publishers {name!r}; give one of {names}.")
        return [name]


def _new_name(model: str, name: str | None, likes: dict[str, str]) -> str:
    """The name given, or the name of the model with the first free number."""
    if name is None:
        number = sum(each == model for each in likes.values()) + 1
        while f"{model} {number}" in likes:
            number += 1
        return f"{model} {number}"
    if name in likes:
        raise InputError(f"there is a {name!r} already; give another name.")
    return name
