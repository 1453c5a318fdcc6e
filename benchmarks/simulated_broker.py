"""The simulator against a real broker: what a calibration predicts, and what is measured.

Rates of a consumer for every prefetch from 1 to 40 on a full queue (the median over spells of
whole windows, and then over turns), latencies at 30 % of what it can take, and latencies of a
message that is copied to several queues; each directly and behind 11 ms of round trip. No point
that is compared was used to calibrate: works and publish rates differ, and so do the numbers of
copies, except that both have a single one.

The speed of a shared machine changes within seconds or minutes. So calibrating and measuring take
turns, and both see the same changes. Without a network delay, latency is hardly more than the time
the machine takes to wake the processes up, and may be half as long again ten seconds later: its
medians can be compared only after many visits, behind 11 ms after a few. Within a visit, latencies
that calibrate and latencies that are compared alternate.

The broker and the network have one core and the consumer another where there are two, as if
each had a machine of its own. Work is spun: see ``controlmq.measure.calibration.consuming``.

Behind 11 ms, where prefetch matters, consumers that a PI controller takes to a goal are compared
by the prefetch on which they settle.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pika

from benchmarks.measure import on_core, spread
from controlmq.clients.pika import wrap
from controlmq.clients.pika.connecting import connection_to
from controlmq.consumer.spread import SPREAD_SHARE
from controlmq.controllers import PI, Gains, Limits
from controlmq.experiments.calibrated_scenario import (
    PUBLISHING_LINK,
    broker_of,
    consumer_of,
    links_of,
    scenario_of,
)
from controlmq.loop import Loop, Step
from controlmq.measure.calibration import Calibration, calibrating
from controlmq.measure.calibration.consuming import Handled, consume, spin
from controlmq.measure.calibration.experiments import (
    COPIED_MESSAGES_PER_SECOND,
    COPIED_TO_QUEUES,
    LOADED_FROM_MESSAGES_PER_SECOND,
    SECONDS_AT_RATE,
    Experiments,
)
from controlmq.measure.calibration.queues import TemporaryQueues, temporary_queues
from controlmq.measure.calibration.stamping_publisher import PacedPublisher, publishing_process
from simulator import (
    Binding,
    Duration,
    Exchange,
    Meter,
    Publishers,
    Queue,
    Scenario,
    SimulatedConsumer,
    Simulation,
)
from tests.testbed import start_broker
from tests.testbed.proxy import ROUND_TRIP, proxied

TURNS = 10
"""Of calibrating, latencies and copies; those of rates are spread over them."""

PREFETCHES = tuple(range(1, 41))
WORKS = (0.0005, 0.001, 0.003)
RATE_TURNS = 3
RATE_RUN_SECONDS, RATE_SETTLE_SECONDS = 0.2, 0.05
"""Seconds of one turn at one point, and how many of them are not counted."""

LATENCY_PREFETCHES = (1, 3, 10, 40)
LATENCY_RUN_SECONDS, LATENCY_SETTLE_SECONDS, LOADED_SHARE = 0.35, 0.1, 0.3
"""Seconds of messages in one turn at one point, how many of them are not counted, and the share
of what the consumer can take."""

COPIES = (1, 2, 5, 10)
FANOUT_RATE, FANOUT_MESSAGES = 100.0, 30

CONTROLLED = {0.0005: 500.0, 0.001: 400.0, 0.003: 200.0}
"""Goals of controlled consumers by their work: messages/second, and seconds."""

CONTROL_SAMPLES, JUDGED_SAMPLES, CONTROL_INTERVAL = 40, 20, 0.5
"""Samples of a controlled run, those at its end that are judged, and seconds a sample."""

CONTROL_TURNS = 3

FILL_RATE = 20_000.0
SIMULATED_SECONDS = 5.0
"""Seconds simulated at each point."""

WITHOUT_HEARTBEAT = "?heartbeat=0"
"""Query of a URL whose connection may be silent for minutes, while others have their turn."""

FIRST_MESSAGE_AFTER_SECONDS = 0.1
"""Seconds before the first message that is sent at a given time."""

COLOURS = ("#0072b2", "#d55e00", "#009e73")
ALLOWED = {
    "rate_median": 0.03,
    "rate_p90": 0.08,
    "latency": 0.10,
    "fan_out": 0.10,
    "settled_prefetch": 0.05,
}
PICTURE = Path("simulated-broker.svg")


@dataclass(frozen=True)
class Route:
    """A route to the broker: its name, its URL, its round trip (seconds, about).

    ``visits`` says how often in a turn latencies are looked at.
    """

    name: str
    url: str
    round_trip: float
    visits: int


@dataclass
class Measured:
    """What the real broker did on one route to it."""

    rates: dict[tuple[float, int], list[float]] = field(default_factory=dict)
    latencies: dict[tuple[float, int], list[Handled]] = field(default_factory=dict)
    fan_out: dict[int, list[Handled]] = field(default_factory=dict)
    prefetches: dict[float, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Station:
    """Everything that measures on one route, and what it has measured."""

    route: Route
    connection: pika.BlockingConnection
    publisher: PacedPublisher
    experiments: Experiments
    draw: random.Random
    found: Measured


@contextmanager
def bed() -> Iterator[tuple[Route, Route]]:
    with on_core(-1):
        started = start_broker()
        broker = started.__enter__()
        proxy = broker.proxied(delay=ROUND_TRIP / 2)
    try:
        with on_core(0), proxy:
            yield (
                Route("direct", broker.url + WITHOUT_HEARTBEAT, 0.0003, visits=5),
                Route(
                    "11 ms", proxied(broker.url, proxy) + WITHOUT_HEARTBEAT, ROUND_TRIP, visits=1
                ),
            )
    finally:
        started.__exit__(None, None, None)


@contextmanager
def station(route: Route) -> Iterator[Station]:
    with (
        calibrating(route.url) as experiments,
        connection_to(route.url) as connection,
        publishing_process(route.url) as publisher,
    ):
        yield Station(route, connection, publisher, experiments, random.Random(1), Measured())


def measure(routes: tuple[Route, Route]) -> dict[str, tuple[Calibration, Measured]]:
    with (
        station(routes[0]) as direct,
        station(routes[1]) as remote,
        temporary_queues(routes[0].url) as queues,
    ):
        stations = (direct, remote)
        single = queues.queue()
        exchanges = {copies: queues.fanout(copies) for copies in COPIES}
        rates = [(at, work) for _ in range(RATE_TURNS) for work in WORKS for at in stations]
        for turn in range(TURNS):
            print(f"  turn {turn + 1} of {TURNS}", file=sys.stderr)
            for each in stations:
                for _ in each.experiments.turn():
                    pass
                for _ in range(each.route.visits):
                    visit(each, single, exchanges)
            done, due = (len(rates) * number // TURNS for number in (turn, turn + 1))
            for at, work in rates[done:due]:
                measure_rates(at, work, single, queues)
            if turn % (TURNS // CONTROL_TURNS) == 0:
                for work in CONTROLLED:
                    measure_controlled(remote, work, single, queues)
        return {each.route.name: (each.experiments.found(), each.found) for each in stations}


def measure_rates(at: Station, work: float, queue: str, queues: TemporaryQueues) -> None:
    """One turn of every prefetch."""
    count = sum(
        capacity(at.route, work, prefetch) * RATE_RUN_SECONDS + prefetch for prefetch in PREFETCHES
    )
    queues.fill(queue, round(1.1 * count))
    for prefetch in PREFETCHES:
        handled = consume(
            at.connection, [queue], prefetch=prefetch, work=work, seconds=RATE_RUN_SECONDS
        )
        spells = handled.after(RATE_SETTLE_SECONDS).spells(prefetch)
        at.found.rates.setdefault((work, prefetch), []).append(1 / statistics.median(spells))
    queues.purge(queue)


def law_for(work: float) -> PI:
    """A controller without overshoot, by theory: slots are spread over their loop."""
    gain = SPREAD_SHARE / (ROUND_TRIP + work)
    return PI(Gains(kp=0.0, ki=0.4 / gain), Limits(0.1, 60.0))


def settled(steps: list[Step]) -> float:
    """The mean prefetch over the judged samples."""
    return statistics.fmean(step.sample.prefetch for step in steps[-JUDGED_SAMPLES:])


def measure_controlled(at: Station, work: float, queue: str, queues: TemporaryQueues) -> None:
    """A wrapped consumer that starts at prefetch 1 and is taken to its goal."""
    goal = CONTROLLED[work]
    queues.fill(queue, round(1.2 * goal * CONTROL_SAMPLES * CONTROL_INTERVAL))
    steps: list[Step] = []

    def on_step(step: Step) -> None:
        steps.append(step)
        if len(steps) == CONTROL_SAMPLES:
            channel.stop_consuming()

    def handle(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        spin(work)
        channel.basic_ack(method.delivery_tag)

    channel = wrap(
        at.connection.channel(),
        goal,
        law_for(work),
        prefetch=1.0,
        interval=CONTROL_INTERVAL,
        on_step=on_step,
    )
    channel.basic_consume(queue, handle)
    channel.start_consuming()
    channel.close()
    at.found.prefetches.setdefault(work, []).append(settled(steps))
    queues.purge(queue)


def predicted_prefetch(found: Calibration, work: float) -> float:
    """The prefetch on which the same controller settles on the simulated consumer."""
    scenario = scenario_of(found, work=work, prefetch=1.0)
    plant = SimulatedConsumer(replace(scenario, sample_interval=CONTROL_INTERVAL))
    return settled(list(Loop(plant, law_for(work), CONTROLLED[work]).run(CONTROL_SAMPLES)))


def capacity(route: Route, work: float, prefetch: int) -> float:
    """Messages/second that a consumer can take, at most."""
    return min(1 / (work + 0.0001), prefetch / (route.round_trip + work))


def latency_rate(route: Route, work: float, prefetch: int) -> float:
    """Messages/second at which latencies are measured."""
    return LOADED_SHARE * capacity(route, work + 0.0002, prefetch)


def latency_steps(experiments: Experiments) -> list[Callable[[], None]]:
    """The calibration's shortest measurements of latencies and copies, to be called one by one."""
    loaded = [rate for rate in SECONDS_AT_RATE if rate > LOADED_FROM_MESSAGES_PER_SECOND]
    return [
        *(partial(experiments.at_rate, rate) for rate in SECONDS_AT_RATE),
        *(partial(experiments.at_rate, rate, loaded=True) for rate in loaded),
        *(partial(experiments.copied, copies) for copies in COPIED_TO_QUEUES),
    ]


