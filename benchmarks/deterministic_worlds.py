"""Deterministic worlds: events and seeds per second, and how many violate an invariant.

``DETERMINISTIC_WORLDS_EVENTS`` is the number of events to run at least, 10^8 without it, and
``DETERMINISTIC_WORLDS_FIRST_SEED`` the seed to go on from: a run that was stopped has printed
the seeds it has done.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from multiprocessing import get_context
from typing import Any

from tests.worlds.bounded import bounded_world
from tests.worlds.broker import Violation
from tests.worlds.world import World

EVENTS = 10**8
FIRST_SEED = 1_000_000
"""Beyond the seeds of the tests."""
PROCESSES = 2
CHUNK = 500
"""Seeds that a process runs before it reports."""
WANTED_EVENTS_PER_SECOND = 60_000
"""Of one core."""
BOUNDED_EVERY = 5
"""One world in so many has a ceiling on its rate."""
LINE_EVERY_SECONDS = 10.0
FEWER_COLLECTIONS = (50_000, 20, 100)
"""Objects made before Python looks for garbage: a world makes many and keeps few."""


def worlds(first: int) -> tuple[int, float, list[str]]:
    """Events, seconds of processor time and violations of a chunk of seeds."""
    gc.set_threshold(*FEWER_COLLECTIONS)
    start = time.process_time()
    events, violations = 0, []
    for seed in range(first, first + CHUNK):
        world = bounded_world(seed) if seed % BOUNDED_EVERY == 0 else World(seed)
        try:
            world.run()
        except Violation as violation:
            violations.append(str(violation))
        events += world.events
    return events, time.process_time() - start, violations


def run() -> dict[str, Any]:
    wanted = int(float(os.environ.get("DETERMINISTIC_WORLDS_EVENTS", EVENTS)))
    first = int(os.environ.get("DETERMINISTIC_WORLDS_FIRST_SEED", FIRST_SEED))
    events, seeds, seconds = 0, 0, 0.0
    violations: list[str] = []
    start = line_at = time.perf_counter()
    with get_context("spawn").Pool(PROCESSES) as pool:
        firsts = iter(range(first, sys.maxsize, CHUNK))
        running = [pool.apply_async(worlds, (next(firsts),)) for _ in range(2 * PROCESSES)]
        while running:
            more, taken, found = running.pop(0).get()
            events, seconds, seeds = events + more, seconds + taken, seeds + CHUNK
            violations += found
            for violation in found:
                print(violation, file=sys.stderr)
            if events + len(running) * more < wanted:
                running.append(pool.apply_async(worlds, (next(firsts),)))
            if time.perf_counter() >= line_at:
                line_at = time.perf_counter() + LINE_EVERY_SECONDS
                print(
                    f"{events:,} of {wanted:,} events, seeds {first} to {first + seeds - 1}, "
                    f"{len(violations)} violations",
                    file=sys.stderr,
                )
    elapsed = time.perf_counter() - start
    return {
        "events": events,
        "seeds": seeds,
        "first_seed": first,
        "processes": PROCESSES,
        "events_per_second": events / elapsed,
        "seeds_per_second": seeds / elapsed,
        "events_per_second_of_one_core": events / seconds,
        "wanted_events_per_second_of_one_core": WANTED_EVENTS_PER_SECOND,
        "violations": len(violations),
        "first_violations": violations[:10],
        "met": not violations and events >= wanted and events / seconds >= WANTED_EVENTS_PER_SECOND,
    }
