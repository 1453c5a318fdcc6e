"""Delivered messages per second of wall time: this simulator beside SimPy and Ciw, same models.

SimPy runs the model twice: as its tutorial teaches, a process for every message, and as lean as
it can be, with bare timeouts and callbacks. All take turns in one process; compiling is apart.
How memory and time grow with the length of a run is measured in a new process for each run.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import peak_memory, spread
from simulator import (
    Consumer,
    Duration,
    Link,
    Publishers,
    Queue,
    Scenario,
    Simulation,
    load_scenario,
)

REPETITIONS = 5
LEAST_SPEEDUP_BY_CASE = {"rosa": 50, "topology": 30, "m_m_1": 100}
LENGTHS = (10**5, 10**6, 10**7, 10**8)
"""Messages delivered by runs of one topology, each ten times as long as the one before."""
TURNS_OF_LENGTHS = 3
"""The longest run takes most of a minute."""
ALLOWED_MEMORY = 1.05
"""Peak memory of the longest run over that of the shortest: constant, but for what the allocator
happens to keep."""
ALLOWED_COST = 1.25
"""Seconds per million messages, most over least among the lengths: as steady as the machine is."""
ALLOWED_QUEUES = 3.0
"""Cost per message of 1,000 queues over that of 10."""
FIRST_RUN = (
    "import time; start = time.perf_counter(); "
    "from simulator import Simulation, load_scenario; "
    "Simulation(load_scenario('rosa')).run_until(1.0); print(time.perf_counter() - start)"
)


def taking(work: Callable[[], float], overhead: float) -> Callable[[], float]:
    """How long a handler is busy with a message."""
    return lambda: work() + overhead


def drawn(duration: Duration) -> Callable[[], float]:
    """A function that draws a duration."""
    mean, sd = duration.mean, duration.sd or 0.0
    if duration.distribution == "exponential":
        return lambda: random.expovariate(1 / mean)
    if duration.distribution == "normal":
        return lambda: max(random.gauss(mean, sd), 0.0)
    return lambda: mean


@dataclass(frozen=True)
class Model:
    """What of a scenario the peers run: publishers, queues, windows, links, handlers."""

    publishers: list[tuple[str, float, Callable[[], float]]]  # queue, first at, every
    bounds: dict[str, int | None]
    consumers: list[tuple[str, int, int, float, Callable[[], float]]]
    """Queue, prefetch, handlers, one way of the link, work with overhead."""

    @staticmethod
    def of(scenario: Scenario) -> Model:
        """The model of a scenario."""
        links = {link.name: link.round_trip / 2 for link in scenario.links}
        publishers, consumers = [], []
        for group in scenario.publishers:
            for number in range(group.count):
                first = group.every.mean * number / group.count
                publishers.append((group.queue or "", first, drawn(group.every)))
        for consumer in scenario.consumers:
            work, overhead = drawn(consumer.work), consumer.overhead
            consumers.append(
                (
                    consumer.queue,
                    int(consumer.prefetch),
                    consumer.handlers,
                    links.get(consumer.link or "", 0.0),
                    taking(work, overhead),
                )
            )
        return Model(publishers, {q.name: q.max_length for q in scenario.queues}, consumers)


def simpy_processes(model: Model, seconds: float) -> int:
    """As SimPy's tutorial teaches: stores, resources, and a process for every message."""
    import simpy

    env = simpy.Environment()
    delivered = 0
    queues = {name: simpy.Store(env) for name in model.bounds}

    def publish(name: str, first: float, every: Callable[[], float]) -> Generator[Any, Any, None]:
        queue, bound = queues[name], model.bounds[name]
        yield env.timeout(first)
        while True:
            if bound is not None and len(queue.items) >= bound:
                queue.items.pop(0)
            yield queue.put(env.now)
            yield env.timeout(every())

    def handle(
        handlers: simpy.Resource, window: simpy.Container, delay: float, work: Callable[[], float]
    ) -> Generator[Any, Any, None]:
        nonlocal delivered
        yield env.timeout(delay)
        with handlers.request() as request:
            yield request
            delivered += 1
            yield env.timeout(work())
        yield env.timeout(delay)
        yield window.put(1)

    def consume(
        name: str, prefetch: int, handlers: int, delay: float, work: Callable[[], float]
    ) -> Generator[Any, Any, None]:
        window = simpy.Container(env, init=prefetch)
        threads = simpy.Resource(env, handlers)
        while True:
            yield window.get(1)
            yield queues[name].get()
            env.process(handle(threads, window, delay, work))

    for publisher in model.publishers:
        env.process(publish(*publisher))
    for consumer in model.consumers:
        env.process(consume(*consumer))
    env.run(until=seconds)
    return delivered


