"""Celery workers with and without ``adapt(app)``: what their prefetch does, and what it costs.

    python -m benchmarks.celery_prefetch --celery 5.4.0 5.6.3 5.7.0 --brokers 3.10 4.3

Each version of Celery gets an environment of its own, kept in the folder of ``--environments``.
Without ``--celery`` the installed one is measured, without ``--brokers`` on the tests' broker. The
cases ``hoarding``, ``cpu``, ``changes`` and ``rate`` run only where ``--cases`` names them. What
was printed goes into docs/celery.md, from one file or several; a table of which none has anything
stays as it is. ``met`` says which cases did with ``adapt(app)`` what they have to::

    python -m benchmarks.celery_prefetch --page found.json ...
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import celery

from benchmarks import pages
from tests.testbed import Broker, start_broker
from tests.testbed.celery_worker import Worker, celery_worker
from tests.testbed.publishing import QueueKind, declared_queue

SETTLED_SECONDS = 9.0
"""Seconds after which a prefetch that has not changed stays as it is."""

STAYS_SECONDS = 2.0
"""Seconds for which a number must stay to be more than passed through."""

GIVEN_UP_SECONDS = 30.0
"""Seconds after which a number counts that never stays."""

IMMEDIATE_SECONDS = 30.0
"""Seconds to wait for tasks behind parked ones."""

JOINS_AFTER_SECONDS = 1.0
"""Seconds after the first task at which a second worker begins to consume."""

CPU_TASKS = 4000
CPU_REPETITIONS = 5
CHANGES = 1000


class Bench:
    """Workers of one Celery on one broker and kind of queue."""

    def __init__(self, broker: Broker, kind: QueueKind, python: str, adapt: bool) -> None:
        self._broker = broker
        self._kind = kind
        self._python = python
        self._adapt = adapt

    @contextmanager
    def queues(self, count: int = 1) -> Iterator[list[str]]:
        """New queues, deleted afterwards."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(declared_queue(self._broker.parameters, self._kind))
                for _ in range(count)
            ]

    @contextmanager
    def worker(self, queues: list[str], **options: Any) -> Iterator[Worker]:
        """A worker of these queues; adapted with ``goals`` where it is adapted."""
        goals = options.pop("goals", {})
        options["adapt"] = goals if self._adapt else None
        with (
            tempfile.TemporaryDirectory() as folder,
            celery_worker(
                Path(folder),
                self._broker.url,
                queues,
                kind=self._kind,
                python=self._python,
                **options,
            ) as worker,
        ):
            yield worker

    def settled(self, queues: list[str], expected: int) -> int:
        """Unacknowledged messages that stay as many: as expected, or what else after a while."""
        start = since = time.monotonic()
        count: int | None = None
        while True:
            views = [self._broker.management.queue(name) for name in queues]
            seen = sum(view.messages_unacknowledged for view in views if view is not None)
            now = time.monotonic()
            if seen != count:
                count, since = seen, now
            patience = 0.0 if count == expected else SETTLED_SECONDS
            if now > max(start + patience, since + STAYS_SECONDS) or now > start + GIVEN_UP_SECONDS:
                return count
            time.sleep(0.2)

    def pool_grow(self) -> list[int]:
        """Unacknowledged with 2 processes, and after 4 more, at multiplier 2."""
        with self.queues() as queues, self.worker(queues) as worker:
            worker.publish(range(60), seconds=2.0)
            before = self.settled(queues, 4)
            worker.app.control.pool_grow(4, destination=[worker.name])
            return [before, self.settled(queues, 12)]

    def autoscale(self) -> list[int]:
        """Unacknowledged at most 6 processes, at most 12, and at most 3, at multiplier 1."""
        options = {"arguments": ["--autoscale", "6,1"], "multiplier": 1}
        with self.queues() as queues, self.worker(queues, **options) as worker:
            worker.publish(range(120), seconds=1.0)
            found = [self.settled(queues, 6)]
            for most in (12, 3):
                worker.app.control.autoscale(most, 1, destination=[worker.name])
                found.append(self.settled(queues, most))
            return found

    def behind(self, parked: int, exchange_type: str = "direct") -> float:
        """Seconds until 20 tasks are done that were sent behind parked ones."""
        countdown = 15 if parked < 100 else 120
        with self.queues() as queues, self.worker(queues, exchange_type=exchange_type) as worker:
            worker.publish(range(1000, 1000 + parked), countdown=countdown)
            begun = time.time()
            worker.publish(range(20))
            until = time.monotonic() + IMMEDIATE_SECONDS
            while time.monotonic() < until:
                done = [each.ended for each in worker.done if each.number < 1000]
                if len(done) >= 20:
                    return max(done) - begun
                time.sleep(0.05)
            return float("inf")

    def three_queues(self) -> int:
        """Unacknowledged of three queues together, at prefetch 4."""
        with self.queues(3) as queues, self.worker(queues) as worker:
            for name in queues:
                worker.publish(range(30), seconds=1.0, queue=name)
            return self.settled(queues, 4)

    def hoarding(self, multiplier: int, late: bool, started: bool) -> dict[str, Any]:
        """16 tasks of 1.5 s; a second worker joins a second later: who does how many, and when.

        It joins all ready to consume, or is ``started`` then.
        """
        options: dict[str, Any] = {"multiplier": multiplier, "late": late}
        options["goals"] = {"buffer_time": 0.1}
        with ExitStack() as stack:
            queues = stack.enter_context(self.queues())
            let_in = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "let in"
            first = stack.enter_context(self.worker(queues, **options))
            other = self.worker(queues, name="two", joins="" if started else str(let_in), **options)
            if not started:
                second = stack.enter_context(other)
            begun = time.time()
            first.publish(range(16), seconds=1.5)
            time.sleep(max(0.0, begun + JOINS_AFTER_SECONDS - time.time()))
            if started:
                second = stack.enter_context(other)
            let_in.touch()
            second.wait_until_ready()
            joined = time.time()
            second.wait(lambda: len(first.done) + len(second.done) >= 16, "all is done")
            ended = max(each.ended for each in [*first.done, *second.done])
            return {
                "split": [len(first.done), len(second.done)],
                "second_ready_after": joined - begun,
                "seconds": ended - begun,
            }

    def cpu(self, pool: str = "prefork") -> float:
        """Microseconds of processor time a task, of the worker and its pool."""
        options: dict[str, Any] = {"multiplier": 25, "pool": pool, "concurrency": 2}
        with self.queues() as queues, self.worker(queues, **options) as worker:
            worker.publish(range(200))
            worker.wait(lambda: len(worker.done) >= 200, "it is warm")
            before = _cpu_seconds(worker.process.pid)
            worker.publish(range(CPU_TASKS))
            worker.wait(lambda: len(worker.done) >= 200 + CPU_TASKS, "all is done", 300)
            return (_cpu_seconds(worker.process.pid) - before) / CPU_TASKS * 1e6

    def changes(self, pool: str, late: bool = True) -> dict[str, int]:
        """Random changes of the prefetch in 1..20: what is lost, redelivered, above the bound."""
        draw = random.Random(11)
        plan = [draw.choice([1, 20, draw.randint(1, 20)]) for _ in range(CHANGES)]
        options = {"plan": plan, "pool": pool, "late": late, "concurrency": 4}
        with self.queues() as queues, self.worker(queues, **options) as worker:
            sent = 0
            while not worker.changed:
                if sent - len(worker.done) < 1000:
                    worker.publish(range(sent, sent + 1000), seconds=0.002)
                    sent += 1000
                time.sleep(0.1)
                assert worker.process.poll() is None, worker.log[-2000:]
            until = time.monotonic() + 300
            while len({each.number for each in worker.done}) < sent and time.monotonic() < until:
                time.sleep(0.1)
            return {
                "changes": len(plan),
                "tasks": sent,
                "lost": sent - len({each.number for each in worker.done}),
                "redelivered": len(worker.redelivered),
                "twice": len(worker.twice),
                "above_the_bound": len(worker.over),
            }

    def rate(self, goal: float = 25.0, seconds: float = 60.0) -> dict[str, float]:
        """Tasks per second of a worker with a goal, from the first to the last of ``seconds``."""
        options = {"goals": {"goal": goal}, "concurrency": 4, "multiplier": 4}
        with self.queues() as queues, self.worker(queues, **options) as worker:
            worker.publish(range(int(goal * (seconds + 10))))
            worker.wait(lambda: len(worker.done) > 5 * goal, "it has begun")
            worker.wait(lambda: len(worker.done) > goal * (seconds + 6), "it is done", 3 * seconds)
            times = sorted(each.begun for each in worker.done)
            times = times[int(5 * goal) :]
            return {"goal": goal, "rate": (len(times) - 1) / (times[-1] - times[0])}


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process and its children, in seconds."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == pid or int(fields[1]) == pid:
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