def visit(at: Station, queue: str, exchanges: dict[int, tuple[str, list[str]]]) -> None:
    """Every latency once, those of the calibration and those to compare, in any order."""
    steps = latency_steps(at.experiments)
    for work in WORKS:
        for prefetch in LATENCY_PREFETCHES:
            steps.append(partial(measure_latency, at, work, prefetch, queue))
    for copies in COPIES:
        steps.append(partial(measure_fan_out, at, copies, *exchanges[copies]))
    for step in at.draw.sample(steps, len(steps)):
        step()


def measure_latency(at: Station, work: float, prefetch: int, queue: str) -> None:
    """At random times, a part of what the consumer could take."""
    rate = latency_rate(at.route, work, prefetch)
    gaps = [at.draw.expovariate(rate) for _ in range(ceil(rate * LATENCY_RUN_SECONDS))]
    handled = consume(
        at.connection,
        [queue],
        prefetch=prefetch,
        work=work,
        count=len(gaps),
        publish=partial(at.publisher.send, "", queue, gaps),
    )
    at.found.latencies.setdefault((work, prefetch), []).append(
        handled.after(LATENCY_SETTLE_SECONDS)
    )


def measure_fan_out(at: Station, copies: int, exchange: str, bound: list[str]) -> None:
    gaps = [1 / FANOUT_RATE] * FANOUT_MESSAGES
    handled = consume(
        at.connection,
        bound,
        prefetch=100,
        count=copies * len(gaps),
        publish=partial(at.publisher.send, exchange, "", gaps),
    )
    at.found.fan_out.setdefault(copies, []).append(handled.after(LATENCY_SETTLE_SECONDS))


