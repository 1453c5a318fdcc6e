"""Every kind of fault, many times, on both kinds of queues of the oldest and the newest broker.

A controller moves the prefetch of each consumer at random at every sample. One trial is one fault;
its result is appended to a state file at once, and a campaign that is started again with that
file goes on where it stopped. Several may share a file, each with faults or brokers of its own.
From the command line::

    python -m benchmarks.fault_campaign --state campaign.jsonl    # run what is missing
    python -m benchmarks.fault_campaign --state campaign.jsonl --again    # and what failed
    python -m benchmarks.fault_campaign --state campaign.jsonl --page     # into docs/faults.md

``python -m benchmarks fault_campaign`` runs each fault once on each kind of queue of the installed
broker; ``FAULT_CAMPAIGN_STATE`` names a state file to go on with.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from benchmarks import pages
from tests.faults.consumer import Client
from tests.faults.kinds import BY_NAME, FAULTS
from tests.faults.trial import run as run_trial
from tests.testbed import Broker, Proxy, start_broker
from tests.testbed.broker import CHOSEN_BROKER
from tests.testbed.cluster import Cluster, start_cluster
from tests.testbed.installation import VERSIONS
from tests.testbed.publishing import QueueKind

INSTALLED = "installed"
BROKERS = (INSTALLED, *VERSIONS)
"""What is installed, or a version from Debian's packages."""

QUEUES: tuple[QueueKind, ...] = ("classic", "quorum")
TRIALS, TRIALS_WITH_RESTART = 100, 20
"""Of each fault, across brokers and kinds of queues."""

ROOT = Path(__file__).parents[1]

CLIENTS: tuple[Client, ...] = get_args(Client)


class Cell(NamedTuple):
    """What is counted together: trials of one fault on one kind of queue of one broker."""

    fault: str
    queue: QueueKind
    broker: str

    @property
    def clustered(self) -> bool:
        """Whether it takes a cluster."""
        return BY_NAME[self.fault].needs_cluster


Key = tuple[Cell, int]
"""A trial: its cell and its seed."""


@dataclass
class Bed:
    """What trials run on, one after another."""

    broker: Broker
    proxy: Proxy
    cluster: Cluster | None

    def mend(self) -> None:
        """Make it whole again after a trial that was not brought to its end."""
        self.proxy.cut()
        self.proxy.resume()
        self.proxy.throttle(None)
        if self.cluster is None:
            self.broker.restart()
        else:
            self.cluster.mend()


class Campaign:
    """The trials done so far, in a file that only grows; of one trial the last result counts.

    ``again``: what failed before is done again.
    """

    def __init__(self, state: Path, again: bool = False) -> None:
        self._state = state
        self._results: dict[Key, dict[str, Any]] = {}
        self.repeated: list[dict[str, Any]] = []
        """Results of trials that failed and were done again."""
        for line in state.read_text().splitlines() if state.exists() else []:
            self._note(json.loads(line))
        self._done = {
            key for key, each in self._results.items() if not (again and each["failures"])
        }

    @property
    def results(self) -> list[dict[str, Any]]:
        """The last one of each trial."""
        return list(self._results.values())

    def missing(self, cells: Sequence[Cell], trials: int | None) -> list[tuple[Cell, int]]:
        """Cells and numbers of trials still to do, every cell once before any a second time."""
        shares = Counter(cell.fault for cell in cells)
        wanted = {cell: trials or _wanted(cell, shares[cell.fault]) for cell in cells}
        rounds = range(max(wanted.values(), default=0))
        return [
            (cell, number)
            for number in rounds
            for cell in cells
            if number < wanted[cell] and (cell, number) not in self._done
        ]

    def add(self, result: dict[str, Any]) -> None:
        """Append one result, so that it stays whatever happens next."""
        self._done.add(self._note(result))
        with self._state.open("ab", buffering=0) as file:
            file.write(json.dumps(result).encode() + b"\n")  # in one call: others may write too

    def _note(self, result: dict[str, Any]) -> Key:
        key = Cell(result["fault"], result["queue"], result["broker"]), result["seed"]
        before = self._results.get(key)
        if before is not None and before["failures"]:
            self.repeated.append(before)
        self._results[key] = result
        return key