class Joining(NamedTuple):
    """How the second worker of the hoarding case joins, and the multiplier of both."""

    multiplier: int
    started: bool
    title: str


HOARDINGS = {
    "4": Joining(4, False, "multiplier 4"),
    "8": Joining(8, False, "multiplier 8"),
    "4, started": Joining(4, True, "multiplier 4, the second one started then"),
}
"""With multiplier 4 two processes may take half of the tasks, with 8 all of them."""

HOARDING_MET = ([8, 8], [9, 7])
"""Splits of the tasks where the second worker is ready when it joins: 2 have begun by then."""

HOARDING_CASES = [f"hoarding, {key}" for key in HOARDINGS]

OURS = "`buffer_time=0.1`"

WAYS = {"plain": (False, False), "plain, late acks": (False, True), OURS: (True, True)}
"""Whether workers of the hoarding case are adapted, and acknowledge late."""

CASES: dict[str, Callable[[Bench], Any]] = {
    "pool_grow": Bench.pool_grow,
    "autoscale": Bench.autoscale,
    "behind_8": lambda bench: bench.behind(8),
    "behind_600": lambda bench: bench.behind(600),
    "native_delay_8": lambda bench: bench.behind(8, "topic"),
    "native_delay_600": lambda bench: bench.behind(600, "topic"),
    "three_queues": Bench.three_queues,
}
"""The table: each with and without ``adapt(app)``."""