def median_latency(turns: list[Handled]) -> tuple[float, dict[str, float | int]]:
    """Over all messages, and how it varied from turn to turn.

    ``halves`` is how much every second turn differs from the others, which tells how exact the
    measurement itself is.
    """
    each = [handled.latencies for handled in turns]
    varied = spread(list(map(statistics.median, each)))
    some, others = (statistics.median(chain.from_iterable(each[first::2])) for first in (0, 1))
    varied["halves"] = abs(some / others - 1)
    return statistics.median(chain.from_iterable(each)), varied


def predicted_rate(found: Calibration, work: float, prefetch: int) -> float:
    """Arrivals/second of the simulated consumer on a queue that was filled before."""
    scenario = scenario_of(found, work=work, prefetch=prefetch, rate=FILL_RATE)
    # Nothing is published while it is measured, so publishing may as well cost nothing.
    quickly_filled = replace(broker_of(found), publish=0.0, copy=0.0, enqueue=0.0)
    simulation = Simulation(replace(scenario, broker=quickly_filled))
    simulation.run_until(1.0)
    simulation.pause_publishers()
    simulation.run_until(1.5)
    before = simulation.totals("consumer").arrivals
    simulation.run_until(1.5 + SIMULATED_SECONDS)
    if simulation.counts.queued == 0:
        raise AssertionError("the simulated queue ran dry; fill it with more.")
    return (simulation.totals("consumer").arrivals - before) / SIMULATED_SECONDS