def simpy_lean(model: Model, seconds: float) -> int:
    """As lean as SimPy can be: bare timeouts and callbacks, deques for everything else."""
    import simpy

    env = simpy.Environment()
    delivered = 0
    queues: dict[str, deque[float]] = {
        name: deque(maxlen=bound) for name, bound in model.bounds.items()
    }
    ready: dict[str, deque[_Lean]] = {name: deque() for name in model.bounds}

    def later(delay: float, action: Callable[[Any], None]) -> None:
        env.timeout(delay).callbacks.append(action)

    class _Lean:
        def __init__(
            self, name: str, prefetch: int, handlers: int, delay: float, work: Callable[[], float]
        ) -> None:
            self.name, self.room, self.idle = name, prefetch, handlers
            self.delay, self.work, self.buffer = delay, work, 0

        def fill(self) -> None:
            queue = queues[self.name]
            while self.room and queue:
                queue.popleft()
                self.room -= 1
                later(self.delay, self.receive)
            if self.room and self not in ready[self.name]:
                ready[self.name].append(self)

        def receive(self, _: Any) -> None:
            if self.idle:
                self.idle -= 1
                self.begin()
            else:
                self.buffer += 1

        def begin(self) -> None:
            nonlocal delivered
            delivered += 1
            later(self.work(), self.finish)

        def finish(self, _: Any) -> None:
            later(self.delay, self.acknowledge)
            if self.buffer:
                self.buffer -= 1
                self.begin()
            else:
                self.idle += 1

        def acknowledge(self, _: Any) -> None:
            self.room += 1
            self.fill()

    def publisher(name: str, every: Callable[[], float]) -> Callable[[Any], None]:
        queue, waiting = queues[name], ready[name]

        def publish(_: Any) -> None:
            queue.append(env.now)
            if waiting:
                waiting.popleft().fill()
            later(every(), publish)

        return publish

    for name, first, every in model.publishers:
        later(first, publisher(name, every))
    for consumer in model.consumers:
        _Lean(*consumer).fill()
    env.run(until=seconds)
    return delivered


def ciw_m_m_1(seconds: float) -> int:
    """An M/M/1 queue at load 0.8, as Ciw's documentation writes it."""
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=0.8)],
        service_distributions=[ciw.dists.Exponential(rate=1.0)],
        number_of_servers=[1],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(seconds)
    return len(simulation.get_all_records())


def rosa() -> Scenario:
    scenario = load_scenario("rosa")
    return replace(scenario, consumers=[replace(scenario.consumers[0], prefetch=22)])


def topology(queues: int, consumers: int = 4) -> Scenario:
    """Queues with consumers each, over a link of 10 ms, at four fifths of their capacity."""
    names = [f"q{number}" for number in range(queues)]
    every, work = Duration(0.01 / (0.8 * consumers), "exponential"), Duration(0.01, "exponential")
    return Scenario(
        f"{queues} queues",
        1.0,
        [Publishers(f"to {name}", name, every) for name in names],
        [Queue(name) for name in names],
        [
            Consumer(f"{name}.{number}", name, work, link="link", prefetch=10)
            for name in names
            for number in range(consumers)
        ],
        [Link("link", 0.01)],
    )


def m_m_1() -> Scenario:
    return Scenario(
        "m/m/1",
        1.0,
        [Publishers("p", "queue", Duration(1.25, "exponential"))],
        [Queue("queue")],
        [Consumer("c", "queue", Duration(1.0, "exponential"))],
    )


def ours(scenario: Scenario, seconds: float) -> tuple[float, float]:
    """Messages handed to the business logic per second of wall and of simulated time."""
    simulation = Simulation(scenario)
    simulation.run_until(scenario.sample_interval)
    before = int(simulation.state.consumers["arrivals"].sum())
    start = time.perf_counter()
    simulation.run_until(scenario.sample_interval + seconds)
    taken = time.perf_counter() - start
    delivered = int(simulation.state.consumers["arrivals"].sum()) - before
    return delivered / taken, delivered / seconds


def peer(run: Callable[[float], int], seconds: float) -> tuple[float, float]:
    random.seed(1)
    start = time.perf_counter()
    delivered = run(seconds)
    return delivered / (time.perf_counter() - start), delivered / seconds


def compared(
    scenario: Scenario, seconds: float, peers: dict[str, tuple[Callable[[float], int], float]]
) -> dict[str, Any]:
    """Turns of this simulator and each peer, and the ratio of their medians."""
    rates: dict[str, list[float]] = {name: [] for name in ("simulator", *peers)}
    simulated: dict[str, float] = {}
    for _ in range(REPETITIONS):
        rate, simulated["simulator"] = ours(scenario, seconds)
        rates["simulator"].append(rate)
        for name, (run, peer_seconds) in peers.items():
            rate, simulated[name] = peer(run, peer_seconds)
            rates[name].append(rate)
    result: dict[str, Any] = {f"{name}_per_second": spread(each) for name, each in rates.items()}
    result["per_simulated_second"] = simulated  # alike: they run the same model
    for name in peers:
        result[f"ratio_{name}"] = (
            result["simulator_per_second"]["median"] / result[f"{name}_per_second"]["median"]
        )
    return result