PARKED = ("behind_8", "behind_600", "native_delay_8", "native_delay_600")

QUORUM_ONLY = ("native_delay_8", "native_delay_600")
"""Where Celery delays tasks natively, if the exchange is not a direct one."""

MOST_SECONDS_BEHIND_PARKED = 5.0

EXPECTED = {"pool_grow": [4, 12], "autoscale": [6, 12, 3], "three_queues": 4}
"""Unacknowledged messages where the prefetch follows what Celery asks for."""

TITLES = {
    "pool_grow": "unacknowledged before and after `pool_grow(4)`",
    "autoscale": "unacknowledged at an autoscale of at most 6, 12, 3",
    "behind_8": "20 tasks behind 8 parked ones",
    "behind_600": "20 tasks behind 600 parked ones",
    "native_delay_8": "20 tasks behind 8 parked ones, topic exchange",
    "native_delay_600": "20 tasks behind 600 parked ones, topic exchange",
    "three_queues": "unacknowledged of 3 queues at prefetch 4",
}


def environment(version: str, folder: Path) -> str:
    """The interpreter of an environment with this version of Celery, made if there is none."""
    if version == celery.__version__:
        return sys.executable
    place = folder.resolve() / f"celery-{version}"  # workers run in folders of their own
    python = place / "bin" / "python"
    if not (place / "made").exists():
        venv.create(place, with_pip=True)
        words = ["-m", "pip", "install", "--quiet", f"celery=={version}", "gevent", "eventlet"]
        subprocess.run([str(python), *words], check=True)
        (place / "made").touch()
    return str(python)


def versions(python: str) -> dict[str, str]:
    """Those of Celery and of what it stands on, in the environment of an interpreter."""
    names = ("celery", "kombu", "amqp")
    code = f"from importlib.metadata import version; print(*map(version, {names!r}))"
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return dict(zip(names, found.stdout.split(), strict=True))


@contextmanager
def broker_of(version: str | None) -> Iterator[Broker]:
    """A broker of this version, or the one that tests use."""
    before = os.environ.get("CONTROLMQ_TEST_BROKER")
    if version is not None:
        os.environ["CONTROLMQ_TEST_BROKER"] = version
    try:
        with start_broker() as broker:
            yield broker
    finally:
        if version is not None:
            os.environ.pop("CONTROLMQ_TEST_BROKER")
            if before is not None:
                os.environ["CONTROLMQ_TEST_BROKER"] = before