def predicted_latency(
    found: Calibration, work: float, prefetch: int, rate: float, turns: list[Handled]
) -> float:
    """The median latency of messages sent at the same times, seconds."""
    gaps: list[float] = []
    for handled in turns:
        gaps += [
            FIRST_MESSAGE_AFTER_SECONDS,
            *(after - before for before, after in pairwise(sorted(handled.sent))),
        ]
    scenario = scenario_of(found, work=work, prefetch=prefetch, rate=rate)
    every = Duration(distribution="replay", values=gaps)
    publisher = replace(scenario.publishers[0], every=every)
    simulation = Simulation(replace(scenario, publishers=[publisher]))
    meter = Meter(simulation)
    simulation.run_until(sum(gaps) + FIRST_MESSAGE_AFTER_SECONDS / 2)
    simulation.pause_publishers()
    simulation.run_until(sum(gaps) + 10.0)
    return meter.read().queues["queue"].latency.p50


def predicted_fan_out(found: Calibration, copies: int) -> float:
    """The median latency over all copies, seconds.

    Messages that calibrate are evenly spaced too, but further apart, so processes wake up later.
    """
    sooner = found.latency_at(FANOUT_RATE) / found.latency_at(COPIED_MESSAGES_PER_SECOND)
    names = [f"queue {number}" for number in range(copies)]
    every = Duration(1 / FANOUT_RATE)
    scenario = Scenario(
        "fan-out",
        1.0,
        [Publishers("publisher", every=every, exchange="all", link=PUBLISHING_LINK)],
        [Queue(name) for name in names],
        [consumer_of(found, name, 0.0, 100, f"of {name}") for name in names],
        links_of(found, 0.0, found.latency(1) * sooner),
        [Exchange("all", "fanout")],
        [Binding("all", name) for name in names],
        broker_of(found),
    )
    simulation = Simulation(scenario)
    meter = Meter(simulation)
    simulation.run_until(20.0)
    return meter.read().types["publisher"].p50


def run() -> dict[str, Any]:
    with bed() as routes:
        measured = measure(routes)
    return compared(routes, measured)


