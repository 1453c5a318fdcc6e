"""Four processes that share 100 messages/second, while members are killed, stopped and added.

Handlers note when they start, by the clock that all processes of a machine have in common. Every
30 s something happens; the last 15 s before that are when all are well. What was found goes into
docs/shared-goal.md::

    python -m benchmarks fleet_bound > found.json
    python -m benchmarks.fleet_bound --page found.json
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks import pages
from tests.sharing.processes import SharingProcess, SharingProcesses, most_in
from tests.testbed import start_broker
from tests.testbed.publishing import declared_queue, fill

RATE = 100.0
SECONDS = 600.0
CYCLE_SECONDS = 30.0
WELL_FROM_SECONDS = 15.0
MEMBERS = 4
STOPPED_SECONDS = 7.0
USED = 0.95
"""Part of the rate that must be seen in a second for a share to count as taken over."""

MOST_IN_1_S = 105
MOST_IN_10_S = 1010
"""Hand-overs: the rate and what a burst of all, one of each member at least, adds to it."""

LEAST_WHEN_WELL = 0.97
"""Part of the rate: members keep 0.5 % of it free, and handlers start late."""

TAKEN_OVER_WITHIN_SECONDS = 10.0
"""As many samples of the usual length."""


def taken_over_after(times: Sequence[float], when: float) -> float:
    """Seconds from ``when`` to the end of the first second that has the rate after one without."""
    ends = [when + 0.1 * number for number in range(1, 300)]
    lacking = False
    for end in ends:
        handed_over = sum(end - 1 <= each < end for each in times)
        lacking = lacking or handed_over < USED * RATE
        if lacking and handed_over >= USED * RATE:
            return end - when
    return 0.0 if not lacking else float("inf")


class Disturbances:
    """One after the other: a kill with a start, a stop, one more member, a kill of two."""

    def __init__(self, processes: SharingProcesses) -> None:
        self._processes = processes
        self._kinds = cycle((self.kill_one, self.stop_one, self.add_one, self.kill_two))
        self.kills: list[float] = []
        """When members were killed."""
        self.counts = {"killed": 0, "stopped": 0, "added": 0}

    def next(self) -> None:
        """The next of them, and nothing else until it is over."""
        next(self._kinds)()

    def _alive(self) -> list[SharingProcess]:
        return [each for each in self._processes.all if each.alive]

    def _start(self) -> None:
        self._processes.start()
        self.counts["added"] += 1

    def _kill(self) -> None:
        self._alive()[0].kill()
        self.kills.append(time.monotonic())
        self.counts["killed"] += 1

    def kill_one(self) -> None:
        """Others must take its share; a new one comes ten seconds later."""
        self._kill()
        time.sleep(10)
        self._start()

    def stop_one(self) -> None:
        """It stands still for longer than a lease."""
        stopped = self._alive()[0]
        stopped.stop()
        self.counts["stopped"] += 1
        time.sleep(STOPPED_SECONDS)
        stopped.go_on()

    def add_one(self) -> None:
        """For some seconds there is one more."""
        self._start()
        time.sleep(5)
        self._kill()

    def kill_two(self) -> None:
        """At once, and two new ones with them."""
        for _ in range(2):
            self._kill()
            self._start()


def run(seconds: float = SECONDS) -> dict[str, Any]:
    """The most hand-overs of any stretch, and how much of the rate was used."""
    with (
        start_broker() as broker,
        declared_queue(broker.parameters) as queue,
        tempfile.TemporaryDirectory() as folder,
        SharingProcesses(broker.url, queue, RATE, Path(folder)) as processes,
    ):
        version = ".".join(map(str, broker.version))
        fill(broker.parameters, queue, int(1.1 * RATE * seconds))
        for _ in range(MEMBERS):
            processes.start()
        disturbances = Disturbances(processes)
        well: list[float] = []
        ends = time.monotonic() + seconds
        while (began := time.monotonic()) + CYCLE_SECONDS < ends:
            time.sleep(WELL_FROM_SECONDS)
            since = time.monotonic()
            time.sleep(max(0.0, began + CYCLE_SECONDS - since))
            until = time.monotonic()
            handed_over = sum(since <= each < until for each in processes.times)
            well.append(handed_over / (until - since))
            shares = [len([each for each in one.times if each >= since]) for one in processes.all]
            print(f"{well[-1]:.1f}/s when all are well: {shares}", file=sys.stderr)
            disturbances.next()
        times = processes.times
    found = {
        "rabbitmq": version,
        "rate": RATE,
        "members": MEMBERS,
        "seconds": times[-1] - times[0],
        "hand_overs": len(times),
        "most_in_1_s": most_in(times, 1.0),
        "most_in_10_s": most_in(times, 10.0),
        "rate_when_all_are_well": {"least": min(well), "mean": statistics.fmean(well)},
        "slowest_take_over_seconds": max(
            (taken_over_after(times, each) for each in disturbances.kills), default=None
        ),
        **disturbances.counts,
    }
    return {**found, "met": met(found)}


def met(found: Mapping[str, Any]) -> bool:
    """Whether the rate was kept by all together, and used, and shares were taken over in time."""
    slowest = found["slowest_take_over_seconds"]
    return bool(
        found["most_in_1_s"] <= MOST_IN_1_S
        and found["most_in_10_s"] <= MOST_IN_10_S
        and found["rate_when_all_are_well"]["least"] >= LEAST_WHEN_WELL * found["rate"]
        and (slowest is None or slowest <= TAKEN_OVER_WITHIN_SECONDS)
    )


def table(found: Mapping[str, Any]) -> str:
    """What one run found, in Markdown."""
    words = {kind: f"{found[kind]} {kind}" for kind in ("killed", "stopped", "added")}
    well = found["rate_when_all_are_well"]
    slowest = found["slowest_take_over_seconds"]
    columns = [
        "run",
        "most in any second",
        "most in any ten",
        "when all are well: mean, least",
        "share of a killed member taken over after",
    ]
    row = [
        f"{found['seconds']:.0f} s: {', '.join(words.values())}",
        str(found["most_in_1_s"]),
        str(found["most_in_10_s"]),
        f"{well['mean']:.1f}/s, {well['least']:.1f}/s",
        "-" if slowest is None else f"{slowest:.1f} s at most",
    ]
    return "\n\n".join(
        [
            pages.table(columns, [row]),
            f"{found['members']} processes that share {found['rate']:g}/s on RabbitMQ "
            f"{found['rabbitmq']}. Wanted: at most {MOST_IN_1_S} in any second and "
            f"{MOST_IN_10_S:,} in any ten, at least {LEAST_WHEN_WELL:.0%} of the rate when all are "
            f"well, and the share of every killed member taken over within "
            f"{TAKEN_OVER_WITHIN_SECONDS:g} s: {'met' if met(found) else 'not met'}.",
        ]
    )


if __name__ == "__main__":
    sys.exit(pages.write_down("fleet_bound", "shared-goal.md", "fleet", table, __doc__))
