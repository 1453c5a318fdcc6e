"""The simulated consumer as a plant: the control loop drives it like a live one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlmq.consumer.spread import Spread
from controlmq.controllers.limits import Limits
from controlmq.controllers.selector import Selector
from controlmq.errors import InputError
from controlmq.goals import Goals, usual_burst
from controlmq.loop import Controller, Loop, Sample
from simulator.scenario.scenario import Scenario
from simulator.simulation import ConsumerTotals, Counts, Simulation


class SimulatedConsumer:
    """One consumer of a simulated scenario.

    Observing it runs the scenario to the end of the next sample interval. If the scenario has
    several consumers, ``consumer`` names the one to drive. The others keep the scenario's prefetch
    unless they are driven too: see :func:`plants`. With a ``simulation`` it is a consumer of that
    simulation, possibly one that joined while it ran, and its first interval begins at the
    simulation's present time.

    The ``starved`` of its samples includes time in which a handler runs; that of a live consumer
    whose client runs the handler in its own thread does not.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int = 0,
        consumer: str | None = None,
        simulation: Simulation | None = None,
    ) -> None:
        self.simulation = Simulation(scenario, seed) if simulation is None else simulation
        names = [each.name for each in scenario.consumers]
        if consumer is None and len(names) > 1:
            raise InputError(
                f"scenario {scenario.name!r} has {len(names)} consumers; "
                f"name the one to drive: {', '.join(map(repr, names))}."
            )
        self.name = names[0] if consumer is None else consumer
        self.interval = scenario.sample_interval
        self._before = self.simulation.totals(self.name)
        self._unacked_time = self.simulation.unacked_time(self.name, self._before)
        self.simulation.most_in_flight(self.name)  # it is counted from here on
        self._number = 0
        # When sample intervals are counted from, and how many there were since.
        self._start, self._intervals = self.simulation.now, 0
        self._most_in_flight = 0
        self._spread = Spread()
        self._driven = False
        self._spreads = self.simulation.spreads_acks(self.name)
        self._turnaround = 0.0
        self._pace: float | None = None

    @property
    def prefetch(self) -> float:
        """The prefetch in force."""
        return self.simulation.prefetch(self.name)

    @property
    def most_in_flight(self) -> int:
        """The most messages in flight at once in the last interval."""
        return self._most_in_flight

    @property
    def counts(self) -> Counts:
        """Where all messages of the scenario are or went."""
        return self.simulation.counts

    def observe(self) -> Sample:
        """Run the next interval and return what a consumer would measure in it.

        If the simulation has already run past the end of the interval, the sample covers all the
        time since the last one, and the next interval begins at the present time.
        """
        prefetch, interval = self.prefetch, self.interval
        self._number += 1
        self._intervals += 1
        time = self._start + self._intervals * interval
        self.simulation.run_until(time)
        if self.simulation.now > time:
            interval += self.simulation.now - time
            time = self.simulation.now
            self._start, self._intervals = time, 0
        before, after = self._before, self.simulation.totals(self.name)
        self._before = after
        unacked_time = self.simulation.unacked_time(self.name, after)
        self._most_in_flight = self.simulation.most_in_flight(self.name)
        arrivals = after.arrivals - before.arrivals
        finished = after.finished - before.finished
        starved = (after.starved_time - before.starved_time) / interval
        acks = after.acks_given - before.acks_given
        slot_seconds = after.open_time - before.open_time
        self._spread.measured(slot_seconds, acks, interval, prefetch, starved > 0)
        self._space()
        turnarounds = after.turnarounds - before.turnarounds
        if turnarounds:
            self._turnaround = (after.turnaround_time - before.turnaround_time) / turnarounds
        # As for a live consumer, a handler has a message until it acknowledges it.
        handled = after.work_time + after.batch_time - before.work_time - before.batch_time
        handlers = self.simulation.handlers(self.name)
        busy = (after.busy_time - before.busy_time) / (handlers * interval)
        sample = Sample(
            number=self._number,
            time=time,
            interval=interval,
            prefetch=prefetch,
            arrivals=arrivals,
            # A rounding error must not push the share out of its range.
            starved=min(max(starved, 0.0), 1.0),
            # A crash takes back the time that messages have waited.
            in_flight=max(unacked_time - self._unacked_time, 0.0) / interval,
            handler_time=handled / max(finished, 1),
            buffer_time=(after.buffer_time - before.buffer_time) / max(arrivals, 1),
            held=(after.held_time - before.held_time) / interval,
            handlers=handlers,
            busy=min(max(busy, 0.0), 1.0),
            turnaround=self._turnaround,
            gated=(after.gated_time - before.gated_time) / interval,
            unused=self._unused(before, after, interval),
        )
        self._unacked_time = unacked_time
        return sample

    def actuate(self, prefetch: float) -> None:
        """Put a real-valued prefetch in force from now on."""
        self.simulation.set_prefetch(self.name, prefetch)
        self._driven = True
        self._space()

    def pace(self, rate: float | None, burst: float | None = None) -> None:
        """Let at most ``rate`` messages/second start from now on; any number with None."""
        self._pace = rate
        if rate is not None and burst is None:
            burst = usual_burst(rate)
        self.simulation.set_pace(self.name, rate, burst or 1.0)
        self._space()

    def pursue(self, goals: Goals, controller: Controller | None = None, **labels: Any) -> Loop:
        """The loop that drives it to these goals, as a live consumer would be.

        A ``controller`` holds the ``goal``; ``labels`` are those of a :class:`Loop`.
        """
        self.simulation.check_adapts(self.name)
        self._spreads = self._spreads and controller is not None
        self.pace(*goals.pace(controlled=controller is not None))
        law = controller
        if law is None or goals.buffer_time is not None or goals.protect:
            law = Selector(goals, Limits.widest(), controller)
        return Loop(self, law, goals.goal, **labels)

    def _unused(self, before: ConsumerTotals, after: ConsumerTotals, interval: float) -> float:
        """Share of the bucket's tokens of an interval that nothing was waiting for."""
        if self._pace is None:
            return 1.0
        awaited = max(
            after.openings_awaited - before.openings_awaited,
            after.starts_awaited - before.starts_awaited,
        )
        return max(0.0, 1 - awaited / (self._pace * interval))

    def _space(self) -> None:
        """Spread acks as a live consumer does: only one that a controller drives."""
        if self._pace is not None:
            self.simulation.set_spacing(self.name, 0.0)
        elif self._driven and self._spreads:
            self.simulation.set_spacing(self.name, self._spread.spacing(self.prefetch))

    def set_service_time(self, mean: float) -> None:
        """Make the business logic take ``mean`` seconds on average from now on."""
        self.simulation.set_service_time(self.name, mean)

    def set_publish_rate(self, factor: float) -> None:
        """Make all publishers send ``factor`` times as often as the scenario says."""
        self.simulation.set_publish_rate(factor)

    def pause_publishers(self) -> None:
        """Pause all publishers until :meth:`resume_publishers`."""
        self.simulation.pause_publishers()

    def resume_publishers(self) -> None:
        """Let every publisher continue where it was paused."""
        self.simulation.resume_publishers()


def adapting(simulation: Simulation) -> dict[str, Loop]:
    """A loop for each consumer of a scenario that has goals, by its name; they take turns."""
    loops = {}
    for consumer in simulation.scenario.consumers:
        if consumer.goals is not None:
            plant = SimulatedConsumer(
                simulation.scenario, consumer=consumer.name, simulation=simulation
            )
            loops[consumer.name] = plant.pursue(consumer.goals)
    return loops


def plants(
    scenario: Scenario, consumers: Sequence[str] | None = None, *, seed: int = 0
) -> dict[str, SimulatedConsumer]:
    """Several consumers of one simulation, all or those named, each for its own control loop.

    The loops take turns, one step each: the first to observe runs the simulation to the end of
    the interval, and the others observe the same interval. What a loop decides takes effect then.
    """
    simulation = Simulation(scenario, seed)
    names = [each.name for each in scenario.consumers] if consumers is None else consumers
    return {
        name: SimulatedConsumer(scenario, consumer=name, simulation=simulation) for name in names
    }
