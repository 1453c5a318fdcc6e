"""Whatever is connected with whatever: no message is lost or made, and every run ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import (
    Binding,
    Broker,
    Change,
    Consumer,
    Duration,
    Exchange,
    Link,
    Message,
    Meter,
    Publishers,
    Queue,
    Rule,
    Scenario,
    Send,
    Simulation,
    Size,
)
from simulator.engine.messages import AT_BROKER, FREE
from simulator.engine.rows import ENTER, ROUTE
from simulator.engine.simulation_state import SimulationState
from simulator.scenario.rules import CONSUMER_ACTIONS, METRICS, PUBLISHER_ACTIONS, VALUE_ACTIONS
from tests.simulator.test_queues import conserved
from tests.simulator.test_window import durations

pytestmark = pytest.mark.slow

QUEUES = ("a", "b", "c")
CONSUMERS = ("first", "second", "third")
NAMES = {"queues": QUEUES, "consumers": CONSUMERS, "publishers": ("p0",)}
KEYS = ("red", "red.dark", "green", *QUEUES)
COLOURS = ("red", "green")
MOST_PREFETCH = 20
some_key = st.sampled_from(KEYS)
some_queue = st.sampled_from(QUEUES)
some_headers = st.fixed_dictionaries(
    {"colour": st.sampled_from(COLOURS)}, optional={"urgent": st.booleans()}
)
some_prefetch = st.integers(1, MOST_PREFETCH) | st.floats(0.0, MOST_PREFETCH)
sizes = (
    st.integers(0, 5000)
    | st.floats(1.0, 5000.0).map(lambda mean: Size(mean, "exponential"))
    | st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=3).map(
        lambda values: Size(distribution="replay", values=values)
    )
)


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


def times(low: float, high: float) -> st.SearchStrategy[Duration]:
    """A duration of any distribution, or a few that follow each other."""
    values = st.lists(st.floats(low, high), min_size=1, max_size=3)
    return durations(low, high) | values.map(
        lambda values: Duration(distribution="replay", values=values)
    )


def schedules(factors: st.SearchStrategy[float]) -> st.SearchStrategy[list[Change]]:
    overs = st.just(0.0) | st.floats(0.01, 0.2)
    points = st.lists(st.tuples(st.floats(0.0, 2.0), factors, overs), max_size=3)
    return points.map(
        lambda points: [
            Change(number * 0.5 + at / 10, factor, over)
            for number, (at, factor, over) in enumerate(points)
        ]
    )


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    weights = [draw(st.integers(1, 4)), *draw(st.lists(st.integers(0, 4), max_size=2))]
    return [
        Message(
            draw(some_key),
            draw(maybe(st.sampled_from(["order", "answer"]))),  # type: ignore[arg-type]
            weight / sum(weights),
            draw(sizes),
            draw(st.booleans()),
            draw(st.integers(0, 4)),
            draw(some_headers),
        )
        for weight in weights
    ]


sends = st.builds(
    Send,
    some_queue,
    probability=st.floats(0.0, 0.6),
    size=sizes,
    persistent=st.booleans(),
    type=st.sampled_from(["answer", "copy"]),
    headers=some_headers,
)


@st.composite
def queues(draw: st.DrawFn, name: str) -> Queue:
    dead = draw(maybe(st.sampled_from(["", "x"])))
    key = draw(some_queue) if dead == "" else draw(maybe(some_key)) if dead == "x" else None
    return Queue(
        name,
        draw(maybe(st.integers(1, 50))),  # type: ignore[arg-type]
        draw(st.sampled_from(["drop-head", "reject-publish"])),
        draw(maybe(st.floats(0.001, 0.5))),  # type: ignore[arg-type]
        draw(st.integers(1, 4)),
        draw(maybe(st.integers(0, 5))),  # type: ignore[arg-type]
        dead,  # type: ignore[arg-type]
        key,  # type: ignore[arg-type]
        draw(st.sampled_from(["round-robin", "random"])),
        draw(st.booleans()),
        draw(st.booleans()),
        visibility_timeout=draw(maybe(st.floats(0.005, 0.5))),  # type: ignore[arg-type]
        slowdown=draw(st.just(0.0) | st.floats(0.001, 0.1)),
    )


@st.composite
def consumers(draw: st.DrawFn, name: str) -> Consumer:
    when = draw(st.sampled_from(["after-processing", "on-receipt", "automatic"]))
    after = when == "after-processing"
    prefetch = draw(some_prefetch)
    handlers = draw(st.integers(1, 3))
    crashes = draw(st.booleans())
    return Consumer(
        name,
        draw(some_queue),
        draw(times(0.001, 0.02)),
        handlers,
        draw(st.floats(0.0, 0.002)),
        draw(maybe(st.just("link"))),  # type: ignore[arg-type]
        prefetch,
        when,
        draw(st.integers(1, MOST_PREFETCH)) if after else 1,
        draw(st.booleans()) if after and handlers == 1 else False,
        draw(st.floats(0.0, 1.0)) if after else 0.0,
        draw(st.sampled_from(["requeue", "reject"])),
        draw(times(0.05, 1.0)) if crashes else None,
        draw(times(0.01, 0.3)) if crashes else None,
        # Work of no time in a circle stops the clock, which is refused: not drawn here.
        draw(schedules(st.floats(0.1, 3.0))),
        draw(st.lists(sends, max_size=2)),
    )


@st.composite
def publishers(draw: st.DrawFn, name: str) -> Publishers:
    return Publishers(
        name,
        every=draw(times(0.002, 0.1)),
        count=draw(st.integers(1, 4)),
        exchange="x",
        messages=draw(messages()),
        confirms=draw(maybe(st.integers(1, 20))),  # type: ignore[arg-type]
        link=draw(maybe(st.just("link"))),  # type: ignore[arg-type]
        schedule=draw(schedules(st.floats(0.0, 3.0))),
    )


costs = st.just(0.0) | st.floats(1e-6, 0.003)
brokers = st.builds(
    Broker,
    st.integers(1, 4),
    *([costs] * 5),
    st.floats(0.0, 1e-6),
    costs,
    st.floats(0.0, 1e-6),
    st.integers(20, 400),
    st.integers(1, 20),
    maybe(st.integers(5_000, 100_000)),
)
VALUES = {
    "set-prefetch": st.floats(0.0, MOST_PREFETCH),
    "set-service-time": st.floats(0.001, 0.02),
    "set-publish-rate": st.floats(0.1, 3.0),
}


@st.composite
def rules(draw: st.DrawFn, name: str) -> Rule:
    measured = draw(st.sampled_from(list(METRICS)))
    action = draw(st.sampled_from(CONSUMER_ACTIONS + PUBLISHER_ACTIONS))
    threshold = draw(st.floats(0.0, 1.0) | st.floats(0.0, 30.0))
    above = draw(st.booleans())
    return Rule(
        name,
        draw(st.sampled_from(METRICS[measured])),
        draw(st.sampled_from(NAMES[measured])),
        action,
        draw(st.sampled_from(NAMES["publishers" if action in PUBLISHER_ACTIONS else "consumers"])),
        threshold if above else None,
        None if above else threshold,
        draw(st.floats(0.0, 0.5)),
        draw(st.floats(0.05, 0.4)),
        draw(st.floats(0.0, 0.5)),
        draw(VALUES[action]) if action in VALUE_ACTIONS else None,
        draw(st.integers(1, 6)) if action.startswith("add-") else None,
        draw(st.integers(0, 1)),
    )


@st.composite
def bindings(draw: st.DrawFn) -> list[Binding]:
    """Every key and every colour comes to a queue, and some to more."""
    keys = st.sampled_from([*KEYS, "#", "red.*"])
    asked = st.fixed_dictionaries(
        {}, optional={"colour": st.sampled_from(COLOURS), "urgent": st.booleans()}
    )
    more = st.builds(
        Binding, st.just("x"), some_queue, keys, asked, st.sampled_from(["all", "any"])
    )
    made = [Binding("x", draw(some_queue), key, {"colour": "none"}) for key in KEYS]
    made += [Binding("x", draw(some_queue), "none", {"colour": colour}) for colour in COLOURS]
    return made + draw(st.lists(more, max_size=3))


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    made = {name: draw(queues(name)) for name in QUEUES}
    readers = [draw(consumers(name)) for name in CONSUMERS]
    for place, reader in enumerate(readers):
        if made[reader.queue].visibility_timeout is not None and draw(st.booleans()):
            readers[place] = replace(reader, on_failure="no-answer")
    return Scenario(
        "any",
        0.5,
        [draw(publishers(f"p{n}")) for n in range(draw(st.integers(1, 3)))],
        list(made.values()),
        readers,
        [Link("link", 0.01, draw(times(0.0005, 0.002)), draw(st.floats(1e5, 1e8)))],
        [Exchange("x", draw(st.sampled_from(["direct", "fanout", "topic", "headers"])))],
        draw(bindings()),
        draw(maybe(brokers)),  # type: ignore[arg-type]
        [draw(rules(f"rule {n}")) for n in range(draw(st.integers(0, 2)))],
    )


KNOBS: dict[str, Callable[[Simulation, str, str, float], object]] = {
    "set_prefetch": lambda run, consumer, _, value: run.set_prefetch(
        consumer, value * MOST_PREFETCH
    ),
    "set_service_time": lambda run, consumer, _, value: run.set_service_time(
        consumer, 0.001 + value * 0.02
    ),
    "add_consumer": lambda run, consumer, _, value: run.add_consumer(consumer),
    "remove_consumer": lambda run, consumer, _, value: run.remove_consumer(consumer),
    "set_publish_rate": lambda run, _, group, value: run.set_publish_rate(0.1 + value * 3, group),
    "pause_publishers": lambda run, _, group, value: run.pause_publishers(group),
    "resume_publishers": lambda run, _, group, value: run.resume_publishers(group),
    "add_publishers": lambda run, _, group, value: run.add_publishers(group),
    "remove_publishers": lambda run, _, group, value: run.remove_publishers(group),
}
turns = st.lists(
    st.tuples(st.sampled_from(list(KNOBS)), st.integers(0, 5), st.floats(0.0, 1.0)), max_size=3
)


def change(simulation: Simulation, turns: list[tuple[str, int, float]]) -> None:
    """Turn knobs of all participants, including those that have joined or were removed."""
    for knob, place, value in turns:
        consumers, groups = simulation.consumers, simulation.publishers
        consumer, group = consumers[place % len(consumers)], groups[place % len(groups)]
        KNOBS[knob](simulation, consumer, group, value)


def standing(state: SimulationState, line: int) -> Iterator[np.void]:
    """The messages of a line."""
    message = state.lines[line]["first"]
    for _ in range(state.lines[line]["length"]):
        yield state.pool[message]
        message = state.pool[message]["next"]


def on_the_way(state: SimulationState) -> int:
    """Copies that were sent or dead-lettered, and that are in no queue yet."""
    assert state.lines[AT_BROKER]["length"] == 0
    targets = state.routes["targets"]
    sent = [
        row for port in state.ports if not port["direct"] for row in standing(state, port["line"])
    ]
    jobs = [
        state.pool[process["message"]] for process in state.processes if process["message"] >= 0
    ]
    for process in state.processes:
        jobs += [*standing(state, process["line"]), *standing(state, process["line"] + 1)]
    sent += [row for row in jobs if row["job"] == ROUTE]
    entering = sum(row["job"] == ENTER for row in jobs)
    clock = state.clock[0]
    if clock["disk"]:
        # What is not settled only stands for a message that is in its queue already.
        disk = [*standing(state, clock["disk_line"]), *standing(state, clock["disk_batch"])]
        entering += sum(row["settled"] for row in disk)
    return int(sum(targets[row["route"]] for row in sent) + entering)


def check_that_all_arrive(simulation: Simulation) -> None:
    """Between the sender of a message and the queues it goes to, none is lost or made."""
    state = simulation.state
    queues, kinds = state.queues, state.kinds
    published = [
        kind for kinds in simulation.scenario.message_paths().published.values() for kind in kinds
    ]
    assert state.publishers["published"].sum() == kinds["sent"][published].sum()
    copies = (kinds["sent"] * state.routes["targets"][kinds["route"]]).sum()
    copies += queues["dead_copies"].sum()
    arrived = simulation.counts.published + simulation.counts.cycled
    assert copies == arrived + on_the_way(state)
    assert (queues["dead_copies"] >= queues["dead_lettered"]).all()


def bounds_of_windows(simulation: Simulation) -> np.ndarray:
    """What a run from here may have in flight at most, if no window is changed."""
    consumers = simulation.state.consumers
    return np.maximum(consumers["in_flight"], np.ceil(consumers["wanted_prefetch"]))


def check_windows(simulation: Simulation, bounds: np.ndarray) -> None:
    """No window held more than was allowed at some time, or had been in flight already."""
    consumers = simulation.state.consumers
    assert (consumers["in_flight"] >= 0).all()
    most = np.array([simulation.most_in_flight(name) for name in simulation.consumers])
    allowed = np.full(consumers.size, MOST_PREFETCH)  # by those that rules have added
    allowed[: bounds.size] = np.maximum(bounds, np.ceil(consumers["prefetch"][: bounds.size]))
    for rule in simulation.scenario.rules:
        if rule.action == "set-prefetch":
            allowed = np.maximum(allowed, math.ceil(rule.value or 0.0))
    assert (most <= allowed).all()


def check(simulation: Simulation) -> None:
    state = simulation.state
    queues, consumers = state.queues, state.consumers
    assert conserved(simulation.counts)
    check_that_all_arrive(simulation)
    for name in ("length", "bytes", "ready"):
        assert (queues[name] >= 0).all()
    bounds = [
        queue.max_length if queue.max_length and queue.overflow == "drop-head" else math.inf
        for queue in simulation.scenario.queues
    ]
    assert (queues["length"] <= bounds).all()
    for name in ("in_flight_time", "starved_time", "work_time", "buffer_time", "busy_time"):
        assert (consumers[name] >= -1e-9).all()
    assert state.clock[0]["bytes"] == queues["bytes"].sum()
    # Every row of the pool stands in exactly one line, is worked on, or waits for confirms.
    held = int((state.handlers["message"] >= 0).sum())
    busy = int((state.processes["message"] >= 0).sum()) if state.processes.size else 0
    slips = int(state.publishers["unconfirmed"].sum())
    confirming = int(state.lines["length"][state.publishers["confirm_line"]][
        state.publishers["window"] > 0].sum())  # fmt: skip
    assert state.lines["length"].sum() + held + busy + slips - confirming == state.pool.size
    assert state.lines["length"][FREE] >= 0
    for latency in state.latencies:
        assert latency["sum"] >= 0


@settings(max_examples=100)
@given(scenarios(), st.integers(0, 2**32), st.lists(turns, min_size=4, max_size=4))
def test_conservation_always_holds(
    scenario: Scenario, seed: int, changes: list[list[tuple[str, int, float]]]
) -> None:
    simulation = Simulation(scenario, seed)
    meter = Meter(simulation)
    for step, knobs in enumerate([[], *changes], 1):
        change(simulation, knobs)
        bounds = bounds_of_windows(simulation)
        simulation.run_until(step * 0.5)
        check(simulation)
        check_windows(simulation, bounds)
        metrics = meter.read()
        for consumer in metrics.consumers.values():
            assert -1e-9 <= consumer.utilisation <= 1 + 1e-9
            assert -1e-9 <= consumer.starved <= 1 + 1e-9
        for group in metrics.publishers.values():
            assert -1e-9 <= group.blocked <= 1 + 1e-9
        assert metrics.broker.disk_utilisation >= 0


@settings(max_examples=20)
@given(scenarios(), st.integers(0, 2**32), turns)
def test_cutting_any_run_changes_nothing(
    scenario: Scenario, seed: int, knobs: list[tuple[str, int, float]]
) -> None:
    whole, pieces = Simulation(scenario, seed), Simulation(scenario, seed)
    whole.run_until(0.5)
    change(whole, knobs)
    whole.run_until(1.0)
    for step in range(1, 41):
        pieces.run_until(step / 40)
        if step == 20:
            change(pieces, knobs)
    for name in whole.state.ROWS:
        assert np.array_equal(getattr(whole.state, name), getattr(pieces.state, name)), name


def test_a_circle_of_dead_letters_counts_what_it_discards() -> None:
    after = dict(zip(QUEUES, QUEUES[1:] + QUEUES[:1], strict=True))
    circle = [
        Queue(name, message_ttl=1.0, dead_letter_exchange="", dead_letter_routing_key=after[name])
        for name in QUEUES
    ]
    scenario = Scenario(
        "circle",
        1.0,
        [Publishers("p", "a", Duration(0.1))],
        circle,
        [Consumer("c", "a", Duration(0.01), prefetch=0)],
    )
    simulation = Simulation(scenario)
    simulation.run_until(100.0)
    counts = simulation.counts
    # Ten a second, each for a second in each queue; from the last none comes back to the first.
    assert list(simulation.state.queues["cycled"]) == [970, 0, 0]
    assert counts.cycled + counts.queued == simulation.state.publishers["published"].sum()
    assert counts.expired == counts.dead_lettered == counts.published - counts.queued
    check(simulation)