def compared(
    routes: tuple[Route, Route], measured: dict[str, tuple[Calibration, Measured]]
) -> dict[str, Any]:
    rates, latencies, fan_out, controlled = [], [], [], []
    for route in routes:
        known, found = measured[route.name]
        for (work, prefetch), values in sorted(found.rates.items()):
            predicted = predicted_rate(known, work, prefetch)
            point = {"route": route.name, "work": work, "prefetch": prefetch}
            rates.append(judged(point, statistics.median(values), predicted, spread(values)))
        for (work, prefetch), handled in sorted(found.latencies.items()):
            rate = latency_rate(route, work, prefetch)
            predicted = predicted_latency(known, work, prefetch, rate, handled)
            point = {"route": route.name, "work": work, "prefetch": prefetch, "rate": rate}
            point["count"] = sum(len(turn.sent) for turn in handled)
            median, turns = median_latency(handled)
            latencies.append(judged(point, median, predicted, turns))
        for copies, handled in sorted(found.fan_out.items()):
            predicted = predicted_fan_out(known, copies)
            median, turns = median_latency(handled)
            point = {"route": route.name, "copies": copies}
            fan_out.append(judged(point, median, predicted, turns))
        for work, values in found.prefetches.items():
            predicted = predicted_prefetch(known, work)
            point = {"route": route.name, "work": work, "goal": CONTROLLED[work]}
            controlled.append(judged(point, statistics.median(values), predicted, spread(values)))
    draw(rates, latencies, fan_out)
    errors = sorted(point["error"] for point in rates)
    found_errors = {
        "rate_median": statistics.median(errors),
        "rate_p90": errors[ceil(0.9 * len(errors)) - 1],
        "latency": max(point["error"] for point in latencies),
        "fan_out": max(point["error"] for point in fan_out),
        "settled_prefetch": max(point["error"] for point in controlled),
    }
    return {
        "peer": "a real RabbitMQ broker and a plain pika consumer",
        "errors": found_errors,
        "latency_errors": spread([point["error"] for point in latencies]),
        "latency_halves": {
            route.name: spread(
                [p["turns"]["halves"] for p in latencies if p["route"] == route.name]
            )
            for route in routes
        },
        "allowed": ALLOWED,
        "met": {name: found_errors[name] <= most for name, most in ALLOWED.items()},
        "calibrations": {name: asdict(known) for name, (known, _) in measured.items()},
        "rates": rates,
        "latencies": latencies,
        "fan_out": fan_out,
        "controlled": controlled,
        "picture": str(PICTURE),
    }


def judged(
    point: dict[str, Any],
    measured: float,
    predicted: float,
    turns: dict[str, float | int],
) -> dict[str, Any]:
    error = abs(predicted - measured) / measured
    return {**point, "measured": measured, "simulated": predicted, "error": error, "turns": turns}


def draw(*groups: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    grid = figure.subplots(2, 2)
    rates, latencies, fan_out = groups
    for axes, route in zip(grid[0], ("direct", "11 ms"), strict=True):
        for work, colour in zip(WORKS, COLOURS, strict=True):
            points = [p for p in rates if (p["route"], p["work"]) == (route, work)]
            x = [p["prefetch"] for p in points]
            label = f"{1000 * work:g} ms of work"
            axes.plot(x, [p["measured"] for p in points], ".", color=colour, label=label)
            axes.plot(x, [p["simulated"] for p in points], color=colour, linewidth=1)
        axes.set_title(f"{route}: dots measured, lines simulated")
        axes.set_xlabel("prefetch")
        axes.set_ylabel("arrivals (msg/s)")
        axes.set_ylim(0, 1.35 * max(p["measured"] for p in rates))  # room for the legend
        axes.legend(fontsize=8, frameon=False)
    for axes, points, title in (
        (grid[1][0], latencies, "median latency at a load of 30 %"),
        (grid[1][1], fan_out, "median latency of copies"),
    ):
        for route, colour in zip(("direct", "11 ms"), COLOURS, strict=False):
            chosen = [p for p in points if p["route"] == route]
            x, y = [[1000 * p[key] for p in chosen] for key in ("measured", "simulated")]
            axes.loglog(x, y, ".", color=colour, label=route)
        both = [1000 * p["measured"] for p in points]
        ends = [min(both), max(both)]
        axes.loglog(ends, ends, color="black", linewidth=1)
        axes.fill_between(
            ends, [0.9 * e for e in ends], [1.1 * e for e in ends], color="black", alpha=0.1
        )
        axes.set_title(f"{title}, band 10 %")
        axes.set_xlabel("measured (ms)")
        axes.set_ylabel("simulated (ms)")
        axes.legend(fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
