"""Whatever is connected with whatever: no message is lost or made, and every run ends."""

from __future__ import annotations

import math
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
from simulator.messages import FREE
from tests.simulator.test_queues import conserved
from tests.simulator.test_window import durations

pytestmark = pytest.mark.slow

QUEUES = ("a", "b", "c")
KEYS = ("red", "red.dark", "green", *QUEUES)
some_key = st.sampled_from(KEYS)
some_queue = st.sampled_from(QUEUES)
sizes = st.integers(0, 5000) | st.floats(1.0, 5000.0).map(lambda mean: Size(mean, "exponential"))


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


def schedules(factors: st.SearchStrategy[float]) -> st.SearchStrategy[list[Change]]:
    overs = st.just(0.0) | st.floats(0.01, 0.2)
    points = st.lists(st.tuples(st.floats(0.0, 2.0), factors, overs), max_size=3)
    return points.map(
        lambda points: [
            Change(number * 0.5 + at / 10, factor, over)
            for number, (at, factor, over) in enumerate(points)
        ]
    )


messages = st.builds(
    Message,
    some_key,
    probability=st.just(1.0),
    size=sizes,
    persistent=st.booleans(),
    priority=st.integers(0, 4),
)
sends = st.builds(
    Send,
    some_queue,
    probability=st.floats(0.0, 0.6),
    size=sizes,
    persistent=st.booleans(),
    type=st.sampled_from(["answer", "copy"]),
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
    prefetch = draw(st.integers(1, 20))
    handlers = draw(st.integers(1, 3))
    crashes = draw(st.booleans())
    return Consumer(
        name,
        draw(some_queue),
        draw(durations(0.001, 0.02)),
        handlers,
        draw(st.floats(0.0, 0.002)),
        draw(maybe(st.just("link"))),  # type: ignore[arg-type]
        prefetch,
        when,
        draw(st.integers(1, prefetch)) if after else 1,
        draw(st.booleans()) if after and handlers == 1 else False,
        draw(st.floats(0.0, 1.0)) if after else 0.0,
        draw(st.sampled_from(["requeue", "reject"])),
        draw(durations(0.05, 1.0)) if crashes else None,
        draw(durations(0.01, 0.3)) if crashes else None,
        # Work of no time in a circle stops the clock, which is refused: not drawn here.
        draw(schedules(st.floats(0.1, 3.0))),
        draw(st.lists(sends, max_size=2)),
    )


@st.composite
def publishers(draw: st.DrawFn, name: str) -> Publishers:
    return Publishers(
        name,
        every=draw(durations(0.002, 0.1)),
        count=draw(st.integers(1, 4)),
        exchange="x",
        messages=[draw(messages)],
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
rules = st.builds(
    Rule,
    st.just("rule"),
    st.just("length"),
    some_queue,
    st.sampled_from(["add-consumer", "remove-consumer"]),
    st.just("first"),
    above=st.floats(0.0, 30.0),
    every=st.floats(0.05, 0.4),
    hold=st.floats(0.0, 0.5),
    takes=st.floats(0.0, 0.5),
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    keys = st.sampled_from([*KEYS, "#", "red.*"])
    bindings = [Binding("x", draw(some_queue), key) for key in KEYS]
    bindings += draw(st.lists(st.builds(Binding, st.just("x"), some_queue, keys), max_size=3))
    made = {name: draw(queues(name)) for name in QUEUES}
    readers = [draw(consumers(name)) for name in ("first", "second", "third")]
    for place, reader in enumerate(readers):
        if made[reader.queue].visibility_timeout is not None and draw(st.booleans()):
            readers[place] = replace(reader, on_failure="no-answer")
    return Scenario(
        "any",
        0.5,
        [draw(publishers(f"p{n}")) for n in range(draw(st.integers(1, 3)))],
        list(made.values()),
        readers,
        [Link("link", 0.01, Duration(0.001, "exponential"), draw(st.floats(1e5, 1e8)))],
        [Exchange("x", draw(st.sampled_from(["direct", "fanout", "topic"])))],
        bindings,
        draw(maybe(brokers)),  # type: ignore[arg-type]
        draw(st.lists(rules, max_size=1)),
    )


def check(simulation: Simulation) -> None:
    state = simulation.state
    queues, consumers = state.queues, state.consumers
    assert conserved(simulation.counts)
    for name in ("length", "bytes", "ready"):
        assert (queues[name] >= 0).all()
    bounds = [
        queue.max_length if queue.max_length and queue.overflow == "drop-head" else math.inf
        for queue in simulation.scenario.queues
    ]
    assert (queues["length"] <= bounds).all()
    assert (consumers["in_flight"] >= 0).all()
    limit = np.maximum(np.ceil(consumers["prefetch"]), 0)
    assert (consumers["in_flight"] <= limit).all()
    assert (consumers["most_in_flight"] <= limit).all()
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
@given(scenarios(), st.integers(0, 2**32))
def test_conservation_always_holds(scenario: Scenario, seed: int) -> None:
    simulation = Simulation(scenario, seed)
    meter = Meter(simulation)
    for step in range(1, 6):
        simulation.run_until(step * 0.5)
        check(simulation)
        metrics = meter.read()
        for consumer in metrics.consumers.values():
            assert -1e-9 <= consumer.utilisation <= 1 + 1e-9
            assert -1e-9 <= consumer.starved <= 1 + 1e-9
        for group in metrics.publishers.values():
            assert -1e-9 <= group.blocked <= 1 + 1e-9
        assert metrics.broker.disk_utilisation >= 0


@settings(max_examples=20)
@given(scenarios(), st.integers(0, 2**32))
def test_cutting_any_run_changes_nothing(scenario: Scenario, seed: int) -> None:
    whole, pieces = Simulation(scenario, seed), Simulation(scenario, seed)
    whole.run_until(1.0)
    for step in range(1, 41):
        pieces.run_until(step / 40)
    for name in whole.state.ROWS:
        assert np.array_equal(getattr(whole.state, name), getattr(pieces.state, name)), name
