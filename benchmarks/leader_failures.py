"""``controlmq run`` on a quorum queue whose leader fails again and again, under load.

Three nodes on one machine, each behind 11 ms of round trip. A publisher keeps the queue filled.
The leader is killed and stopped by turns and started again; half of the times it is the node
that the consumer is connected to. Reported for each failure: samples until the rate was back at
the goal, which it is with the last of five samples that all are near it; and over the whole run,
the messages that the cluster confirmed and the consumer never handled. What was found goes into
docs/brokers.md::

    python -m benchmarks leader_failures > found.json
    python -m benchmarks.leader_failures --page found.json
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pika
import pika.exceptions

from benchmarks import pages
from benchmarks.live_consumer import work
from benchmarks.measure import awake
from tests.testbed.cluster import Cluster, start_cluster
from tests.testbed.management import VHOST, wait_until
from tests.testbed.node import NodeBroker
from tests.testbed.proxy import ROUND_TRIP, proxied
from tests.testbed.publishing import connected, fill

FAILURES = 20
GOAL = 200.0
"""Messages/second."""
INTERVAL = 1.0
"""Seconds a sample."""
SAMPLES_IN_A_ROW = 5
"""Samples in a row that have to be at the goal."""
MEAN_WITHIN = 0.05
"""Share of the goal that their mean may be off."""
EACH_WITHIN = 0.15
"""Share of the goal that each of them may be off: a second of 200 messages varies by 4 %."""
ALLOWED_RECOVERY_SAMPLES = 30
"""Samples from a failure to the last of those at the goal."""
PATIENCE = 120.0
"""Seconds after which a consumer that is not back at its goal is given up."""
BACKLOG = 5000
"""Messages in the queue before the first failure: the window is the limit, not the load."""
LOAD = 1.05
"""Share of the goal that is published."""
BATCH = 500
"""Messages that are published and confirmed at once."""

ROOT = Path(__file__).parents[1]
NOTES = "CONTROLMQ_LEADER_FAILURES_NOTES"
"""The environment variable with the path of the file that takes the handled numbers."""


def handle(body: bytes, properties: Any) -> None:
    """One message, as ``controlmq run`` calls it: work, then a note that it is handled."""
    work()
    with open(os.environ[NOTES], "ab", buffering=0) as notes:
        notes.write(b"%d\n" % int(body))


class Publisher:
    """Publishes numbered messages in a thread, somewhat faster than the goal, to any node."""

    def __init__(self, cluster: Cluster, queue: str) -> None:
        self.confirmed = 0
        """Messages below this number were confirmed by the cluster."""
        self._cluster, self._queue = cluster, queue
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """The number of messages that the cluster has confirmed."""
        self._stopped.set()
        self._thread.join()
        return self.confirmed

    def _run(self) -> None:
        start = time.monotonic()
        for node in itertools.cycle(self._cluster.nodes):
            due = BACKLOG + LOAD * GOAL * (time.monotonic() - start)
            try:
                while self.confirmed < due:
                    # One that fails halfway is published again: a duplicate is none lost.
                    fill(node.parameters, self._queue, BATCH, first=self.confirmed)
                    self.confirmed += BATCH
            except (pika.exceptions.AMQPError, RuntimeError):
                pass  # the next node may answer
            if self._stopped.wait(0.5):
                return


class Running:
    """``controlmq run`` in a process, and what it printed."""

    def __init__(self, urls: list[str], queue: str, notes: Path) -> None:
        words = ["run", "--queue", queue, "--goal", str(GOAL), "--interval", str(INTERVAL)]
        words += ["--handler", f"{__name__}:handle", "--json", "--url", *urls]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "controlmq.cli.main", *words],
            cwd=ROOT,
            env=os.environ | {NOTES: str(notes)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._samples: list[tuple[float, float]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._samples.append((time.monotonic(), json.loads(line)["rate"]))

    def samples_until_goal(self, since: float) -> int | None:
        """See :func:`samples_until_goal`."""
        return samples_until_goal(list(self._samples), since)

    def wait_for_goal(self, since: float) -> int | None:
        """The same, once it is known; None if that took too long."""
        with contextlib.suppress(AssertionError):
            wait_until(
                lambda: self.samples_until_goal(since) is not None,
                f"the rate is back at {GOAL:g}",
                PATIENCE,
            )
        return self.samples_until_goal(since)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self._process.terminate()
        return self._process.wait(60)


def samples_until_goal(samples: Sequence[tuple[float, float]], since: float) -> int | None:
    """Intervals from a time until the goal had been held for some; None if it was not.

    Of each sample the time at its end and the rate. Intervals without one count too: the consumer
    was not connected.
    """
    later = [sample for sample in samples if sample[0] > since + INTERVAL]
    for first in range(len(later) - SAMPLES_IN_A_ROW + 1):
        together = later[first : first + SAMPLES_IN_A_ROW]
        begin, end = together[0][0], together[-1][0]
        if end - begin < SAMPLES_IN_A_ROW * INTERVAL and at_goal([rate for _, rate in together]):
            return round((end - since) / INTERVAL)
    return None


def at_goal(rates: Sequence[float]) -> bool:
    """Whether each of them and their mean are near enough to the goal."""
    near = all(abs(rate - GOAL) <= EACH_WITHIN * GOAL for rate in rates)
    return near and abs(statistics.fmean(rates) - GOAL) <= MEAN_WITHIN * GOAL


def handled(notes: Path) -> Counter[int]:
    """How often each message was handled."""
    return Counter(int(line) for line in notes.read_text().split())


def declared(cluster: Cluster) -> str:
    with connected(cluster.nodes[0].parameters) as connection:
        connection.channel().queue_declare(
            "leader-failures", durable=True, arguments={"x-queue-type": "quorum"}
        )
    return "leader-failures"


def run() -> dict[str, Any]:
    with ExitStack() as stack:
        stack.enter_context(awake())
        cluster = stack.enter_context(start_cluster())
        proxies = [
            stack.enter_context(node.proxied(delay=ROUND_TRIP / 2)) for node in cluster.nodes
        ]
        urls = [
            proxied(*each)
            for each in zip((node.url for node in cluster.nodes), proxies, strict=True)
        ]
        notes = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "handled"
        notes.touch()
        queue = declared(cluster)
        publisher = Publisher(cluster, queue)
        running = Running(urls, queue, notes)
        running.wait_for_goal(time.monotonic())
        failures = [failure(cluster, queue, running, number) for number in range(FAILURES)]
        published = publisher.stop()
        everything = set(range(published))
        with contextlib.suppress(AssertionError):
            seconds = PATIENCE + 2 * published / GOAL
            wait_until(lambda: everything <= handled(notes).keys(), "all are handled", seconds, 1)
        exit_code = running.stop()
        times = handled(notes)
        found = {
            "rabbitmq": ".".join(map(str, cluster.nodes[0].version)),
            "goal": GOAL,
            "published": published,
            "lost": len(everything - times.keys()),
            "handled_again": times.total() - len(times),
            "exit_code": exit_code,
            "samples_until_goal": [each["samples_until_goal"] for each in failures],
            "allowed": f"lost 0, at most {ALLOWED_RECOVERY_SAMPLES} samples",
            "failures": failures,
        }
        return {**found, "met": met(found)}


def met(found: Mapping[str, Any]) -> bool:
    """Whether nothing was lost and the consumer was back at the goal in time after each failure."""
    back = [
        each is not None and each <= ALLOWED_RECOVERY_SAMPLES
        for each in found["samples_until_goal"]
    ]
    return bool(found["lost"] == 0 and found["exit_code"] == 0 and back and all(back))


def table(found: Mapping[str, Any]) -> str:
    """What one run found, in Markdown."""
    rows = []
    for kind, at in itertools.product(("kill", "stop"), (True, False)):
        samples = [
            each["samples_until_goal"]
            for each in found["failures"]
            if (each["kind"], each["consumer_connected_to_it"]) == (kind, at)
        ]
        if samples:
            back = [each for each in samples if each is not None]
            shown = f"{statistics.median(back):g}, {max(back)}" if back else "-"
            rows.append(
                [
                    {"kill": "killed", "stop": "stopped"}[kind],
                    "the leader's" if at else "another",
                    str(len(samples)),
                    shown,
                    str(len(samples) - len(back)),
                ]
            )
    columns = [
        "the leader is",
        "node that the consumer is connected to",
        "times",
        "samples until the goal was held: median, most",
        "not back at all",
    ]
    return "\n\n".join(
        [
            pages.table(columns, rows),
            f"RabbitMQ {found['rabbitmq']}, goal {found['goal']:g}/s: {found['published']:,} "
            f"messages confirmed, {found['lost']} lost, {found['handled_again']} handled again. "
            f"At the goal are {SAMPLES_IN_A_ROW} samples in a row, each within "
            f"{EACH_WITHIN:.0%} and their mean within {MEAN_WITHIN:.0%}; samples of {INTERVAL:g} s "
            "count to the last of these. Wanted: 0 lost, and back within "
            f"{ALLOWED_RECOVERY_SAMPLES} samples every time: {'met' if met(found) else 'not met'}.",
        ]
    )


def failure(cluster: Cluster, queue: str, running: Running, number: int) -> dict[str, Any]:
    """One failure of the leader, until the goal is held again and the cluster is whole."""
    at = consumers_node(cluster, queue)
    kind = ("kill", "stop")[number % 2]
    cluster.move_leader(queue, at if number % 4 < 2 else cluster.others(at)[0])
    leader = cluster.leader(queue)
    since = time.monotonic()
    getattr(leader, kind)()
    taken = running.wait_for_goal(since)
    cluster.mend()
    running.wait_for_goal(time.monotonic())
    return {"kind": kind, "consumer_connected_to_it": leader is at, "samples_until_goal": taken}


def consumers_node(cluster: Cluster, queue: str) -> NodeBroker:
    """The node that the consumer is connected to."""

    def names() -> set[str]:
        found = cluster.nodes[0].management.get(f"/queues/{VHOST}/{queue}") or {}
        details = [each["channel_details"] for each in found.get("consumer_details", ())]
        # An empty list stands for details that the node does not have yet.
        return {each["node"] for each in details if each}

    (name,) = wait_until(names, "the consumer shows up")
    return next(node for node in cluster.nodes if node.name == name)


if __name__ == "__main__":
    sys.exit(pages.write_down("leader_failures", "brokers.md", "leader failures", table, __doc__))