def of_length(messages: int) -> dict[str, float]:
    """One run that delivers ``messages`` messages: its time, and this process's peak memory."""
    Simulation(topology(5)).run_until(1.0)  # loads the compiled engine
    simulation = Simulation(topology(5))
    start = time.perf_counter()
    simulation.run_until(messages / 1600.0)
    taken = time.perf_counter() - start
    return {
        "delivered": simulation.counts.delivered,
        "seconds_per_million": taken / simulation.counts.delivered * 1e6,
        "peak_rss_mb": peak_memory(),
        "rows_for_messages": int(simulation.state.pool.size),
    }


def by_length(lengths: Sequence[int], turns: int) -> dict[str, Any]:
    """Memory and time of runs of several lengths, each in a process of its own."""
    in_new_process(FIRST_RUN)  # compiles if need be, which takes memory of its own
    runs: dict[int, list[dict[str, float]]] = {messages: [] for messages in lengths}
    for _ in range(turns):
        for messages in lengths:
            code = (
                "import json; from benchmarks.simulator_speed import of_length; "
                f"print(json.dumps(of_length({messages})))"
            )
            runs[messages].append(json.loads(in_new_process(code)))
    costs = [
        statistics.median(run["seconds_per_million"] for run in runs[messages])
        for messages in lengths
    ]
    memory = [
        statistics.median(run["peak_rss_mb"] for run in runs[messages]) for messages in lengths
    ]
    memory_growth, cost_spread = memory[-1] / memory[0], max(costs) / min(costs)
    return {
        "runs": {str(messages): each for messages, each in runs.items()},
        "peak_rss_mb": dict(zip(map(str, lengths), memory, strict=True)),
        "memory_growth": memory_growth,
        "allowed_memory_growth": ALLOWED_MEMORY,
        "seconds_per_million": dict(zip(map(str, lengths), costs, strict=True)),
        "cost_spread": cost_spread,
        "allowed_cost_spread": ALLOWED_COST,
        "met": memory_growth <= ALLOWED_MEMORY and cost_spread <= ALLOWED_COST,
    }


def by_queues() -> dict[str, Any]:
    """The cost of a message with ten and a hundred times the queues."""
    costs: dict[int, list[float]] = {queues: [] for queues in (10, 100, 1000)}
    for _ in range(REPETITIONS):
        for queues, seconds in costs.items():
            seconds.append(1e6 / ours(topology(queues), 1e6 / (320.0 * queues))[0])
    ratios = [many / few for many, few in zip(costs[1000], costs[10], strict=True)]
    return {
        "seconds_per_million": {str(queues): spread(each) for queues, each in costs.items()},
        "cost_of_100_times_the_queues": spread(ratios),
        "allowed": ALLOWED_QUEUES,
        "met": statistics.median(ratios) <= ALLOWED_QUEUES,
    }


def growth() -> dict[str, Any]:
    """One topology run ten times as long each time, and one with ten times the queues."""
    result: dict[str, Any] = {
        "by_messages": by_length(LENGTHS, TURNS_OF_LENGTHS),
        "by_queues": by_queues(),
    }
    result["met"] = result["by_messages"]["met"] and result["by_queues"]["met"]
    return result


def in_new_process(code: str, environment: Mapping[str, str] | None = None) -> str:
    """What code prints in a process of its own, with more in its environment."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def first_runs() -> dict[str, float]:
    """Seconds to import, compile and run a second of a scenario; again with what was compiled.

    numba keeps machine code where NUMBA_CACHE_DIR says, before any other place.
    """
    with tempfile.TemporaryDirectory() as folder:
        cache = {"NUMBA_CACHE_DIR": folder}
        return {
            "compile_seconds": float(in_new_process(FIRST_RUN, cache)),
            "first_run_of_a_second_process_seconds": float(in_new_process(FIRST_RUN, cache)),
        }


def run() -> dict[str, Any]:
    model = Model.of(rosa())
    large = Model.of(topology(50))
    results: dict[str, Any] = {
        "rosa": compared(
            rosa(),
            300.0,
            {
                "simpy": (lambda t: simpy_processes(model, t), 10.0),
                "simpy_lean": (lambda t: simpy_lean(model, t), 20.0),
            },
        ),
        "topology": compared(
            topology(50),
            30.0,
            {
                "simpy": (lambda t: simpy_processes(large, t), 1.0),
                "simpy_lean": (lambda t: simpy_lean(large, t), 2.0),
            },
        ),
        "m_m_1": compared(m_m_1(), 1e6, {"ciw": (ciw_m_m_1, 20_000.0)}),
    }
    for name, least in LEAST_SPEEDUP_BY_CASE.items():
        against = "ratio_ciw" if name == "m_m_1" else "ratio_simpy"
        results[name]["wanted"] = least
        results[name]["met"] = results[name][against] >= least
    results["growth"] = growth()
    return results | first_runs()
