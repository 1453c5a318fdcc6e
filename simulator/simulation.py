"""A scenario in motion: runs to any instant, can be changed there, and runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlmq.checks import above_zero, finite
from controlmq.errors import InputError
from simulator.duration import LONGEST
from simulator.engine import run_until
from simulator.messages import with_room
from simulator.scenario import SHORTEST_INTERVAL, Scenario, prefetch_count
from simulator.state import consumer_rows, new_state

MOST_MESSAGES = 2**26
"""Messages in the system at once, 67 million in 1.6 GB: a queue without a bound has outgrown
what a run is worth before it takes the machine down."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages since time 0, over all queues, and where they are now.

    None is lost: ``published`` is ``dropped + queued + delivered``, and ``delivered`` is
    ``in_flight + acknowledged``.
    """

    published: int
    dropped: int
    queued: int
    delivered: int
    acknowledged: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class ConsumerTotals:
    """What one consumer did since time 0.

    ``arrivals`` messages were handed to its business logic and ``finished`` messages left it.
    Times are in seconds: ``starved_time`` with room in the window and an empty queue,
    ``in_flight_time`` summed over messages in flight, ``work_time`` over finished messages,
    ``buffer_time`` over arrivals.
    """

    arrivals: int
    finished: int
    starved_time: float
    in_flight_time: float
    work_time: float
    buffer_time: float


class Simulation:
    """Runs a scenario from time 0; the same scenario and seed give the same run, bit for bit.

    Where a run is stopped and continued makes no difference to it. Changes take effect at the
    instant it has reached.
    """

    def __init__(self, scenario: Scenario, seed: int = 0) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InputError(f"seed is {seed!r}; give a whole number.")
        self.scenario = scenario
        self._consumers = consumer_rows(scenario)
        self._state = new_state(scenario, seed)
        self._publish_rate = 1.0
        self._paused = False

    @property
    def now(self) -> float:
        """Seconds simulated so far."""
        return float(self._state.clock[0]["now"])

    def run_until(self, time: float) -> None:
        """Simulate up to and including ``time`` seconds; a time in the past changes nothing."""
        end = finite("time", time)
        if end < self.now:
            return
        while not run_until(self._state, end):
            rows = 2 * self._state.messages.pool.size
            if rows > MOST_MESSAGES:
                raise InputError(
                    f"{rows // 2} messages are in the system at {self.now:g} seconds; "
                    "give the queue a max_length or publish less."
                )
            self._state = self._state._replace(messages=with_room(self._state.messages, rows))

    def set_prefetch(self, consumer: str, prefetch: float) -> None:
        """Put a real-valued prefetch in force; what is in flight stays until acknowledged."""
        self._row(consumer)["wanted_prefetch"] = prefetch_count(prefetch)

    def set_service_time(self, consumer: str, mean: float) -> None:
        """From now on work takes ``mean`` seconds on average, its distribution stretched."""
        if above_zero("service time", mean) > LONGEST:
            raise InputError(f"service time is {mean:g} seconds; give at most {LONGEST:g}.")
        before = self._consumers[self._index(consumer)].work.mean
        if before == 0:
            raise InputError(
                f"the work of {consumer!r} takes no time and cannot be stretched; "
                "give it a mean above 0 in the scenario."
            )
        self._state.sources[int(self._row(consumer)["work"])]["scale"] = mean / before

    def set_publish_rate(self, factor: float) -> None:
        """All publishers send ``factor`` times as often as the scenario says: a burst, a lull."""
        fastest = min(group.every.mean for group in self.scenario.publishers)
        most = fastest / SHORTEST_INTERVAL
        if not 0.001 <= above_zero("publish rate factor", factor) <= most:
            raise InputError(f"publish rate factor is {factor:g}; give 0.001 to {most:g}.")
        self._publish_rate = float(factor)
        self._put_publish_rate_in_force()

    def pause_publishers(self) -> None:
        """No publisher sends until :meth:`resume_publishers`."""
        self._paused = True
        self._put_publish_rate_in_force()

    def resume_publishers(self) -> None:
        """Every publisher goes on where it was paused."""
        self._paused = False
        self._put_publish_rate_in_force()

    def _put_publish_rate_in_force(self) -> None:
        self._state.clock[0]["wanted_rate"] = 0.0 if self._paused else self._publish_rate

    @property
    def counts(self) -> Counts:
        """Where all messages went."""
        queues, consumers = self._state.queues, self._state.consumers
        return Counts(
            published=int(queues["published"].sum()),
            dropped=int(queues["dropped"].sum()),
            queued=int(self._state.messages.lines["length"][queues["line"]].sum()),
            delivered=int(consumers["delivered"].sum()),
            acknowledged=int(consumers["acknowledged"].sum()),
            in_flight=int(consumers["in_flight"].sum()),
        )

    def totals(self, consumer: str) -> ConsumerTotals:
        """What a consumer did up to now."""
        row = self._row(consumer)
        # The engine adds up times when the window changes; this is the rest, up to now.
        rest = self.now - float(row["since"])
        return ConsumerTotals(
            arrivals=int(row["arrivals"]),
            finished=int(row["finished"]),
            starved_time=float(row["starved_time"]) + (rest if row["starved"] else 0.0),
            in_flight_time=float(row["in_flight_time"]) + int(row["in_flight"]) * rest,
            work_time=float(row["work_time"]),
            buffer_time=float(row["buffer_time"]),
        )

    def most_in_flight(self, consumer: str) -> int:
        """The most messages in flight to a consumer since this was last asked."""
        row = self._row(consumer)
        most = int(row["most_in_flight"])
        row["most_in_flight"] = row["in_flight"]
        return most

    def _row(self, consumer: str) -> Any:
        return self._state.consumers[self._index(consumer)]

    def _index(self, consumer: str) -> int:
        names = [each.name for each in self._consumers]
        if consumer not in names:
            raise InputError(
                f"there is no consumer {consumer!r}; give one of {', '.join(map(repr, names))}."
            )
        return names.index(consumer)