def costs(broker: Broker, python: str, pool: str) -> dict[str, Any]:
    """Processor time a task, by turns, and its ratio."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for repetition in range(CPU_REPETITIONS):
        for adapt in [True, False] if repetition % 2 else [False, True]:
            taken[adapt].append(Bench(broker, "classic", python, adapt).cpu(pool))
    ratios = [mine / plain for mine, plain in zip(taken[True], taken[False], strict=True)]
    return {
        "microseconds_adapted": statistics.median(taken[True]),
        "microseconds_plain": statistics.median(taken[False]),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def hoardings(broker: Broker, python: str) -> dict[str, dict[str, Any]]:
    """Who does how many tasks, by how the second worker joins and by how the workers are."""
    return {
        key: {
            name: Bench(broker, "classic", python, adapt).hoarding(
                joining.multiplier, late, joining.started
            )
            for name, (adapt, late) in WAYS.items()
        }
        for key, joining in HOARDINGS.items()
    }


def table(
    broker: Broker, kind: QueueKind, python: str, cases: list[str]
) -> dict[str, dict[str, Any]]:
    """Each case, plain and adapted."""
    found: dict[str, dict[str, Any]] = {}
    for name in cases:
        if name in QUORUM_ONLY and kind != "quorum":
            continue
        found[name] = {}
        for adapt in (False, True):
            try:
                result = CASES[name](Bench(broker, kind, python, adapt))
            except AssertionError as error:  # a worker that never consumes
                result = str(error).splitlines()[0]
            found[name]["adapted" if adapt else "plain"] = result
            print(kind, name, "adapted" if adapt else "plain", result, file=sys.stderr, flush=True)
    return found


def met(found: Mapping[str, Any]) -> dict[str, bool]:
    """Which cases did with ``adapt(app)`` what they have to, of those that were measured.

    A second worker that is only started when the tasks are there has no share to keep to: it is
    ready when many of them are done.
    """
    verdicts: dict[str, bool] = {}
    for kind in ("classic", "quorum"):
        for case, by_worker in found.get(kind, {}).items():
            verdicts[f"{case}, {kind}"] = _is_met(case, by_worker["adapted"])
    for key, ways in found.get("hoarding", {}).items():
        if not HOARDINGS[key].started:
            verdicts[f"hoarding, {key}"] = ways[OURS]["split"] in HOARDING_MET
    return verdicts


def _is_met(case: str, result: Any) -> bool:
    if isinstance(result, str):
        return False
    if case in PARKED:
        return bool(result <= MOST_SECONDS_BEHIND_PARKED)
    return bool(result == EXPECTED[case])


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """The table of all versions of Celery, brokers and kinds of queues, in Markdown.

    Below it stand the versions that Celery's libraries had.
    """
    cells: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    columns: dict[str, None] = {}
    for found in results:
        for kind in ("classic", "quorum"):
            column = f"{found['broker']} {kind}"
            for case, by_worker in found.get(kind, {}).items():
                columns[column] = None
                for worker, result in by_worker.items():
                    row = cells.setdefault((case, worker), {})
                    row.setdefault(column, {})[found["celery"]] = _shown(case, result)
    rows = [
        [
            f"{TITLES[case]}, {'`adapt(app)`' if worker == 'adapted' else 'plain'}",
            *(_together(row.get(column, {})) for column in columns),
        ]
        for (case, worker), row in cells.items()
    ]
    if not rows:
        return ""
    verdicts = [
        good for found in results for case, good in met(found).items() if case not in HOARDING_CASES
    ]
    said = (
        f"Of {len(verdicts)} measurements with `adapt(app)`, {sum(verdicts)} are as they have to "
        "be: the prefetch that Celery asks for, and the 20 tasks within "
        f"{MOST_SECONDS_BEHIND_PARKED:g} s."
    )
    return "\n\n".join([pages.table(["case", *columns], rows), said, _beside(results)]).strip()


def _beside(results: Sequence[Mapping[str, Any]]) -> str:
    """Which libraries each version of Celery ran with, where that was noted."""
    used: dict[str, dict[str, None]] = {}
    for found in results:
        if "kombu" in found:
            libraries = f"kombu {found['kombu']} and py-amqp {found['amqp']}"
            used.setdefault(libraries, {})[found["celery"]] = None
    return "; ".join(f"Celery {', '.join(sorted(each))} with {name}" for name, each in used.items())


def hoarding_page(results: Sequence[Mapping[str, Any]]) -> str:
    """The hoarding case of all versions of Celery and brokers, in Markdown."""
    results = sorted(results, key=lambda found: (found["broker"], found["celery"]))
    rows = [
        [
            f"{joining.title}, Celery {found['celery']} on {found['broker']}",
            *(
                "{} and {} in {:.1f} s".format(*ways[name]["split"], ways[name]["seconds"])
                for name in WAYS
            ),
        ]
        for key, joining in HOARDINGS.items()
        for found in results
        for ways in [found.get("hoarding", {}).get(key)]
        if ways is not None
    ]
    if not rows:
        return ""
    begin = (
        "Hoarding: two workers of 2 processes, 16 tasks of 1.5 s; the second begins to consume "
        f"{JOINS_AFTER_SECONDS:g} s after the first task was sent:"
    )
    verdicts = [
        good for found in results for case, good in met(found).items() if case in HOARDING_CASES
    ]
    said = (
        f"With `buffer_time`, {sum(verdicts)} of {len(verdicts)} splits are 8 to 8 or 9 to 7; "
        "those where the second worker is only started then do not count."
    )
    return "\n\n".join([begin, pages.table(["", *WAYS], rows), said, _beside(results)]).strip()


def _shown(case: str, result: Any) -> str:
    if isinstance(result, str):
        return "never ready"
    if case in PARKED:
        return f"{result:.1f} s" if result <= IMMEDIATE_SECONDS else f"over {IMMEDIATE_SECONDS:g} s"
    return ", ".join(map(str, result)) if isinstance(result, list) else str(result)


def _together(by_version: Mapping[str, str]) -> str:
    """One word where all versions of Celery agree, or the longest time; else one for each."""
    words = [*by_version.values()]
    if len(set(words)) == 1 or all(re.fullmatch(r"[\d.]+ s", word) for word in words):
        return max(words, key=lambda word: (len(word), word), default="-")
    return "; ".join(f"{version}: {shown}" for version, shown in by_version.items()) or "-"


def run() -> dict[str, Any]:
    """The table on the installed Celery and the broker of the tests."""
    with start_broker() as broker:
        kinds: list[QueueKind] = ["classic", "quorum"]
        found: dict[str, Any] = {
            **versions(sys.executable),
            "broker": ".".join(map(str, broker.version)),
        }
        for kind in kinds:
            found[kind] = table(broker, kind, sys.executable, list(CASES))
        found["hoarding"] = hoardings(broker, sys.executable)
        found["cpu"] = costs(broker, sys.executable, "prefork")
    return {**found, "met": met(found)}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.celery_prefetch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--celery", nargs="*", default=[], metavar="VERSION")
    parser.add_argument("--brokers", nargs="*", default=[], metavar="VERSION")
    parser.add_argument("--kinds", nargs="*", default=["classic", "quorum"])
    parser.add_argument("--environments", type=Path, default=Path("build/celery"))
    extras = ["hoarding", "cpu", "changes", "rate"]
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=[*CASES, *extras])
    parser.add_argument("--pools", nargs="*", default=["prefork"])
    parser.add_argument(
        "--page", nargs="+", type=Path, metavar="FILE", help="results to write down"
    )
    given = parser.parse_args()
    if given.page:
        results = [each for file in given.page for each in json.loads(file.read_text())]
        for name, section in (("prefetch", page(results)), ("hoarding", hoarding_page(results))):
            if section:
                pages.put("celery.md", name, section)
        return 0
    pythons = [environment(each, given.environments) for each in given.celery]
    results = []
    for version in given.brokers or [None]:
        with broker_of(version) as broker:
            for python in pythons or [sys.executable]:
                found: dict[str, Any] = {
                    **versions(python),
                    "broker": ".".join(map(str, broker.version)),
                }
                in_table = [each for each in given.cases if each in CASES]
                for kind in given.kinds:
                    if in_table:
                        found[kind] = table(broker, kind, python, in_table)
                    if "changes" in given.cases:
                        for pool in given.pools:
                            bench = Bench(broker, kind, python, adapt=True)
                            found[f"changes, {kind}, {pool}"] = bench.changes(pool)
                if "hoarding" in given.cases:
                    found["hoarding"] = hoardings(broker, python)
                for pool in given.pools if "cpu" in given.cases else []:
                    found[f"cpu, {pool}"] = costs(broker, python, pool)
                if "rate" in given.cases:
                    found["rate"] = Bench(broker, "classic", python, True).rate()
                found["met"] = met(found)
                print(json.dumps(found), file=sys.stderr, flush=True)
                results.append(found)
    print(json.dumps(results, indent=2))
    return int(not all(all(found["met"].values()) for found in results))


if __name__ == "__main__":
    sys.exit(main())
