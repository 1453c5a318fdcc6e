"""Every client through the same trials: changes, stops, kills, cuts, stalls, timeouts, and goals.

Each result is appended to a state file at once, and a run that is started again with that file goes
on where it stopped. From the command line::

    python -m benchmarks.client_conformance --state results.jsonl           # what is missing
    python -m benchmarks.client_conformance --state results.jsonl --table   # for docs/clients.md

``python -m benchmarks client_conformance`` does the same with ``CLIENT_CONFORMANCE_STATE``, or with
no state, at full size.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.conformance.drivers import DRIVERS, Driver
from tests.conformance.goals import GOALS, MEASURED_SAMPLES, SETTLE_SAMPLES, Goal, hold
from tests.conformance.trials import ALL_CHANGES, OTHERS, Conformance, attempt, changes
from tests.testbed import Broker, Proxy, start_broker
from tests.testbed.broker import CHOSEN_BROKER
from tests.testbed.publishing import QueueKind

BROKERS = ("3.10", "4.3")
QUEUES: tuple[QueueKind, ...] = ("classic", "quorum")


class State:
    """The results so far, in a file that only grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.results: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def has(self, what: dict[str, str]) -> bool:
        """Whether this was done already."""
        return any(what.items() <= each.items() for each in self.results)

    def add(self, result: dict[str, Any]) -> None:
        """Append one result."""
        self.results.append(result)
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")
        wrong = "; ".join(result["failures"]) or "good"
        words = [result[key] for key in ("client", "trial", "queue", "broker")]
        print(f"{', '.join(words)}: {wrong} ({result['seconds']:.0f} s)", file=sys.stderr)


@contextmanager
def broker_of(version: str) -> Iterator[Broker]:
    """A private node of this version."""
    before = os.environ.get(CHOSEN_BROKER)
    os.environ[CHOSEN_BROKER] = version
    try:
        with start_broker(disposable=True) as broker:
            yield broker
    finally:
        if before is None:
            del os.environ[CHOSEN_BROKER]
        else:
            os.environ[CHOSEN_BROKER] = before


def done(
    what: dict[str, str], state: State, do: Callable[[], dict[str, Any]], mend: Callable[[], None]
) -> None:
    """Do one thing, unless it was done; whatever it raises counts as a failure."""
    if state.has(what):
        return
    start = time.monotonic()
    try:
        result = do()
    except Exception as error:
        traceback.print_exc()
        mend()
        result = {"failures": [f"{type(error).__name__}: {error}"]}
    state.add({**what, **result, "seconds": time.monotonic() - start})


def run_trials(
    state: State, version: str, drivers: Sequence[Driver], trials: Sequence[Conformance]
) -> None:
    """Every trial of every client, on both kinds of queues of one broker."""
    with broker_of(version) as broker, broker.proxied() as proxy:

        def one(trial: Conformance, driver: Driver, kind: QueueKind) -> dict[str, Any]:
            result = attempt(trial, driver, broker, proxy, kind)
            failures = result.failures
            return {**asdict(result.verdict), "changes": result.changes, "failures": failures}

        for driver in drivers:
            for trial in trials:
                for kind in QUEUES:
                    if trial.possible(broker, kind):
                        what = _what(driver, trial.name, kind, version)
                        done(
                            what,
                            state,
                            lambda trial=trial, driver=driver, kind=kind: one(trial, driver, kind),  # type: ignore[misc]
                            lambda: _mend(proxy),
                        )


