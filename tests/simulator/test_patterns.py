"""A consumer with prefetch j is Sachs' patterns 7 and 11: the same deliveries, one by one.

Pattern 7, resource-controlled pull: j slots, each released when its message is processed.
Pattern 11, queueing load balancer: consumer i holds j ready tokens, any ready one is chosen.

Below is a second, slow implementation that knows only tokens. Both replay the same times; there
are no links, and of what happens at one instant publishing comes first, then the consumers in
their order, each finishing, giving its token back and being served before the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import Consumer, Duration, Publishers, Queue, Scenario, Simulation

SEED = 3


def split_mix(owner: str) -> Iterator[float]:
    """The stream of uniform numbers that belongs to an owner."""
    digest = hashlib.blake2b(f"{SEED}/{owner}".encode(), digest_size=8).digest()
    state, mask = int.from_bytes(digest, "big"), 2**64 - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield (((z ^ (z >> 31)) >> 12) + 0.5) * 2.0**-52


@dataclass
class Server:
    works: list[float]
    tokens: int
    used: int = 0
    waiting: list[int] = field(default_factory=list)
    working: int | None = None
    done: float = float("inf")


class Tokens:
    """Messages go to ready servers, which are in the order in which they became ready."""

    def __init__(self, gaps: list[float], servers: list[Server], random: bool) -> None:
        self.gaps, self.servers = gaps, servers
        self.chance = split_mix("queues/queue/choose") if random else None
        self.queue: list[int] = []
        self.ready = [i for i, server in enumerate(servers) if server.tokens]
        self.started: list[tuple[float, int, int]] = []
        self.sent = 0

    def run(self, end: float) -> None:
        next_publish = self.gaps[0]
        while True:
            now = min(next_publish, *(server.done for server in self.servers))
            if now > end:
                return
            if next_publish == now:
                self.queue.append(self.sent)
                self.sent += 1
                next_publish = now + self.gaps[self.sent % len(self.gaps)]
                self.dispatch(now)
                continue
            index = next(i for i, server in enumerate(self.servers) if server.done == now)
            server = self.servers[index]
            server.working, server.done = None, float("inf")
            self.begin(index, now)
            server.tokens += 1
            if index not in self.ready:
                self.ready.append(index)
            self.dispatch(now)

    def dispatch(self, now: float) -> None:
        while self.queue and self.ready:
            place = 0
            if self.chance is not None and len(self.ready) > 1:
                place = int(next(self.chance) * len(self.ready))
            index = self.ready.pop(place)
            server = self.servers[index]
            server.tokens -= 1
            server.waiting.append(self.queue.pop(0))
            if server.tokens:
                self.ready.append(index)
            self.begin(index, now)

    def begin(self, index: int, now: float) -> None:
        server = self.servers[index]
        if server.working is None and server.waiting:
            server.working = server.waiting.pop(0)
            server.done = now + server.works[server.used % len(server.works)]
            server.used += 1
            self.started.append((now, index, server.working))


def deliveries(
    gaps: list[float], works: list[list[float]], tokens: list[int], random: bool, end: float
) -> list[tuple[float, int, int]]:
    """When the simulator's business logic received which message, read after every instant."""
    scenario = Scenario(
        "tokens",
        1.0,
        [Publishers("p", "queue", Duration(distribution="replay", values=gaps))],
        [Queue("queue", dispatch="random" if random else "round-robin")],
        [
            Consumer(f"c{i}", "queue", Duration(distribution="replay", values=times), prefetch=j)
            for i, (times, j) in enumerate(zip(works, tokens, strict=True))
        ],
    )
    simulation = Simulation(scenario, SEED)
    seen: list[tuple[float, int, int]] = []
    published: dict[float, int] = {}
    working = [-1] * len(works)
    while (due := float(simulation.state.timers[1]["due"])) <= end or simulation.now == 0:
        simulation.run_until(max(due, 0.0) if due < float("inf") else 0.0)
        if due == float("inf"):
            continue
        state = simulation.state
        for i, handler in enumerate(state.handlers):
            totals = int(state.consumers[i]["arrivals"])
            if totals != working[i] and totals > 0:
                sent = float(state.pool[int(handler["message"])]["published"])
                seen.append((due, i, published.setdefault(sent, len(published))))
            working[i] = totals
        if int(state.publishers[0]["published"]) > len(published):
            published.setdefault(due, len(published))
    return seen


times = st.floats(0.01, 1.0)


@settings(max_examples=60)
@given(
    st.lists(times, min_size=3, max_size=20),
    st.lists(st.lists(times, min_size=3, max_size=20), min_size=1, max_size=4),
    st.data(),
    st.booleans(),
)
def test_deliveries_are_those_of_slots_and_ready_tokens(
    gaps: list[float], works: list[list[float]], data: st.DataObject, random: bool
) -> None:
    tokens = [data.draw(st.integers(1, 5)) for _ in works]
    expected = Tokens(
        gaps, [Server(each, j) for each, j in zip(works, tokens, strict=True)], random
    )
    expected.run(20.0)
    got = deliveries(gaps, works, tokens, random, 20.0)
    assert sorted(got) == sorted(expected.started)


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=1, max_size=3),
    st.integers(1, 3),
    st.booleans(),
)
def test_also_when_many_things_happen_at_one_instant(
    gaps: list[int], works: list[list[int]], slots: int, random: bool
) -> None:
    times = [float(gap) for gap in gaps]
    servers = [[float(work) for work in each] for each in works]
    expected = Tokens(times, [Server(each, slots) for each in servers], random)
    expected.run(60.0)
    got = deliveries(times, servers, [slots] * len(works), random, 60.0)
    assert sorted(got) == sorted(expected.started)