def _wanted(cell: Cell, share: int) -> int:
    """Trials of a cell, for all cells of a fault to make the number that is wanted."""
    trials = TRIALS_WITH_RESTART if BY_NAME[cell.fault].restarts_broker else TRIALS
    return -(-trials // share)


def run_cells(campaign: Campaign, cells: Sequence[Cell], trials: int | None, until: float) -> None:
    """Run what is missing, broker by broker, as long as the clock does not say ``until``."""
    missing = campaign.missing(cells, trials)
    done = 0
    for name, clustered in dict.fromkeys((cell.broker, cell.clustered) for cell in cells):
        here = [
            each for each in missing if (each[0].broker, each[0].clustered) == (name, clustered)
        ]
        if not here:
            continue
        with _bed(name, clustered) as bed:
            for cell, number in here:
                if time.monotonic() > until:
                    return
                result = one(cell, number, bed)
                campaign.add(result)
                done += 1
                wrong = "; ".join(result["failures"]) or "good"
                print(
                    f"{done} of {len(missing)}: {cell.fault}, {cell.queue}, {name}, "
                    f"{result['client']}: {wrong} ({result['seconds']:.1f} s)",
                    file=sys.stderr,
                )


@contextmanager
def _bed(name: str, clustered: bool) -> Iterator[Bed]:
    before = os.environ.get(CHOSEN_BROKER)
    if name != INSTALLED:
        os.environ[CHOSEN_BROKER] = name
    try:
        with ExitStack() as stack:
            cluster = stack.enter_context(start_cluster()) if clustered else None
            if cluster is not None:
                broker: Broker = cluster.nodes[0]
            else:
                broker = stack.enter_context(start_broker(disposable=True))
            yield Bed(broker, stack.enter_context(broker.proxied()), cluster)
    finally:
        if before is None:
            os.environ.pop(CHOSEN_BROKER, None)
        else:
            os.environ[CHOSEN_BROKER] = before


def one(cell: Cell, number: int, bed: Bed) -> dict[str, Any]:
    """The result of one trial, as the state file has it."""
    fault = BY_NAME[cell.fault]
    client = CLIENTS[number % len(CLIENTS)]
    start = time.monotonic()
    version = ".".join(map(str, bed.broker.version))
    result = cell._asdict() | {"version": version, "client": client, "seed": number}
    result["commit"] = commit()
    try:
        outcome = run_trial(
            fault, bed.broker, bed.proxy, cell.queue, client, number, cluster=bed.cluster
        )
    except Exception as error:
        # Whatever it was, it counts as a failure, and the next trial finds everything in order.
        failed = f"{type(error).__name__}: {error}"
        traceback.print_exc()
        bed.mend()
        result |= {"failures": [failed]}
    else:
        result |= asdict(outcome.verdict) | {"failures": outcome.failures(fault)}
        result["under_way"] = outcome.under_way
        if result["failures"]:
            # To find out why.
            result["record"] = outcome.record
    return result | {"seconds": time.monotonic() - start}


@cache
def commit() -> str:
    """The version of the code that the trials of this process run."""
    words = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def summary(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each fault, in the order of the faults."""
    rows = []
    for fault in FAULTS:
        mine = [each for each in results if each["fault"] == fault.name]
        if not mine:
            continue
        # One that could not be brought to its end has no verdict.
        judged = [each for each in mine if "lost" in each]
        most = max(judged, key=lambda each: each["duplicates"], default=None)
        pauses = [each["pause_seconds"] for each in judged]
        rows.append(
            {
                "fault": fault.name,
                "runs": len(mine),
                "failed": sum(bool(each["failures"]) for each in mine),
                "without_verdict": len(mine) - len(judged),
                "messages": sum(each["handled"] for each in judged),
                "lost": sum(each["lost"] for each in judged),
                "requeued": sum(each["requeued"] for each in judged),
                "most_duplicates": most and most["duplicates"],
                "bound_there": most and most["bound"],
                "above_bound": sum(each["duplicates"] > each["bound"] for each in judged),
                "median_pause_seconds": statistics.median(pauses) if pauses else None,
                "longest_pause_seconds": max(pauses, default=None),
            }
        )
    return rows


def table(results: Sequence[dict[str, Any]], repeated: Sequence[dict[str, Any]] = ()) -> str:
    """The summary in Markdown; ``repeated`` are failures that were done again."""
    columns = [
        "fault",
        "runs",
        "failed",
        "messages",
        "lost",
        "requeued by a change",
        "most duplicates (bound)",
        "runs above the bound",
        "longest pause, median and most (s)",
    ]
    rows = [
        [row["fault"], str(row["runs"]), _failed(row), *_verdicts(row)] for row in summary(results)
    ]
    cells = Counter((each["version"], each["queue"], each["client"]) for each in results)
    counts = [[*cell, str(count)] for cell, count in sorted(cells.items())]
    commits = Counter(each["commit"] for each in results)
    failed = sum(bool(each["failures"]) for each in results)
    versions = ", ".join(f"{count} of {name}" for name, count in commits.items())
    missing = sorted(BY_NAME.keys() - {each["fault"] for each in results})
    parts = [
        pages.table(columns, rows),
        pages.table(["RabbitMQ", "queue", "client", "runs"], counts),
        f"{len(results)} trials, {failed} failed. By version of the code: {versions}.",
    ]
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    if repeated:
        parts.append("Failed, done again, and not in the tables:")
        parts.append("\n".join(f"- {_failure(each)}" for each in repeated))
    return "\n\n".join(parts)


def _failed(row: dict[str, Any]) -> str:
    without = row["without_verdict"]
    return f"{row['failed']} ({without} without a verdict)" if without else str(row["failed"])


def _verdicts(row: dict[str, Any]) -> list[str]:
    """What was found in the trials of a fault that have a verdict."""
    if row["runs"] == row["without_verdict"]:
        return ["-"] * 6
    return [
        f"{row['messages']:,}",
        str(row["lost"]),
        str(row["requeued"]),
        f"{row['most_duplicates']} ({row['bound_there']})",
        str(row["above_bound"]),
        f"{row['median_pause_seconds']:.2f}, {row['longest_pause_seconds']:.2f}",
    ]


def _failure(result: dict[str, Any]) -> str:
    """What failed, and how: the first line of each, because a crash has many."""
    wrong = "; ".join(each.strip().partition("\n")[0] for each in result["failures"])
    what = [result[key] for key in ("fault", "queue", "version", "client")]
    return f"{', '.join(what)}: {wrong}"


def cells_of(faults: Sequence[str], brokers: Sequence[str]) -> list[Cell]:
    cells = [
        Cell(fault, queue, broker) for broker in brokers for fault in faults for queue in QUEUES
    ]
    # Only a quorum queue has a leader that others can take over from.
    return [cell for cell in cells if cell.queue == "quorum" or not cell.clustered]


def run() -> dict[str, Any]:
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        state = os.environ.get("FAULT_CAMPAIGN_STATE") or str(Path(folder) / "state.jsonl")
        campaign = Campaign(Path(state))
        run_cells(campaign, cells_of(list(BY_NAME), [INSTALLED]), 1, until=float("inf"))
    failures = [each for each in campaign.results if each["failures"]]
    return {"faults": summary(campaign.results), "failures": failures[:10], "met": not failures}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fault_campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--state", type=Path, required=True, help="file of results, to go on with")
    parser.add_argument("--again", action="store_true", help="do again what failed")
    parser.add_argument("--page", action="store_true", help="write the table into docs/faults.md")
    parser.add_argument("--faults", nargs="+", choices=BY_NAME, default=list(BY_NAME))
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=[INSTALLED, VERSIONS[-1]])
    parser.add_argument("--trials", type=int, help="of each fault, queue and broker")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after that long")
    arguments = parser.parse_args()
    campaign = Campaign(arguments.state, arguments.again)
    if arguments.page:
        pages.put("faults.md", "campaign", table(campaign.results, campaign.repeated))
        return 0
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    run_cells(
        campaign,
        cells_of(arguments.faults, arguments.brokers),
        arguments.trials,
        time.monotonic() + 60 * arguments.minutes,
    )
    return int(any(each["failures"] for each in campaign.results))


if __name__ == "__main__":
    sys.exit(main())