def run_goals(state: State, version: str, drivers: Sequence[Driver], samples: int) -> None:
    """Every goal through every client; the goals of one client at the same time."""

    def one(goal: Goal, driver: Driver, broker: Broker) -> dict[str, Any]:
        result = hold(goal, driver, broker, SETTLE_SAMPLES + samples)
        off = f"off by {result['deviation']:.3g}, at most {result['allowed']:g} is allowed"
        return {**result, "failures": [] if result["held"] else [off, *result["crashes"]]}

    with broker_of(version) as broker, ThreadPoolExecutor(len(GOALS)) as pool:
        for driver in drivers:
            futures = [
                pool.submit(
                    done,
                    _what(driver, goal.name, "classic", version),
                    state,
                    lambda goal=goal, driver=driver: one(goal, driver, broker),  # type: ignore[misc]
                    lambda: None,
                )
                for goal in GOALS
            ]
            for future in futures:
                future.result()


def _what(driver: Driver, trial: str, queue: str, broker: str) -> dict[str, str]:
    return {"client": driver.name, "trial": trial, "queue": queue, "broker": broker}


def _mend(proxy: Proxy) -> None:
    """Let the next trial find the network in order."""
    proxy.cut()
    proxy.resume()


def table(results: Sequence[dict[str, Any]]) -> str:
    """Who passes what, in Markdown: a row for each client, a column for each trial."""
    trials = list(dict.fromkeys(each["trial"] for each in results))
    clients = [each.name for each in DRIVERS if any(r["client"] == each.name for r in results)]
    lines = [f"| client | {' | '.join(trials)} |", f"|---|{'---|' * len(trials)}"]
    for client in clients:
        cells = [
            _cell([r for r in results if (r["client"], r["trial"]) == (client, trial)])
            for trial in trials
        ]
        lines.append(f"| {client} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(results: Sequence[dict[str, Any]]) -> str:
    """How many passed; the duplicates of faults; how far a goal was off."""
    if not results:
        return "-"
    failed = [each for each in results if each["failures"]]
    passed = f"{len(results) - len(failed)} of {len(results)}" if failed else f"{len(results)}"
    goals = [each for each in results if "deviation" in each]
    if goals:
        (goal,) = goals[-1:]
        off = goal["deviation"]
        shown = "none above" if goal["allowed"] == 0 and not off else f"{100 * off:+.2f} %"
        return shown if not failed else f"{shown} (failed)"
    most = max((each for each in results if "bound" in each), key=lambda r: r["duplicates"])
    if most["bound"] or most["duplicates"]:
        passed += f" (twice: {most['duplicates']} of {most['bound']})"
    return passed


def run() -> dict[str, Any]:
    """All of it, at full size."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ.get("CLIENT_CONFORMANCE_STATE") or str(Path(folder) / "state.jsonl")
        state = State(Path(path))
        run_all(state, BROKERS, DRIVERS, ALL_CHANGES, MEASURED_SAMPLES)
    failures = [each for each in state.results if each["failures"]]
    return {"results": state.results, "table": table(state.results), "met": not failures}


def run_all(
    state: State, brokers: Sequence[str], drivers: Sequence[Driver], count: int, samples: int
) -> None:
    """Trials on every broker, then goals on the first."""
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    for version in brokers:
        run_trials(state, version, drivers, (changes(count), *OTHERS))
    if samples:
        run_goals(state, brokers[0], drivers, samples)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client_conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [driver.name for driver in DRIVERS]
    parser.add_argument("--state", type=Path, required=True, help="file of results, to go on with")
    parser.add_argument("--table", action="store_true", help="print the table of what ran")
    parser.add_argument("--clients", nargs="+", choices=names, default=names)
    parser.add_argument("--brokers", nargs="+", default=list(BROKERS))
    parser.add_argument("--changes", type=int, default=ALL_CHANGES)
    parser.add_argument("--samples", type=int, default=MEASURED_SAMPLES, help="0 for no goals")
    arguments = parser.parse_args()
    state = State(arguments.state)
    if arguments.table:
        print(table(state.results))
        return 0
    drivers = [driver for driver in DRIVERS if driver.name in arguments.clients]
    run_all(state, arguments.brokers, drivers, arguments.changes, arguments.samples)
    return int(any(each["failures"] for each in state.results))


if __name__ == "__main__":
    sys.exit(main())
